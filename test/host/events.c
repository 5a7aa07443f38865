/* SPDX-License-Identifier: MIT */
/*
 * events: streams that wait for each other.
 *
 *	events [--rounds N]
 *
 * Shows: events recorded on one stream, waited for by another and by the CPU;
 * all four kinds of synchronisation; streams of every priority, with names.
 */
#include <getopt.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCuda.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/host/gpu.h"

static long nr_rounds = 5;

static void round_trip(const struct gpu *gpu, CUstream first, CUstream second,
		       CUevent ready, CUevent done)
{
	gpu_launch(gpu, KERNEL_GEMM_QKV, first, 50000);
	CU(cuEventRecord, ready, first);
	CU(cuStreamWaitEvent, second, ready, 0);
	gpu_launch(gpu, KERNEL_ATTENTION, second, 50000);
	CU(cuEventRecord, done, second);
	CU(cuEventSynchronize, done);
	CU(cuStreamSynchronize, first);
	CU(cuCtxSynchronize);
	TALLY("gpu", "kernels", 2);
	TALLY("syncs", "Stream Wait Event", 1);
	TALLY("syncs", "Event Sync", 1);
	TALLY("syncs", "Stream Sync", 1);
	TALLY("syncs", "Context Sync", 1);
	TALLY("events", "records", 2);
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "rounds", required_argument, NULL, 'r' },
		{ NULL, 0, NULL, 0 },
	};
	CUstream urgent, relaxed;
	CUevent ready, done;
	int lowest, highest;
	struct gpu gpu;
	long i;

	while ((i = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (i != 'r')
			return 2;
		nr_rounds = atol(optarg);
	}
	gpu_open(&gpu, 0);
	CU(cuCtxGetStreamPriorityRange, &lowest, &highest);
	CU(cuStreamCreateWithPriority, &urgent, CU_STREAM_NON_BLOCKING,
	   highest);
	CU(cuStreamCreateWithPriority, &relaxed, CU_STREAM_NON_BLOCKING,
	   lowest);
	nvtxNameCuStreamA(urgent, "urgent");
	nvtxNameCuStreamA(relaxed, "relaxed");
	CU(cuEventCreate, &ready, CU_EVENT_DISABLE_TIMING);
	CU(cuEventCreate, &done, CU_EVENT_DEFAULT);
	for (i = 0; i < nr_rounds; i++)
		round_trip(&gpu, urgent, relaxed, ready, done);
	TALLY("priority", "urgent", highest);
	TALLY("priority", "relaxed", lowest);
	CU(cuEventDestroy, ready);
	CU(cuEventDestroy, done);
	CU(cuStreamDestroy, urgent);
	CU(cuStreamDestroy, relaxed);
	gpu_close(&gpu);
	tally_print();
	return EXIT_SUCCESS;
}
