// SPDX-License-Identifier: MIT
/* CUDA arrays, and copies and sets of two dimensions. */
#include "test/sim/cuda_sim.h"

#include <stdlib.h>
#include <string.h>

#define ARRAY 4			/* CUPTI's memory kind */

static size_t element_size(const CUDA_ARRAY_DESCRIPTOR *d)
{
	switch (d->Format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return d->NumChannels;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2 * d->NumChannels;
	default:
		return 4 * d->NumChannels;
	}
}

static CUresult create(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d)
{
	CUarray a;

	if (!out || !d || !d->Width)
		return CUDA_ERROR_INVALID_VALUE;
	a = calloc(1, sizeof(*a));
	if (!a)
		return CUDA_ERROR_OUT_OF_MEMORY;
	a->width = d->Width * element_size(d);
	a->height = d->Height ? d->Height : 1;
	a->memory = calloc(a->height, a->width);
	*out = a;
	return a->memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult destroy(CUarray a)
{
	if (!a)
		return CUDA_ERROR_INVALID_HANDLE;
	free(a->memory);
	free(a);
	return CUDA_SUCCESS;
}

struct end {
	unsigned char *memory;
	unsigned int kind;
	size_t pitch;
};

/* CUPTI's direction: cupti_activity.h, CUpti_ActivityMemcpyKind */
static unsigned int direction(unsigned int src, unsigned int dst)
{
	static const unsigned char table[3][3] = {	/* host, device, array */
		{ 9, 1, 3 }, { 2, 8, 7 }, { 4, 6, 5 },
	};
	int from = src == ARRAY ? 2 : src >= 3, to = dst == ARRAY ? 2 : dst >= 3;

	return table[from][to];
}

static CUresult move(struct end dst, struct end src, size_t width,
		     size_t height, CUstream s, bool async)
{
	struct sim_op op = {
		.kind = SIM_OP_COPY, .bytes = width * height, .async = async,
		.src_kind = src.kind, .dst_kind = dst.kind,
		.copy_kind = direction(src.kind, dst.kind),
	};

	if (!s)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!src.memory || !dst.memory)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t row = 0; row < height && !s->capture; row++)
		memmove(dst.memory + row * dst.pitch,
			src.memory + row * src.pitch, width);
	return sim_submit_copy(s, &op);
}

static struct end plain(const void *p, size_t pitch)
{
	return (struct end){ (unsigned char *)(uintptr_t)p, sim_memory_kind(p),
			     pitch };
}

static struct end array(CUarray a, size_t offset)
{
	return (struct end){ a ? a->memory + offset : NULL, ARRAY,
			     a ? a->width : 0 };
}

static struct end end_of(CUmemorytype type, const void *host, CUdeviceptr device,
			 CUarray a, size_t x, size_t y, size_t pitch)
{
	struct end e;

	if (type == CU_MEMORYTYPE_ARRAY)
		return array(a, y * (a ? a->width : 0) + x);
	e = plain(type == CU_MEMORYTYPE_HOST ? host :
		  (const void *)(uintptr_t)device, pitch);
	e.memory += y * pitch + x;
	return e;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream s, bool async)
{
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	return move(end_of(c->dstMemoryType, c->dstHost, c->dstDevice,
			   c->dstArray, c->dstXInBytes, c->dstY, c->dstPitch),
		    end_of(c->srcMemoryType, c->srcHost, c->srcDevice,
			   c->srcArray, c->srcXInBytes, c->srcY, c->srcPitch),
		    c->WidthInBytes, c->Height, s, async);
}

static CUresult set_2d(CUdeviceptr d, size_t pitch, unsigned char value,
		       size_t width, size_t height, CUstream s, bool async)
{
	struct sim_op op = {
		.kind = SIM_OP_SET, .bytes = width * height, .value = value,
		.async = async, .channel = 1,
		.dst_kind = sim_memory_kind((void *)(uintptr_t)d),
	};

	for (size_t row = 0; row < height; row++)
		memset((char *)(uintptr_t)d + row * pitch, value, width);
	return sim_submit(s, &op, 1500 + op.bytes / 3000);
}

#define NULL_STREAM sim_stream(NULL)
#define DEVICE(d) plain((void *)(uintptr_t)(d), 0)

SIM_API(cuArrayCreate_v2, (CUarray *a, const CUDA_ARRAY_DESCRIPTOR *d),
	create(a, d))
SIM_API(cuArrayDestroy, (CUarray a), destroy(a))
SIM_API(cuMemcpyHtoA_v2, (CUarray a, size_t at, const void *s, size_t n),
	move(array(a, at), plain(s, 0), n, 1, NULL_STREAM, false))
SIM_API(cuMemcpyAtoH_v2, (void *d, CUarray a, size_t at, size_t n),
	move(plain(d, 0), array(a, at), n, 1, NULL_STREAM, false))
SIM_API(cuMemcpyDtoA_v2, (CUarray a, size_t at, CUdeviceptr s, size_t n),
	move(array(a, at), DEVICE(s), n, 1, NULL_STREAM, false))
SIM_API(cuMemcpyAtoD_v2, (CUdeviceptr d, CUarray a, size_t at, size_t n),
	move(DEVICE(d), array(a, at), n, 1, NULL_STREAM, false))
SIM_API(cuMemcpyAtoA_v2, (CUarray d, size_t to, CUarray a, size_t at,
	size_t n), move(array(d, to), array(a, at), n, 1, NULL_STREAM, false))
SIM_API(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *c),
	copy_2d(c, NULL_STREAM, false))
SIM_API(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *c),
	copy_2d(c, NULL_STREAM, false))
SIM_API(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *c, CUstream s),
	copy_2d(c, sim_stream(s), true))
SIM_API(cuMemsetD2D8_v2, (CUdeviceptr d, size_t pitch, unsigned char v,
	size_t w, size_t h), set_2d(d, pitch, v, w, h, NULL_STREAM, false))
