/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TEST_SIM_LIBRARY_GPU_H
#define GPUTRACE_TEST_SIM_LIBRARY_GPU_H

#include <sched.h>

#include "test/host/gpu.h"

/*
 * Under the simulated libraries (cuBLAS, cuDNN, NCCL): work on device 0, in
 * kernels of the module that host programs use too.  So the same library
 * works on a real GPU.
 */
#define LIBRARY_EXPORT __attribute__((visibility("default")))

/* Launches `nr` kernels of 2 us into the stream. */
static inline void library_launch(enum gpu_kernel kernel, void *stream, int nr)
{
	static struct gpu gpu;
	static atomic_int state;        /* 1: being opened, 2: open */
	int closed = 0;

	if (atomic_compare_exchange_strong(&state, &closed, 1)) {
		gpu_open(&gpu, 0);
		atomic_store(&state, 2);
	}
	while (atomic_load(&state) != 2)
		sched_yield();
	gpu_use(&gpu);
	while (nr-- > 0)
		gpu_launch(&gpu, kernel, stream, 2000);
}

#endif
