/* SPDX-License-Identifier: MIT */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/osrt_next.h"
#include "collector/torch_memory.h"
#include "inject/interpose_library.h"

/*
 * PyTorch: what its caching allocator tells a profiler, whether one is on or
 * not (collector/torch_memory.h).  The functions are C++, so their names tell
 * the types of their parameters:
 *
 *   c10::reportMemoryUsageToProfiler(void *, int64_t, T, T, c10::Device)
 *   c10::reportOutOfMemoryToProfiler(int64_t, T, T, c10::Device)
 *
 * T is size_t, in 1.13 and before int64_t; in registers they are the same.
 */

/*
 * libc10's own function: the first behind us, kept from the first call on.  The
 * caller holds its allocator's lock, so the loader's, under which a library's
 * constructor may allocate, is not taken: no dlsym().  (libc10 has symbols that
 * are unique in the process, and so is never unloaded.)
 */
static void *find_behind(const char *name, void *_Atomic *kept)
{
	struct next_symbol symbol = { .name = name, .versions = { "", "" } };

	osrt_next_find(&symbol, 1);
	atomic_store_explicit(kept, symbol.next, memory_order_release);
	return symbol.next;
}

/* Recorded first, so that the way on is a jump. */
#define TORCH_REPORT(function, parameters, arguments, tell, ...)	\
	LIBRARY_EXPORT void function parameters;			\
	static __attribute__((noinline)) void function##_tell parameters \
	{								\
		tell(&(struct torch_memory){ __VA_ARGS__ });		\
	}								\
	void function parameters					\
	{								\
		static void *_Atomic behind;				\
		void (*call) parameters = (void (*) parameters)		\
			atomic_load_explicit(&behind,			\
					     memory_order_acquire);	\
									\
		if (__builtin_expect(!call, 0))				\
			call = (void (*) parameters)			\
				find_behind(#function, &behind);	\
		if (torch_memory_is_recorded())				\
			function##_tell arguments;			\
		if (call)						\
			call arguments;					\
	}

#define TOTALS uint64_t allocated, uint64_t reserved, struct c10_device device

#define USAGE(function)							\
	TORCH_REPORT(function, (void *address, int64_t bytes, TOTALS),	\
		(address, bytes, allocated, reserved, device),		\
		torch_memory_tell,					\
		address, bytes, allocated, reserved, device)
USAGE(_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE)
USAGE(_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE)

#define OUT_OF_MEMORY(function)						\
	TORCH_REPORT(function, (int64_t bytes, TOTALS),			\
		(bytes, allocated, reserved, device),			\
		torch_memory_tell_failed,				\
		NULL, bytes, allocated, reserved, device)
OUT_OF_MEMORY(_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE)
OUT_OF_MEMORY(_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE)
