/* SPDX-License-Identifier: MIT */
/*
 * copies: every direction and kind of memory, and calls that fail.
 *
 *	copies [--managed]
 *
 * Shows: copies between pageable, pinned, device and (--managed) managed
 * memory, synchronous and not, between two GPUs where there are two; sets of
 * all widths; driver calls that return an error, which a trace must show with
 * their result.  Arrays and two dimensions: arrays.c.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/host/gpu.h"

#define BYTES (1 << 20)

struct memory {
	CUdeviceptr device, other;
	char *pinned, *pageable;
	CUstream stream;
};

static void open_memory(struct memory *m)
{
	CU(cuMemAlloc, &m->device, BYTES);
	CU(cuMemAlloc, &m->other, BYTES);
	CU(cuMemAllocHost, (void **)&m->pinned, BYTES);
	CU(cuStreamCreate, &m->stream, CU_STREAM_NON_BLOCKING);
	m->pageable = malloc(BYTES);
	if (!m->pageable)
		exit(EXIT_FAILURE);
	memset(m->pageable, 1, BYTES);
	memset(m->pinned, 2, BYTES);
}

static void close_memory(struct memory *m)
{
	CU(cuStreamSynchronize, m->stream);
	CU(cuStreamDestroy, m->stream);
	CU(cuMemFree, m->device);
	CU(cuMemFree, m->other);
	CU(cuMemFreeHost, m->pinned);
	free(m->pageable);
}

static void host_to_device(struct memory *m)
{
	CU(cuMemcpyHtoD, m->device, m->pageable, BYTES);
	CU(cuMemcpyHtoDAsync, m->device, m->pageable, BYTES, m->stream);
	TALLY("copies", "Memcpy HtoD (Pageable -> Device)", 2);
	CU(cuMemcpyHtoD, m->device, m->pinned, BYTES);
	CU(cuMemcpyHtoDAsync, m->device, m->pinned, BYTES, m->stream);
	TALLY("copies", "Memcpy HtoD (Pinned -> Device)", 2);
}

static void device_to_host(struct memory *m)
{
	CU(cuMemcpyDtoH, m->pageable, m->device, BYTES);
	CU(cuMemcpyDtoHAsync, m->pageable, m->device, BYTES, m->stream);
	TALLY("copies", "Memcpy DtoH (Device -> Pageable)", 2);
	CU(cuMemcpyDtoH, m->pinned, m->device, BYTES);
	CU(cuMemcpyDtoHAsync, m->pinned, m->device, BYTES, m->stream);
	TALLY("copies", "Memcpy DtoH (Device -> Pinned)", 2);
}

static void device_to_device(struct memory *m)
{
	CU(cuMemcpyDtoD, m->other, m->device, BYTES);
	CU(cuMemcpyDtoDAsync, m->other, m->device, BYTES, m->stream);
	TALLY("copies", "Memcpy DtoD (Device -> Device)", 2);
}

static void sets(struct memory *m)
{
	CU(cuMemsetD8, m->device, 1, BYTES);
	CU(cuMemsetD16, m->device, 2, BYTES / 2);
	CU(cuMemsetD32, m->device, 3, BYTES / 4);
	CU(cuMemsetD8Async, m->device, 4, BYTES, m->stream);
	CU(cuMemsetD32Async, m->device, 5, BYTES / 4, m->stream);
	TALLY("sets", "Memset (Device)", 5);
}

/* Managed memory may live on either side, so the names are not counted. */
static void managed(struct memory *m)
{
	CUdeviceptr both;

	CU(cuMemAllocManaged, &both, BYTES, CU_MEM_ATTACH_GLOBAL);
	memset((void *)both, 3, BYTES);
	CU(cuMemcpyAsync, m->device, both, BYTES, m->stream);
	CU(cuStreamSynchronize, m->stream);
	CU(cuMemFree, both);
	TALLY("managed", "copies", 1);
}

static void between_gpus(struct memory *m, const struct gpu *gpu)
{
	CUcontext context;
	CUdeviceptr there;
	CUdevice second;
	int count;

	CU(cuDeviceGetCount, &count);
	if (count < 2)
		return;
	CU(cuDeviceGet, &second, 1);
	CU(cuDevicePrimaryCtxRetain, &context, second);
	CU(cuCtxSetCurrent, context);
	CU(cuMemAlloc, &there, BYTES);
	CU(cuCtxSetCurrent, gpu->context);
	CU(cuMemcpyPeer, there, context, m->device, gpu->context, BYTES);
	CU(cuMemcpyPeerAsync, m->device, gpu->context, there, context, BYTES,
	   m->stream);
	TALLY("copies", "Memcpy PtoP (Device -> Device)", 2);
	CU(cuStreamSynchronize, m->stream);
	CU(cuMemFree, there);
	CU(cuDevicePrimaryCtxRelease, second);
}

static void failures(const struct gpu *gpu, struct memory *m)
{
	uint64_t ns = 1000;
	void *params[] = { &ns, &ns };
	CUfunction function;
	CUdeviceptr huge;

	TRY(cuMemsetD8, 0, 1, 16);
	TRY(cuMemAlloc, &huge, (size_t)1 << 60);
	TRY(cuLaunchKernel, gpu->kernels[KERNEL_ADD], 1, 1, 1, 2048, 1, 1, 0,
	    m->stream, params, NULL);
	TRY(cuModuleGetFunction, &function, gpu->module, "no such kernel");
	TRY(cuMemFree, 12345);
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "managed", no_argument, NULL, 'm' },
		{ NULL, 0, NULL, 0 },
	};
	bool with_managed = false;
	struct memory memory;
	struct gpu gpu;
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (c != 'm')
			return 2;
		with_managed = true;
	}
	gpu_open(&gpu, 0);
	open_memory(&memory);
	host_to_device(&memory);
	device_to_host(&memory);
	device_to_device(&memory);
	sets(&memory);
	between_gpus(&memory, &gpu);
	if (with_managed)
		managed(&memory);
	failures(&gpu, &memory);
	close_memory(&memory);
	gpu_close(&gpu);
	tally_print();
	return EXIT_SUCCESS;
}
