/* SPDX-License-Identifier: MIT */
/*
 * windows: recording switched by the program (cuProfilerStart and Stop).
 *
 *	windows [--windows N] [--kernels K] [--pause-ms P]
 *
 * Shows: work between windows that must not be recorded, ranges that are open
 * across the edges of a window, a kernel that still runs when its window
 * closes, one that still runs when the next opens.  Inside run only "up",
 * "silu" and (unfinished at the close) "argmax" kernels, outside only "copy"
 * and (unfinished at the open) "flash".
 */
#include <cudaProfiler.h>
#include <getopt.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/host/gpu.h"

static long nr_windows = 3, nr_kernels = 50, pause_ms = 5;

static void launch_many(const struct gpu *gpu, enum gpu_kernel kernel)
{
	long i;

	for (i = 0; i < nr_kernels; i++)
		gpu_launch(gpu, kernel, NULL, 2000);
}

static void outside(const struct gpu *gpu)
{
	nvtxRangePushA("outside");
	launch_many(gpu, KERNEL_COPY);
	CU(cuCtxSynchronize);
	nvtxRangePop();
	TALLY("outside", "kernels", nr_kernels);
	TALLY("outside", "ranges", 1);
	usleep(pause_ms * 1000);
}

static void inside(const struct gpu *gpu)
{
	nvtxRangePushA("inside");
	launch_many(gpu, KERNEL_GEMM_UP);
	CU(cuCtxSynchronize);
	nvtxRangePop();
	nvtxRangePushA("across the close");
	gpu_launch(gpu, KERNEL_SILU, NULL, 2000);
	CU(cuCtxSynchronize);
	gpu_launch(gpu, KERNEL_ARGMAX, NULL, 3000000);
	TALLY("inside", "kernels", nr_kernels + 1);
	TALLY("inside", "unfinished kernels", 1);
	TALLY("inside", "ranges", 1);
}

static void window(const struct gpu *gpu)
{
	nvtxRangePushA("across both");
	nvtxRangePushA("across the open");
	CU(cuProfilerStart);
	nvtxRangePop();
	inside(gpu);
	CU(cuProfilerStop);
	nvtxRangePop();
	nvtxRangePop();
	CU(cuCtxSynchronize);
	TALLY("inside", "across ranges", 3);
}

static const struct option long_options[] = {
	{ "windows", required_argument, NULL, 'w' },
	{ "kernels", required_argument, NULL, 'k' },
	{ "pause-ms", required_argument, NULL, 'p' },
	{ NULL, 0, NULL, 0 },
};

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case 'w': nr_windows = atol(optarg); break;
		case 'k': nr_kernels = atol(optarg); break;
		case 'p': pause_ms = atol(optarg); break;
		default: exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	struct gpu gpu;
	long i;

	parse(argc, argv);
	gpu_open(&gpu, 0);
	for (i = 0; i < nr_windows; i++) {
		outside(&gpu);
		if (i) {
			gpu_launch(&gpu, KERNEL_FLASH, NULL, 3000000);
			TALLY("outside", "unfinished kernels", 1);
		}
		window(&gpu);
	}
	outside(&gpu);
	gpu_close(&gpu);
	tally_print();
	return EXIT_SUCCESS;
}
