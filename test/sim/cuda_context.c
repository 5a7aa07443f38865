// SPDX-License-Identifier: MIT
/* Contexts: primary ones, created ones, the stack of each thread. */
#include "test/sim/cuda_sim.h"

#include <stdlib.h>

#define STACK 16
#define FIRST_STREAM 6		/* CUPTI's number of a context's first stream */

static CUcontext all;			/* newest first */
static CUcontext primary[SIM_MAX_DEVICES];
static unsigned int next_id = 1;
static __thread CUcontext stack[STACK];
static __thread unsigned int depth;

CUcontext sim_context(void)
{
	return depth ? stack[depth - 1] : NULL;
}

void sim_set_context(CUcontext c)
{
	if (!depth)
		depth = 1;
	stack[depth - 1] = c;
}

CUcontext sim_context_list(void)
{
	return all;
}

bool sim_context_is_valid(CUcontext c)
{
	for (CUcontext i = all; i; i = i->next)
		if (i == c)
			return true;
	return false;
}

static void add_streams(CUcontext c)
{
	/* the driver's own streams: seen so by EnableAndDump on an H200 */
	sim_stream_new(c, CU_STREAM_DEFAULT, 0);
	c->null_stream = sim_stream_new(c, CU_STREAM_DEFAULT, 0);
	for (int i = 0; i < 4; i++)
		sim_stream_new(c, CU_STREAM_NON_BLOCKING, 0);
	sim_stream_new(c, CU_STREAM_DEFAULT, -5);
}

static CUcontext new_context(unsigned int device, unsigned int flags)
{
	CUcontext c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	sim_lock();
	c->id = next_id++;
	c->device = device;
	c->flags = flags;
	c->next_stream = FIRST_STREAM;
	c->next_event = 1;
	c->references = 1;
	add_streams(c);
	c->null_id = c->null_stream->id;
	c->next = all;
	all = c;
	sim_unlock();
	return c;
}

static void announce(CUcontext c)
{
	struct sim_context_row row = {
		.context = c, .id = c->id, .device = c->device,
		.null_stream = c->null_id,
	};

	if (sim_hooks())
		sim_hooks()->resource(&(struct sim_resource){
			.cbid = 1, .context = &row });
}

static CUresult retain(CUcontext *out, CUdevice d)
{
	if (!out || d < 0 || (unsigned int)d >= sim_device_count())
		return out ? CUDA_ERROR_INVALID_DEVICE :
			CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	*out = primary[d];
	if (*out)
		(*out)->references++;
	sim_unlock();
	if (*out)
		return CUDA_SUCCESS;
	*out = new_context((unsigned int)d, 0);
	if (!*out)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(*out)->primary = true;
	primary[d] = *out;
	announce(*out);
	return CUDA_SUCCESS;
}

/* Contexts stay listed: their ids must stay known to late readers. */
static CUresult release(CUdevice d)
{
	if (d < 0 || d >= SIM_MAX_DEVICES || !primary[d])
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_lock();
	if (primary[d]->references)
		primary[d]->references--;
	sim_unlock();
	return CUDA_SUCCESS;
}

static CUresult create(CUcontext *out, unsigned int flags, CUdevice d)
{
	if (!out || d < 0 || (unsigned int)d >= sim_device_count())
		return CUDA_ERROR_INVALID_VALUE;
	*out = new_context((unsigned int)d, flags);
	if (!*out)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (depth < STACK)
		stack[depth++] = *out;
	announce(*out);
	return CUDA_SUCCESS;
}

static CUresult destroy(CUcontext c)
{
	if (!sim_context_is_valid(c))
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_wait_context(c);
	if (sim_context() == c)
		depth--;
	return CUDA_SUCCESS;
}

static CUresult push(CUcontext c)
{
	if (depth >= STACK || !sim_context_is_valid(c))
		return CUDA_ERROR_INVALID_CONTEXT;
	stack[depth++] = c;
	return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *out)
{
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (out)
		*out = stack[depth - 1];
	depth--;
	return CUDA_SUCCESS;
}

static CUresult set(CUcontext c)
{
	if (c && !sim_context_is_valid(c))
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_set_context(c);
	return CUDA_SUCCESS;
}

