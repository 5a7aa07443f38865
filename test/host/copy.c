/* SPDX-License-Identifier: MIT */
/*
 * copy: a program that brings a CUPTI of its own along, after ours is in use.
 *
 *	copy LIBCUPTI
 *
 * Shows: kernels before it is loaded, while it tries to record, and behind.
 * Prints what its calls returned.
 */
#include <cupti.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/host/gpu.h"

static struct gpu gpu;

static void launch(void)
{
	int i;

	for (i = 0; i < 50; i++)
		gpu_launch(&gpu, KERNEL_SILU, NULL, 2000);
	CU(cuCtxSynchronize);
	TALLY("gpu", "kernels", 50);
}

static void CUPTIAPI requested(uint8_t **buffer, size_t *size, size_t *max)
{
	*buffer = malloc(65536);
	*size = *buffer ? 65536 : 0;
	*max = 0;
}

static void CUPTIAPI completed(CUcontext context, uint32_t stream,
			       uint8_t *buffer, size_t size, size_t valid)
{
	(void)context;
	(void)stream;
	(void)size;
	TALLY("copy", "bytes", (long)valid);
	free(buffer);
}

static void record(void *library)
{
	__typeof__(&cuptiActivityRegisterCallbacks) reg =
		dlsym(library, "cuptiActivityRegisterCallbacks");
	__typeof__(&cuptiActivityEnable) enable =
		dlsym(library, "cuptiActivityEnable");
	__typeof__(&cuptiActivityDisable) disable =
		dlsym(library, "cuptiActivityDisable");
	__typeof__(&cuptiActivityFlushAll) flush =
		dlsym(library, "cuptiActivityFlushAll");

	TALLY("copy", "register", reg(requested, completed));
	TALLY("copy", "enable", enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	launch();
	TALLY("copy", "disable",
	      disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	TALLY("copy", "flush", flush(1));
}

int main(int argc, char **argv)
{
	void *library;

	gpu_open(&gpu, 0);
	launch();
	library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	if (!library) {
		fprintf(stderr, "copy: %s\n", dlerror());
		return EXIT_FAILURE;
	}
	record(library);
	launch();
	tally_print();
	return EXIT_SUCCESS;
}
