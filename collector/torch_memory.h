/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_TORCH_MEMORY_H
#define GPUTRACE_COLLECTOR_TORCH_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * PyTorch's caching allocator: what it holds of a GPU's memory, and each
 * allocation and free, part of the source `torch`.
 *
 * The allocator (libc10_cuda.so) tells each of them to a function of libc10.so
 * which looks whether a profiler is on; inject/interpose_torch.c stands before
 * that one.  It is told with the allocator's own lock held, so that the order
 * of the totals is that of the times.
 *
 *   allocator -> wrapper -> torch_memory_tell() -> one record (source.h):
 *                  |           an instant "[memory]" on the thread, as
 *                  |           PyTorch's profiler has it, and the counter
 *                  |           "PyTorch memory" of the GPU
 *                  '------> libc10's own
 */

/* c10::Device, passed by value. */
struct c10_device {
	int8_t type;            /* c10::DeviceType */
	int8_t index;
};

/* Where the functions are that the allocator tells; NULL: the end. */
extern const char *const torch_memory_libraries[]
	__attribute__((visibility("hidden")));

/* What all tell; totals of the device, in bytes, after it. */
struct torch_memory {
	const void *address;
	int64_t bytes;          /* < 0: freed */
	uint64_t allocated, reserved;
	struct c10_device device;
};

/* One line where the calls cannot come to us.  Context: attach, before the
 * first window; takes the loader's lock. */
void torch_memory_arm(void);

/* A window is open; is over.  Context: any thread, in a fork's child too. */
void torch_memory_open(bool is_open);

/* (Visible here because it is tested inline.) */
extern _Atomic bool torch_memory_on __attribute__((visibility("hidden")));

/* Context: any thread, signal-safe. */
static inline bool torch_memory_is_recorded(void)
{
	return atomic_load_explicit(&torch_memory_on, memory_order_relaxed);
}

/* An allocation or a free; one that failed.  What is no GPU's is left out.
 * Both keep errno.  Context: any thread, the allocator's lock held; takes no
 * lock, allocates nothing but a thread's first ring. */
void torch_memory_tell(const struct torch_memory *memory);
void torch_memory_tell_failed(const struct torch_memory *memory);

#endif
