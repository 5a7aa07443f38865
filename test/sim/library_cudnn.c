/* SPDX-License-Identifier: MIT */
/*
 * A cuDNN that computes nothing: descriptors that remember, getters that tell
 * as the real ones do, and a kernel for each call.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/library_gpu.h"

#define MAX_DIMS 8

/* Tensors, filters and convolutions in one. */
struct descriptor {
	int type, nr, groups;
	int dims[3][MAX_DIMS];          /* and strides; pad, stride, dilation */
};

static int create(void **descriptor)
{
	*descriptor = calloc(1, sizeof(struct descriptor));
	return *descriptor ? 0 : 2003;  /* ..._HOST_ALLOCATION_FAILED */
}

static void copy(int *to, const int *from, int nr)
{
	memcpy(to, from, nr * sizeof(*to));
}

LIBRARY_EXPORT int cudnnCreate(void **handle)
{
	return create(handle);
}

LIBRARY_EXPORT int cudnnCreateTensorDescriptor(void **descriptor)
{
	return create(descriptor);
}

LIBRARY_EXPORT int cudnnSetTensorNdDescriptor(void *tensor, int type, int nr,
	const int *dims, const int *strides)
{
	struct descriptor *it = tensor;

	it->type = type;
	it->nr = nr;
	copy(it->dims[0], dims, nr);
	copy(it->dims[1], strides, nr);
	return 0;
}

LIBRARY_EXPORT int cudnnGetTensorNdDescriptor(void *tensor, int wanted,
	int *type, int *nr, int *dims, int *strides)
{
	struct descriptor *it = tensor;
	int n = wanted < it->nr ? wanted : it->nr;

	*type = it->type;
	*nr = it->nr;
	copy(dims, it->dims[0], n);
	copy(strides, it->dims[1], n);
	return 0;
}

LIBRARY_EXPORT int cudnnCreateFilterDescriptor(void **descriptor)
{
	return create(descriptor);
}

LIBRARY_EXPORT int cudnnSetFilterNdDescriptor(void *filter, int type,
	int format, int nr, const int *dims)
{
	struct descriptor *it = filter;

	it->type = type;
	it->nr = nr;
	copy(it->dims[0], dims, nr);
	return 0;
}

LIBRARY_EXPORT int cudnnGetFilterNdDescriptor(void *filter, int wanted,
	int *type, int *format, int *nr, int *dims)
{
	struct descriptor *it = filter;

	*type = it->type;
	*format = 0;
	*nr = it->nr;
	copy(dims, it->dims[0], wanted < it->nr ? wanted : it->nr);
	return 0;
}

LIBRARY_EXPORT int cudnnCreateConvolutionDescriptor(void **descriptor)
{
	return create(descriptor);
}

LIBRARY_EXPORT int cudnnSetConvolutionNdDescriptor(void *convolution, int nr,
	const int *pad, const int *stride, const int *dilation, int mode,
	int type)
{
	struct descriptor *it = convolution;

	it->type = type;
	it->nr = nr;
	it->groups = 1;
	copy(it->dims[0], pad, nr);
	copy(it->dims[1], stride, nr);
	copy(it->dims[2], dilation, nr);
	return 0;
}

LIBRARY_EXPORT int cudnnGetConvolutionNdDescriptor(void *convolution,
	int wanted, int *nr, int *pad, int *stride, int *dilation, int *mode,
	int *type)
{
	struct descriptor *it = convolution;
	int n = wanted < it->nr ? wanted : it->nr;

	*nr = it->nr;
	copy(pad, it->dims[0], n);
	copy(stride, it->dims[1], n);
	copy(dilation, it->dims[2], n);
	*mode = 1;
	*type = it->type;
	return 0;
}

LIBRARY_EXPORT int cudnnSetConvolutionGroupCount(void *convolution, int groups)
{
	((struct descriptor *)convolution)->groups = groups;
	return 0;
}

LIBRARY_EXPORT int cudnnGetConvolutionGroupCount(void *convolution,
	int *groups)
{
	*groups = ((struct descriptor *)convolution)->groups;
	return 0;
}

