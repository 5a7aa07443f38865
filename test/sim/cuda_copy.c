// SPDX-License-Identifier: MIT
/*
 * Copies and sets. The bytes are moved at submission; the time that it takes
 * on the timeline follows from their number.
 */
#include "test/sim/cuda_sim.h"

#include <string.h>

#define INLINE_BYTES 16384	/* below, an idle stream copies by itself */

static bool on_device(unsigned int kind)
{
	return kind >= 3;
}

/* 1 HtoD, 2 DtoH, 8 DtoD, 9 HtoH: cupti_activity.h, CUpti_ActivityMemcpyKind */
static unsigned int direction(unsigned int src, unsigned int dst)
{
	if (on_device(src))
		return on_device(dst) ? 8 : 2;
	return on_device(dst) ? 1 : 9;
}

/* PCIe 5 x16 pinned 55 GB/s, pageable 20 GB/s, HBM3e both ways 2 TB/s. */
static uint64_t copy_ns(const struct sim_op *op)
{
	unsigned int bytes_per_us = op->copy_kind == 8 ? 2000000 :
		op->src_kind == 1 || op->dst_kind == 1 ? 20000 : 55000;

	return 1200 + op->bytes * 1000 / bytes_per_us;
}

/* As seen on an H200: small uploads to an idle stream take no copy engine. */
static unsigned int channel_of(const struct sim_op *op, CUstream s)
{
	bool idle = s->tail <= sim_now();

	if (op->copy_kind == 8)
		return 1;
	return op->copy_kind == 1 && op->bytes <= INLINE_BYTES && idle ? 1 : 2;
}

CUresult sim_submit_copy(CUstream s, struct sim_op *op)
{
	CUresult r;

	if (!s)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!op->bytes)
		return CUDA_SUCCESS;
	op->channel = channel_of(op, s);
	r = sim_submit(s, op, copy_ns(op));
	if (r || s->capture)
		return r;
	if (op->copy_kind != 8 && (!op->async || op->dst_kind == 1))
		sim_wait_until(op->end);
	return r;
}

static CUresult copy(uint64_t dst, uint64_t src, size_t bytes, CUstream s,
		     bool async)
{
	struct sim_op op = {
		.kind = SIM_OP_COPY, .bytes = bytes, .async = async,
		.src_kind = sim_memory_kind((void *)(uintptr_t)src),
		.dst_kind = sim_memory_kind((void *)(uintptr_t)dst),
	};

	if (!s)
		return CUDA_ERROR_INVALID_CONTEXT;
	op.copy_kind = direction(op.src_kind, op.dst_kind);
	if (!s->capture && bytes)
		memmove((void *)(uintptr_t)dst, (void *)(uintptr_t)src, bytes);
	return sim_submit_copy(s, &op);
}

static CUresult copy_peer(uint64_t dst, CUcontext to, uint64_t src,
			  CUcontext from, size_t bytes, CUstream s, bool async)
{
	struct sim_op op = {
		.kind = SIM_OP_COPY, .bytes = bytes, .async = async,
		.src_kind = 3, .dst_kind = 3, .copy_kind = 10,
	};

	if (!to || !from || !s)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (to->device == from->device)
		return copy(dst, src, bytes, s, async);
	op.src_device = from->device;
	op.src_context = from->id;
	op.dst_device = to->device;
	op.dst_context = to->id;
	memmove((void *)(uintptr_t)dst, (void *)(uintptr_t)src, bytes);
	return sim_submit_copy(s, &op);
}

static void fill(uint64_t dst, uint32_t value, size_t width, size_t n)
{
	unsigned char *p = (void *)(uintptr_t)dst;

	if (width == 1) {
		memset(p, (int)value, n);
		return;
	}
	for (size_t i = 0; i < n; i++)
		memcpy(p + i * width, &value, width);
}

static CUresult set(uint64_t dst, uint32_t value, size_t width, size_t n,
		    CUstream s, bool async)
{
	struct sim_op op = {
		.kind = SIM_OP_SET, .bytes = n * width, .value = value,
		.async = async, .channel = 1,
		.dst_kind = sim_memory_kind((void *)(uintptr_t)dst),
	};

	if (!s)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!on_device(op.dst_kind) && op.dst_kind != 2)
		return CUDA_ERROR_INVALID_VALUE;
	if (!s->capture)
		fill(dst, value, width, n);
	return sim_submit(s, &op, 1500 + n * width / 3000);
}

#define HOST(p) ((uint64_t)(uintptr_t)(p))
#define NULL_STREAM sim_stream(NULL)

SIM_API(cuMemcpy, (CUdeviceptr d, CUdeviceptr s, size_t n),
	copy(d, s, n, NULL_STREAM, false))
SIM_API(cuMemcpyHtoD_v2, (CUdeviceptr d, const void *s, size_t n),
	copy(d, HOST(s), n, NULL_STREAM, false))
SIM_API(cuMemcpyDtoH_v2, (void *d, CUdeviceptr s, size_t n),
	copy(HOST(d), s, n, NULL_STREAM, false))
SIM_API(cuMemcpyDtoD_v2, (CUdeviceptr d, CUdeviceptr s, size_t n),
	copy(d, s, n, NULL_STREAM, false))
SIM_API(cuMemcpyPeer, (CUdeviceptr d, CUcontext to, CUdeviceptr s,
	CUcontext from, size_t n),
	copy_peer(d, to, s, from, n, NULL_STREAM, false))
SIM_API(cuMemcpyAsync, (CUdeviceptr d, CUdeviceptr s, size_t n, CUstream q),
	copy(d, s, n, sim_stream(q), true))
SIM_API(cuMemcpyHtoDAsync_v2, (CUdeviceptr d, const void *s, size_t n,
	CUstream q), copy(d, HOST(s), n, sim_stream(q), true))
SIM_API(cuMemcpyDtoHAsync_v2, (void *d, CUdeviceptr s, size_t n, CUstream q),
	copy(HOST(d), s, n, sim_stream(q), true))
SIM_API(cuMemcpyDtoDAsync_v2, (CUdeviceptr d, CUdeviceptr s, size_t n,
	CUstream q), copy(d, s, n, sim_stream(q), true))
SIM_API(cuMemcpyPeerAsync, (CUdeviceptr d, CUcontext to, CUdeviceptr s,
	CUcontext from, size_t n, CUstream q),
	copy_peer(d, to, s, from, n, sim_stream(q), true))
SIM_API(cuMemsetD8_v2, (CUdeviceptr d, unsigned char v, size_t n),
	set(d, v, 1, n, NULL_STREAM, false))
SIM_API(cuMemsetD16_v2, (CUdeviceptr d, unsigned short v, size_t n),
	set(d, v, 2, n, NULL_STREAM, false))
SIM_API(cuMemsetD32_v2, (CUdeviceptr d, unsigned int v, size_t n),
	set(d, v, 4, n, NULL_STREAM, false))
SIM_API(cuMemsetD8Async, (CUdeviceptr d, unsigned char v, size_t n,
	CUstream s), set(d, v, 1, n, sim_stream(s), true))
SIM_API(cuMemsetD16Async, (CUdeviceptr d, unsigned short v, size_t n,
	CUstream s), set(d, v, 2, n, sim_stream(s), true))
SIM_API(cuMemsetD32Async, (CUdeviceptr d, unsigned int v, size_t n,
	CUstream s), set(d, v, 4, n, sim_stream(s), true))
