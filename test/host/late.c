/* SPDX-License-Identifier: MIT */
/*
 * late: the trace library comes when the program already uses CUDA.
 *
 *	late LIBRARY
 *
 * Shows: kernels before dlopen(LIBRARY) ("copy", not traced), kernels after
 * it ("silu", traced), inside the program's first NVTX range.
 */
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "test/host/gpu.h"

#define KERNELS 50
#define ATTACH_US 300000        /* a thread of the library attaches */

static void launch_many(const struct gpu *gpu, enum gpu_kernel kernel)
{
	int i;

	for (i = 0; i < KERNELS; i++)
		gpu_launch(gpu, kernel, NULL, 2000);
	CU(cuCtxSynchronize);
}

int main(int argc, char **argv)
{
	struct gpu gpu;

	gpu_open(&gpu, 0);
	launch_many(&gpu, KERNEL_COPY);
	TALLY("before", "kernels", KERNELS);
	if (argc > 1 && !dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL)) {
		fprintf(stderr, "late: %s\n", dlerror());
		return EXIT_FAILURE;
	}
	usleep(ATTACH_US);
	nvtxRangePushA("late range");
	launch_many(&gpu, KERNEL_SILU);
	nvtxRangePop();
	TALLY("gpu", "kernels", KERNELS);
	TALLY("ranges", "late range", 1);
	gpu_close(&gpu);
	tally_print();
	return EXIT_SUCCESS;
}
