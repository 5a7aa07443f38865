/* SPDX-License-Identifier: MIT */
/*
 * memory: device memory taken and given back, directly and through pools.
 *
 *	memory [--rounds N]
 *
 * Shows: allocations and releases of known sizes, pinned memory, the device's
 * default pool and a pool of the program's own, trimmed and destroyed.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/host/gpu.h"

#define BYTES (1 << 20)

static void direct(long rounds)
{
	CUdeviceptr device;
	void *pinned;
	long i;

	for (i = 0; i < rounds; i++) {
		CU(cuMemAlloc, &device, BYTES * (i + 1));
		CU(cuMemAllocHost, &pinned, BYTES);
		CU(cuMemFreeHost, pinned);
		CU(cuMemFree, device);
	}
	TALLY("memory", "allocations", 2 * rounds);
}

static void pooled(const struct gpu *gpu, CUstream stream, long rounds)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
			      .id = gpu->device },
	};
	CUdeviceptr from_default, from_own;
	CUmemoryPool pool;
	long i;

	CU(cuMemPoolCreate, &pool, &props);
	for (i = 0; i < rounds; i++) {
		CU(cuMemAllocAsync, &from_default, BYTES, stream);
		CU(cuMemAllocFromPoolAsync, &from_own, BYTES, pool, stream);
		gpu_launch(gpu, KERNEL_ADD, stream, 2000);
		CU(cuMemFreeAsync, from_own, stream);
		CU(cuMemFreeAsync, from_default, stream);
	}
	CU(cuStreamSynchronize, stream);
	CU(cuMemPoolTrimTo, pool, 0);
	CU(cuMemPoolDestroy, pool);
	TALLY("gpu", "kernels", rounds);
	TALLY("memory", "pool allocations", 2 * rounds);
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "rounds", required_argument, NULL, 'r' },
		{ NULL, 0, NULL, 0 },
	};
	long rounds = 5;
	CUstream stream;
	struct gpu gpu;
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (c != 'r')
			return 2;
		rounds = atol(optarg);
	}
	gpu_open(&gpu, 0);
	CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	direct(rounds);
	pooled(&gpu, stream, rounds);
	CU(cuStreamDestroy, stream);
	gpu_close(&gpu);
	tally_print();
	return EXIT_SUCCESS;
}
