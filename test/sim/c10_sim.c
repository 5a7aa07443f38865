/* SPDX-License-Identifier: MIT */
/* libc10.so: a profiler that counts what it is told (c10_sim.h). */
#include "test/sim/c10_sim.h"

#include <stdatomic.h>

static _Atomic uint64_t nr_usage, nr_failed, errors;
static _Atomic int64_t sum;

#ifndef SIM_NONE
static void check(uint64_t allocated, uint64_t reserved,
		  struct sim_device device)
{
	if (allocated > reserved || reserved > SIM_C10_CAPACITY ||
	    device.type < 0 || device.type > 1 ||
	    device.index >= SIM_C10_DEVICES)
		atomic_fetch_add(&errors, 1);
}

void sim_usage(void *address, int64_t bytes, uint64_t allocated,
	       uint64_t reserved, struct sim_device device)
{
	check(allocated, reserved, device);
	if (!address || !bytes)
		atomic_fetch_add(&errors, 1);
	atomic_fetch_add(&nr_usage, 1);
	atomic_fetch_add(&sum, bytes);
}

void sim_out_of_memory(int64_t bytes, uint64_t allocated, uint64_t reserved,
		       struct sim_device device)
{
	check(allocated, reserved, device);
	if (bytes <= 0)
		atomic_fetch_add(&errors, 1);
	atomic_fetch_add(&nr_failed, 1);
}
#endif

void simC10Told(struct sim_c10_told *told)
{
	told->nr_usage = atomic_load(&nr_usage);
	told->nr_failed = atomic_load(&nr_failed);
	told->errors = atomic_load(&errors);
	told->bytes = atomic_load(&sum);
}
