// SPDX-License-Identifier: MIT
/*
 * A disk that stands still: the simulated driver comes before the C library in
 * the order of symbols, so each pwrite() of the process passes here.
 */
#include "test/sim/cuda_sim.h"

#include <sys/syscall.h>
#include <unistd.h>

SIM_EXPORT ssize_t pwrite(int fd, const void *at, size_t size, off_t offset)
{
	uint64_t ms = sim_env_number("SIM_DISK_MS", 0);

	if (ms)
		sim_wait_until(sim_now() + ms * 1000000);
	return (ssize_t)syscall(SYS_pwrite64, fd, at, size, offset);
}
