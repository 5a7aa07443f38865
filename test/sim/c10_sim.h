/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TEST_SIM_C10_SIM_H
#define GPUTRACE_TEST_SIM_C10_SIM_H

#include <stddef.h>
#include <stdint.h>

/*
 * PyTorch's caching allocator, simulated: a libc10_cuda.so that allocates (no
 * memory stands behind it) and a libc10.so which it tells, by the functions and
 * the names of the real ones (as `readelf` shows them in the wheels of 1.13.1,
 * 2.4.1, 2.9.1 and 2.15.0), through its PLT and with its lock held.  With
 * -DSIM_OLD the names are those of 1.13; with -DSIM_NONE libc10.so has none.
 *
 * As the real one: a block is a multiple of 512 bytes, the device's memory is
 * taken in segments of 2 MiB and kept, and a free is told after it was made.
 */
#ifdef SIM_OLD
#define SIM_USAGE "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE"
#define SIM_OUT_OF_MEMORY \
	"_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE"
#else
#define SIM_USAGE "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
#define SIM_OUT_OF_MEMORY \
	"_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"
#endif

struct sim_device {                     /* c10::Device, 2 bytes */
	int8_t type, index;
};

void sim_usage(void *address, int64_t bytes, uint64_t allocated,
	       uint64_t reserved, struct sim_device device)
	__asm__(SIM_USAGE);
void sim_out_of_memory(int64_t bytes, uint64_t allocated, uint64_t reserved,
		       struct sim_device device) __asm__(SIM_OUT_OF_MEMORY);

/* ---- libc10_cuda.so ---- */

enum { SIM_C10_DEVICES = 4 };
#define SIM_C10_CAPACITY (UINT64_C(1) << 30)

/* NULL: the device has no room for it. */
void *simC10Malloc(int device, uint64_t bytes);
void simC10Free(void *address);

/* As torch.cuda.memory_stats() counts. */
struct sim_c10_stats {
	uint64_t allocated, reserved, peak, reserved_peak;
	uint64_t nr_allocations, nr_frees, nr_failed;
	uint64_t allocated_in_all, freed_in_all;
};
void simC10Stats(int device, struct sim_c10_stats *stats);

/* A report that is no GPU's, as of a mapped file. */
void simC10File(uint64_t bytes);

/* ---- libc10.so ---- */

/* What came through to a profiler. */
struct sim_c10_told {
	uint64_t nr_usage, nr_failed, errors;
	int64_t bytes;          /* allocated less freed */
};
void simC10Told(struct sim_c10_told *told);

#endif