static int work(void)
{
	library_launch(KERNEL_CONVOLUTION, NULL, 1);
	return 0;
}

LIBRARY_EXPORT int cudnnConvolutionForward(void *handle, const void *alpha,
	void *xd, const void *x, void *wd, const void *w, void *convolution,
	int algorithm, void *workspace, size_t size, const void *beta,
	void *yd, void *y)
{
	return work();
}

LIBRARY_EXPORT int cudnnConvolutionBackwardData(void *handle,
	const void *alpha, void *wd, const void *w, void *dyd, const void *dy,
	void *convolution, int algorithm, void *workspace, size_t size,
	const void *beta, void *dxd, void *dx)
{
	return work();
}

LIBRARY_EXPORT int cudnnConvolutionBackwardFilter(void *handle,
	const void *alpha, void *xd, const void *x, void *dyd, const void *dy,
	void *convolution, int algorithm, void *workspace, size_t size,
	const void *beta, void *dwd, void *dw)
{
	return work();
}

LIBRARY_EXPORT int cudnnSoftmaxForward(void *handle, int algorithm, int mode,
	const void *alpha, void *xd, const void *x, const void *beta, void *yd,
	void *y)
{
	return work();
}

/* Any descriptor is a plan, with this workspace. */
LIBRARY_EXPORT int cudnnBackendGetAttribute(void *plan, int name, int type,
	int64_t wanted, int64_t *nr, void *values)
{
	if (name != 402 || type != 3 || wanted != 1)
		return 3000;
	*nr = 1;
	*(int64_t *)values = 65536;
	return 0;
}

LIBRARY_EXPORT int cudnnBackendExecute(void *handle, void *plan,
	void *variants)
{
	return plan ? work() : 2000;    /* CUDNN_STATUS_BAD_PARAM */
}

LIBRARY_EXPORT int cudnnGetAttnDescriptor(void *attention, unsigned *mode,
	int *heads, double *scale, int *type, int *compute, int *math,
	void **dropout, void **post, int *q, int *k, int *v, int *qp, int *kp,
	int *vp, int *op, int *q_length, int *k_length, int *batch, int *beams)
{
	*mode = 0;
	*heads = 12;
	*scale = 0.125;
	*type = 2;
	*compute = 0;
	*math = 1;
	*dropout = *post = NULL;
	*q = 768;
	*k = 769;
	*v = 770;
	*qp = 64;
	*kp = 65;
	*vp = 66;
	*op = 0;
	*q_length = 128;
	*k_length = 256;
	*batch = 4;
	*beams = 1;
	return 0;
}

LIBRARY_EXPORT int cudnnMultiHeadAttnForward(void *handle, void *attention,
	int current, const int *low, const int *high, const int *q_lengths,
	const int *k_lengths, void *qd, const void *q, const void *residuals,
	void *kd, const void *k, void *vd, const void *v, void *od, void *o,
	size_t weight_size, const void *weights, size_t size, void *workspace,
	size_t reserve_size, void *reserve)
{
	return work();
}

LIBRARY_EXPORT int cudnnGetRNNDescriptor_v8(void *rnn, int *algorithm,
	int *cell, int *bias, int *direction, int *mode, int *type,
	int *compute, int *math, int32_t *input, int32_t *hidden,
	int32_t *projected, int32_t *layers, void **dropout, uint32_t *flags)
{
	*algorithm = *bias = *mode = *math = 0;
	*cell = 2;
	*direction = 1;
	*type = *compute = 0;
	*input = 32;
	*hidden = 48;
	*projected = 0;
	*layers = 2;
	*dropout = NULL;
	*flags = 0;
	return 0;
}

LIBRARY_EXPORT int cudnnRNNForward(void *handle, void *rnn, int mode,
	const int32_t *lengths, void *xd, const void *x, void *yd, void *y,
	void *hd, const void *hx, void *hy, void *cd, const void *cx, void *cy,
	size_t weight_size, const void *weights, size_t size, void *workspace,
	size_t reserve_size, void *reserve)
{
	return work();
}
