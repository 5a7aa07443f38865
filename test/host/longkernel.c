/* SPDX-License-Identifier: MIT */
/*
 * longkernel: one kernel in flight for long, short ones beside it.
 *
 *	longkernel [--seconds S] [--lazy]
 *
 * Shows: what reaches the trace file while a flush of CUPTI returns nothing,
 * because one kernel has not ended; with --lazy another module is loaded and
 * launched meanwhile, which may wait for the long kernel.
 */
#include <getopt.h>
#include <nvtx3/nvToolsExt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "test/host/gpu.h"

static void load_another_module(CUstream stream)
{
	char *text = gpu_module_text();
	CUfunction function;
	CUmodule module;

	CU(cuModuleLoadData, &module, text);
	CU(cuModuleGetFunction, &function, module,
	   gpu_kernel_symbol(KERNEL_FLASH));
	gpu_launch_function(function, 1, 32, 0, stream, 5000);
	TALLY("gpu", "kernels", 1);
	free(text);
}

static void launch_short_ones(const struct gpu *gpu, CUstream stream,
			      uint64_t until_ns)
{
	while (now_ns() < until_ns) {
		nvtxRangePushA("short");
		gpu_launch(gpu, KERNEL_SILU, stream, 5000);
		nvtxRangePop();
		TALLY("gpu", "kernels", 1);
		TALLY("ranges", "short", 1);
		usleep(1000);
	}
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "seconds", required_argument, NULL, 's' },
		{ "lazy", no_argument, NULL, 'l' },
		{ NULL, 0, NULL, 0 },
	};
	CUstream long_stream, short_stream;
	double seconds = 3;
	bool lazy = false;
	struct gpu gpu;
	uint64_t start;
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case 's': seconds = atof(optarg); break;
		case 'l': lazy = true; break;
		default: return 2;
		}
	}
	gpu_open(&gpu, 0);
	CU(cuStreamCreate, &long_stream, CU_STREAM_NON_BLOCKING);
	CU(cuStreamCreate, &short_stream, CU_STREAM_NON_BLOCKING);
	/* Loads both kernels: a first launch would wait for the long one. */
	gpu_launch(&gpu, KERNEL_GEMM_UP, long_stream, 5000);
	gpu_launch(&gpu, KERNEL_SILU, short_stream, 5000);
	CU(cuCtxSynchronize);
	TALLY("gpu", "kernels", 2);
	start = now_ns();
	gpu_launch(&gpu, KERNEL_GEMM_UP, long_stream, seconds * 1e9);
	TALLY("gpu", "kernels", 1);
	if (lazy)
		load_another_module(short_stream);
	launch_short_ones(&gpu, short_stream, start + seconds * 1e9);
	CU(cuStreamDestroy, long_stream);
	CU(cuStreamDestroy, short_stream);
	gpu_close(&gpu);
	tally_print();
	return EXIT_SUCCESS;
}