static CUresult synchronize(CUcontext c)
{
	struct sim_sync s = {
		.type = SIM_SYNC_CONTEXT, .stream = ~0u, .event = ~0u,
		.sync_id = ~0u,
	};

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	s.context = c->id;
	s.start = sim_now();
	sim_wait_context(c);
	s.end = sim_now();
	sim_pools_trim();
	if (sim_hooks())
		sim_hooks()->sync(&s);
	return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *out)
{
	if (!sim_context())
		return CUDA_ERROR_INVALID_CONTEXT;
	*out = (CUdevice)sim_context()->device;
	return CUDA_SUCCESS;
}

static CUresult get_limit(size_t *out, CUlimit limit)
{
	if (!sim_context())
		return CUDA_ERROR_INVALID_CONTEXT;
	*out = limit == CU_LIMIT_STACK_SIZE ? 1024 : 8 << 20;
	return CUDA_SUCCESS;
}

static CUresult priorities(int *least, int *greatest)
{
	if (!sim_context())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}

static CUresult primary_state(CUdevice d, unsigned int *flags, int *active)
{
	if (d < 0 || d >= SIM_MAX_DEVICES)
		return CUDA_ERROR_INVALID_DEVICE;
	*flags = 0;
	*active = primary[d] && primary[d]->references;
	return CUDA_SUCCESS;
}

SIM_API(cuDevicePrimaryCtxRetain, (CUcontext *c, CUdevice d), retain(c, d))
SIM_API(cuDevicePrimaryCtxRelease_v2, (CUdevice d), release(d))
SIM_API(cuDevicePrimaryCtxReset_v2, (CUdevice d), ((void)d, CUDA_SUCCESS))
SIM_API(cuDevicePrimaryCtxSetFlags_v2, (CUdevice d, unsigned int f),
	((void)d, (void)f, CUDA_SUCCESS))
SIM_API(cuDevicePrimaryCtxGetState, (CUdevice d, unsigned int *f, int *a),
	primary_state(d, f, a))
SIM_API(cuCtxCreate_v2, (CUcontext *c, unsigned int f, CUdevice d),
	create(c, f, d))
SIM_API(cuCtxCreate_v3, (CUcontext *c, CUexecAffinityParam *p, int n,
	unsigned int f, CUdevice d), ((void)p, (void)n, create(c, f, d)))
SIM_API(cuCtxCreate_v4, (CUcontext *c, CUctxCreateParams *p, unsigned int f,
	CUdevice d), ((void)p, create(c, f, d)))
SIM_API(cuCtxDestroy_v2, (CUcontext c), destroy(c))
SIM_API(cuCtxPushCurrent_v2, (CUcontext c), push(c))
SIM_API(cuCtxPopCurrent_v2, (CUcontext *c), pop(c))
SIM_API(cuCtxSetCurrent, (CUcontext c), set(c))
SIM_API(cuCtxGetCurrent, (CUcontext *c), (*c = sim_context(), CUDA_SUCCESS))
SIM_API(cuCtxGetDevice, (CUdevice *d), get_device(d))
SIM_API(cuCtxGetFlags, (unsigned int *f), (*f = 0, CUDA_SUCCESS))
SIM_API(cuCtxGetApiVersion, (CUcontext c, unsigned int *v),
	((void)c, *v = 3020, CUDA_SUCCESS))
SIM_API(cuCtxSynchronize, (void), synchronize(sim_context()))
SIM_API(cuCtxSynchronize_v2, (CUcontext c), synchronize(c))
SIM_API(cuCtxGetLimit, (size_t *v, CUlimit l), get_limit(v, l))
SIM_API(cuCtxSetLimit, (CUlimit l, size_t v), ((void)l, (void)v, CUDA_SUCCESS))
SIM_API(cuCtxGetStreamPriorityRange, (int *a, int *b), priorities(a, b))
SIM_API(cuCtxEnablePeerAccess, (CUcontext c, unsigned int f),
	((void)c, (void)f, CUDA_SUCCESS))

unsigned int sim_context_id(CUcontext c)
{
	return sim_context_is_valid(c) ? c->id : 0;
}

unsigned int sim_context_device(CUcontext c)
{
	return sim_context_is_valid(c) ? c->device : 0;
}

bool sim_get_context(unsigned int n, struct sim_context_row *out)
{
	CUcontext c;

	sim_lock();
	for (c = all; c && n; c = c->next)
		n--;
	if (c)
		*out = (struct sim_context_row){
			.context = c, .id = c->id, .device = c->device,
			.null_stream = c->null_id,
		};
	sim_unlock();
	return c;
}
