/* SPDX-License-Identifier: MIT */
/*
 * overlap: kernels on many streams at the same time.
 *
 *	overlap [--streams N] [--kernels K] [--kernel-us X]
 *
 * Shows: N lanes of one GPU that are busy together; K kernels of X us on each.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/host/gpu.h"

#define MAX_STREAMS 128

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "streams", required_argument, NULL, 's' },
		{ "kernels", required_argument, NULL, 'k' },
		{ "kernel-us", required_argument, NULL, 'x' },
		{ NULL, 0, NULL, 0 },
	};
	long nr_streams = 8, nr_kernels = 20, i, k;
	CUstream streams[MAX_STREAMS];
	double kernel_us = 200;
	struct gpu gpu;

	while ((i = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (i) {
		case 's': nr_streams = atol(optarg); break;
		case 'k': nr_kernels = atol(optarg); break;
		case 'x': kernel_us = atof(optarg); break;
		default: return 2;
		}
	}
	if (nr_streams < 1 || nr_streams > MAX_STREAMS)
		return 2;
	gpu_open(&gpu, 0);
	for (i = 0; i < nr_streams; i++)
		CU(cuStreamCreate, &streams[i], CU_STREAM_NON_BLOCKING);
	for (k = 0; k < nr_kernels; k++)
		for (i = 0; i < nr_streams; i++)
			gpu_launch(&gpu, KERNEL_SILU, streams[i],
				   kernel_us * 1000);
	TALLY("gpu", "kernels", nr_kernels * nr_streams);
	for (i = 0; i < nr_streams; i++) {
		CU(cuStreamSynchronize, streams[i]);
		CU(cuStreamDestroy, streams[i]);
	}
	gpu_close(&gpu);
	tally_print();
	return EXIT_SUCCESS;
}
