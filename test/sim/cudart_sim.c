// SPDX-License-Identifier: MIT
/*
 * A few functions of libcudart.so.13 on the simulated driver: enough to see
 * runtime calls with a driver call inside, as CUPTI sees them.
 */
#include "test/sim/sim.h"

#include <cupti_runtime_cbid.h>
#include <cudaProfiler.h>

#define RUNTIME 2		/* CUPTI_CB_DOMAIN_RUNTIME_API */

/* cudaError_t has the driver's numbers for all that can happen here. */
#define RUNTIME_API(name, version, parameters, expression)                     \
	SIM_EXPORT int name parameters;                                        \
	SIM_EXPORT int name parameters                                         \
	{                                                                      \
		struct sim_call call_;                                         \
									       \
		sim_enter(&call_, RUNTIME,                                     \
			  CUPTI_RUNTIME_TRACE_CBID_##name##_v##version);       \
		return (int)sim_leave(&call_, (CUresult)(expression));         \
	}

static __thread int device;

static CUresult use_device(void)
{
	CUcontext c = NULL;
	CUresult r = cuInit(0);

	if (!r)
		r = cuCtxGetCurrent(&c);
	if (r || c)
		return r;
	r = cuDevicePrimaryCtxRetain(&c, device);
	return r ? r : cuCtxSetCurrent(c);
}

/* The first failure, or what the call itself gives. */
#define WITH_DEVICE(call) (use_device() ? use_device() : (call))

static CUresult set_device(int d)
{
	CUcontext c;
	CUresult r = cuInit(0);

	if (!r)
		r = cuDevicePrimaryCtxRetain(&c, d);
	if (!r)
		r = cuCtxSetCurrent(c);
	if (!r)
		device = d;
	return r;
}

static CUresult copy_async(void *dst, const void *src, size_t n, int kind,
			   CUstream s)
{
	CUdeviceptr d = (CUdeviceptr)dst, p = (CUdeviceptr)src;

	switch (kind) {
	case 1:
		return cuMemcpyHtoDAsync(d, src, n, s);
	case 2:
		return cuMemcpyDtoHAsync(dst, p, n, s);
	case 3:
		return cuMemcpyDtoDAsync(d, p, n, s);
	default:
		return cuMemcpyAsync(d, p, n, s);
	}
}

RUNTIME_API(cudaGetDevice, 3020, (int *d), (*d = device, CUDA_SUCCESS))
RUNTIME_API(cudaSetDevice, 3020, (int d), set_device(d))
RUNTIME_API(cudaGetDeviceCount, 3020, (int *n),
	    (cuInit(0), cuDeviceGetCount(n)))
RUNTIME_API(cudaGetLastError, 3020, (void), CUDA_SUCCESS)
RUNTIME_API(cudaMalloc, 3020, (void **p, size_t n),
	    WITH_DEVICE(cuMemAlloc((CUdeviceptr *)p, n)))
RUNTIME_API(cudaFree, 3020, (void *p), WITH_DEVICE(cuMemFree((CUdeviceptr)p)))
RUNTIME_API(cudaMemcpyAsync, 3020,
	    (void *d, const void *s, size_t n, int kind, CUstream q),
	    WITH_DEVICE(copy_async(d, s, n, kind, q)))
RUNTIME_API(cudaMemcpy, 3020, (void *d, const void *s, size_t n, int kind),
	    ((void)kind, WITH_DEVICE(cuMemcpy((CUdeviceptr)d, (CUdeviceptr)s,
					      n))))
RUNTIME_API(cudaMemsetAsync, 3020, (void *d, int v, size_t n, CUstream s),
	    WITH_DEVICE(cuMemsetD8Async((CUdeviceptr)d, (unsigned char)v, n,
					s)))
RUNTIME_API(cudaStreamCreate, 3020, (CUstream *s),
	    WITH_DEVICE(cuStreamCreate(s, 0)))
RUNTIME_API(cudaStreamSynchronize, 3020, (CUstream s),
	    WITH_DEVICE(cuStreamSynchronize(s)))
RUNTIME_API(cudaDeviceSynchronize, 3020, (void),
	    WITH_DEVICE(cuCtxSynchronize()))
RUNTIME_API(cudaLaunchKernel, 7000, (const void *f, const unsigned int *grid,
	    const unsigned int *block, void **args, size_t smem, CUstream s),
	    WITH_DEVICE(cuLaunchKernel((CUfunction)f, grid[0], grid[1],
		grid[2], block[0], block[1], block[2], (unsigned int)smem, s,
		args, NULL)))
RUNTIME_API(cudaProfilerStart, 4000, (void), WITH_DEVICE(cuProfilerStart()))
RUNTIME_API(cudaProfilerStop, 4000, (void), WITH_DEVICE(cuProfilerStop()))
