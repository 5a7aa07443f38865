/* SPDX-License-Identifier: MIT */
/*
 * arrays: copies to and from CUDA arrays, and of two dimensions.
 *
 * Shows: the five directions that have an array at an end, pitched copies and
 * sets.  The calls are looked up, since the simulated GPU may lack them; then
 * the program says "absent" and ends with status 0.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/host/gpu.h"

#define WIDTH 256
#define HEIGHT 64
#define BYTES (WIDTH * 2 * HEIGHT)

#define CALLS(X) \
	X(array_create, cuArrayCreate) X(array_destroy, cuArrayDestroy) \
	X(htoa, cuMemcpyHtoA) X(atoh, cuMemcpyAtoH) X(dtoa, cuMemcpyDtoA) \
	X(atod, cuMemcpyAtoD) X(atoa, cuMemcpyAtoA) X(copy_2d, cuMemcpy2D) \
	X(copy_2d_async, cuMemcpy2DAsync) X(set_2d, cuMemsetD2D8)

static struct {
#define X(name, call) __typeof__(&call) name;
	CALLS(X)
#undef X
} cuda;

static bool look_up(void)
{
	bool found = true;

#define X(name, call) \
	cuda.name = (__typeof__(&call))dlsym(RTLD_DEFAULT, GPU_SYMBOL(call)); \
	found = found && cuda.name;
	CALLS(X)
#undef X
	return found;
}

#define DO(name, ...)	gpu_check(#name, cuda.name(__VA_ARGS__))

static void arrays(CUdeviceptr device, char *pinned)
{
	CUDA_ARRAY_DESCRIPTOR shape = {
		.Width = WIDTH, .Height = HEIGHT,
		.Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1,
	};
	CUarray array, other;

	DO(array_create, &array, &shape);
	DO(array_create, &other, &shape);
	DO(htoa, array, 0, pinned, WIDTH);
	TALLY("copies", "Memcpy HtoA (Pinned -> Array)", 1);
	DO(atoh, pinned, array, 0, WIDTH);
	TALLY("copies", "Memcpy AtoH (Array -> Pinned)", 1);
	DO(dtoa, array, 0, device, WIDTH);
	TALLY("copies", "Memcpy DtoA (Device -> Array)", 1);
	DO(atod, device, array, 0, WIDTH);
	TALLY("copies", "Memcpy AtoD (Array -> Device)", 1);
	DO(atoa, other, 0, array, 0, WIDTH);
	TALLY("copies", "Memcpy AtoA (Array -> Array)", 1);
	DO(array_destroy, array);
	DO(array_destroy, other);
}

static void two_dimensions(CUdeviceptr device, char *pinned)
{
	CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = pinned,
		.srcPitch = WIDTH,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = device,
		.dstPitch = WIDTH * 2,
		.WidthInBytes = WIDTH, .Height = HEIGHT,
	};

	DO(copy_2d, &copy);
	DO(copy_2d_async, &copy, NULL);
	TALLY("copies", "Memcpy HtoD (Pinned -> Device)", 2);
	DO(set_2d, device, WIDTH * 2, 6, WIDTH, HEIGHT);
	TALLY("sets", "Memset (Device)", 1);
}

int main(void)
{
	CUdeviceptr device;
	struct gpu gpu;
	char *pinned;

	if (!look_up()) {
		printf("{\"absent\": 1}\n");
		return EXIT_SUCCESS;
	}
	gpu_open(&gpu, 0);
	CU(cuMemAlloc, &device, BYTES);
	CU(cuMemAllocHost, (void **)&pinned, BYTES);
	memset(pinned, 1, BYTES);
	arrays(device, pinned);
	two_dimensions(device, pinned);
	CU(cuCtxSynchronize);
	CU(cuMemFree, device);
	CU(cuMemFreeHost, pinned);
	gpu_close(&gpu);
	tally_print();
	return EXIT_SUCCESS;
}
