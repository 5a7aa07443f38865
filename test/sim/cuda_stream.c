// SPDX-License-Identifier: MIT
/* Streams and events. */
#include "test/sim/cuda_sim.h"

#include <stdlib.h>
#include <string.h>

static uint64_t next_sync_id = 1;
static __thread CUstream per_thread;

CUstream sim_stream_new(CUcontext c, unsigned int flags, int priority)
{
	CUstream s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->context = c;
	s->flags = flags;
	s->priority = priority;
	s->id = c->next_stream++;
	s->next = c->streams;
	c->streams = s;
	return s;
}

void sim_stream_describe(CUstream s, struct sim_stream_row *out)
{
	*out = (struct sim_stream_row){
		.context = s->context, .stream = s,
		.context_id = s->context->id, .stream_id = s->id,
		.priority = s->priority,
		.flags = s == s->context->null_stream ? 3 :
			s->flags & CU_STREAM_NON_BLOCKING ? 2 : 1,
	};
}

void sim_stream_announce(unsigned int cbid, CUstream s)
{
	struct sim_stream_row row;

	sim_stream_describe(s, &row);
	if (sim_hooks())
		sim_hooks()->resource(&(struct sim_resource){
			.cbid = cbid, .stream = &row });
}

static CUstream own_stream(CUcontext c)
{
	if (!per_thread || per_thread->context != c) {
		sim_lock();
		per_thread = sim_stream_new(c, CU_STREAM_DEFAULT, 0);
		sim_unlock();
		/* CUPTI makes a record of it, but calls nobody back */
		sim_stream_announce(0, per_thread);
	}
	return per_thread;
}

CUstream sim_stream(CUstream s)
{
	CUcontext c = sim_context();

	if (s && s != CU_STREAM_LEGACY && s != CU_STREAM_PER_THREAD)
		return s;
	if (!c)
		return NULL;
	return s == CU_STREAM_PER_THREAD ? own_stream(c) : c->null_stream;
}

static CUresult create(CUstream *out, unsigned int flags, int priority)
{
	CUcontext c = sim_context();

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!out || flags > CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	sim_lock();
	*out = sim_stream_new(c, flags, priority);
	sim_unlock();
	if (!*out)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_stream_announce(3, *out);
	return CUDA_SUCCESS;
}

/* The structure stays: its work may still run, and its id stays known. */
static CUresult destroy(CUstream s)
{
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_stream_announce(4, s);
	return CUDA_SUCCESS;
}

static void tell_sync(struct sim_sync *sync, CUstream s)
{
	sync->context = s->context->id;
	if (sim_hooks())
		sim_hooks()->sync(sync);
}

static CUresult synchronize(CUstream s)
{
	struct sim_sync sync = {
		.type = SIM_SYNC_STREAM, .event = ~0u, .sync_id = ~0u,
		.start = sim_now(),
	};

	if (!s)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (s->capture)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	sync.stream = s->id;
	sim_wait_stream(s);
	sync.end = sim_now();
	sim_pools_trim();
	tell_sync(&sync, s);
	return CUDA_SUCCESS;
}

static CUresult query(CUstream s)
{
	struct sim_sync sync = {
		.type = SIM_SYNC_STREAM, .event = ~0u, .sync_id = ~0u,
		.start = sim_now(),
	};

	if (!s)
		return CUDA_ERROR_INVALID_CONTEXT;
	sync.stream = s->id;
	sim_lock();
	if (s->tail > sync.start ||
	    __atomic_load_n(&s->hosts_left, __ATOMIC_ACQUIRE))
		sync.result = CUDA_ERROR_NOT_READY;
	sim_unlock();
	sync.end = sim_now();
	tell_sync(&sync, s);
	return (CUresult)sync.result;
}

static CUresult wait_event(CUstream s, CUevent e)
{
	struct sim_sync sync = {
		.type = SIM_SYNC_WAIT_EVENT, .start = sim_now(),
	};

	if (!s || !e)
		return CUDA_ERROR_INVALID_HANDLE;
	if (e->capture)
		return sim_capture_join(s, e);
	sim_lock();
	if (e->time > s->tail)
		s->tail = e->time;
	sync.stream = s->id;
	sync.event = e->id;
	sync.sync_id = e->sync_id;
	sim_unlock();
	sync.end = sim_now();
	tell_sync(&sync, s);
	return CUDA_SUCCESS;
}

static CUresult get_context(CUstream s, CUcontext *c)
{
	if (!s || !c)
		return CUDA_ERROR_INVALID_VALUE;
	*c = s->context;
	return CUDA_SUCCESS;
}

SIM_API(cuStreamCreate, (CUstream *s, unsigned int f), create(s, f, 0))
SIM_API(cuStreamCreateWithPriority, (CUstream *s, unsigned int f, int p),
	create(s, f, p))
SIM_API(cuStreamDestroy_v2, (CUstream s), destroy(s))
SIM_API(cuStreamSynchronize, (CUstream s), synchronize(sim_stream(s)))
SIM_API(cuStreamQuery, (CUstream s), query(sim_stream(s)))
SIM_API(cuStreamWaitEvent, (CUstream s, CUevent e, unsigned int f),
	((void)f, wait_event(sim_stream(s), e)))
SIM_API(cuStreamGetCtx, (CUstream s, CUcontext *c),
	get_context(sim_stream(s), c))
SIM_API(cuStreamGetPriority, (CUstream s, int *p),
	(*p = sim_stream(s)->priority, CUDA_SUCCESS))
SIM_API(cuStreamGetFlags, (CUstream s, unsigned int *f),
	(*f = sim_stream(s)->flags, CUDA_SUCCESS))
SIM_API(cuStreamGetId, (CUstream s, unsigned long long *id),
	(*id = sim_stream(s)->id, CUDA_SUCCESS))

static CUresult event_create(CUevent *out, unsigned int flags)
{
	CUcontext c = sim_context();
	CUevent e = calloc(1, sizeof(*e));

	if (!c || !out || !e) {
		free(e);
		return c ? CUDA_ERROR_INVALID_VALUE :
			CUDA_ERROR_INVALID_CONTEXT;
	}
	e->context = c;
	e->flags = flags;
	sim_lock();
	e->id = c->next_event++;
	sim_unlock();
	*out = e;
	return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent e)
{
	if (!e)
		return CUDA_ERROR_INVALID_HANDLE;
	free(e->capture_last);
	free(e);
	return CUDA_SUCCESS;
}

static CUresult event_record(CUevent e, CUstream s)
{
	struct sim_event_record r = { 0 };

	if (!e || !s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (s->capture)
		return sim_capture_event(s, e);
	sim_lock();
	e->capture = NULL;
	e->time = sim_ready(s) - 700;
	if (e->time > s->tail)
		s->tail = e->time;
	e->sync_id = next_sync_id++;
	e->stream = s->id;
	r.context = s->context->id;
	r.device = s->context->device;
	r.stream = s->id;
	r.event = e->id;
	r.sync_id = e->sync_id;
	r.time = e->time;
	sim_unlock();
	if (sim_hooks())
		sim_hooks()->event(&r);
	return CUDA_SUCCESS;
}

static CUresult event_wait(CUevent e, bool only_ask)
{
	struct sim_sync sync = {
		.type = SIM_SYNC_EVENT, .stream = ~0u, .start = sim_now(),
	};
	uint64_t time;

	if (!e)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_lock();
	time = e->time;
	sync.context = e->context->id;
	sync.event = e->id;
	sync.sync_id = e->sync_id;
	sim_unlock();
	if (only_ask && time > sync.start)
		sync.result = CUDA_ERROR_NOT_READY;
	else if (time)
		sim_wait_until(time);
	sync.end = sim_now();
	if (sim_hooks())
		sim_hooks()->sync(&sync);
	return (CUresult)sync.result;
}

static CUresult elapsed(float *out, CUevent a, CUevent b)
{
	uint64_t now = sim_now();

	if (!out || !a || !b || !a->time || !b->time)
		return CUDA_ERROR_INVALID_HANDLE;
	if (a->time > now || b->time > now)
		return CUDA_ERROR_NOT_READY;
	*out = (float)((double)(int64_t)(b->time - a->time) / 1e6);
	return CUDA_SUCCESS;
}

SIM_API(cuEventCreate, (CUevent *e, unsigned int f), event_create(e, f))
SIM_API(cuEventDestroy_v2, (CUevent e), event_destroy(e))
SIM_API(cuEventRecord, (CUevent e, CUstream s), event_record(e, sim_stream(s)))
SIM_API(cuEventRecordWithFlags, (CUevent e, CUstream s, unsigned int f),
	((void)f, event_record(e, sim_stream(s))))
SIM_API(cuEventSynchronize, (CUevent e), event_wait(e, false))
SIM_API(cuEventQuery, (CUevent e), event_wait(e, true))
SIM_API(cuEventElapsedTime_v2, (float *f, CUevent a, CUevent b),
	elapsed(f, a, b))
#undef cuEventElapsedTime
CUresult CUDAAPI cuEventElapsedTime(float *f, CUevent a, CUevent b);
SIM_API(cuEventElapsedTime, (float *f, CUevent a, CUevent b), elapsed(f, a, b))

unsigned int sim_stream_id(CUcontext c, CUstream s, bool thread)
{
	/* NULL, as is usual: the current context (cupti_callbacks.h). */
	if (!c)
		c = sim_context();
	if (!sim_context_is_valid(c))
		return 0;
	if (!s || s == CU_STREAM_LEGACY)
		return thread ? own_stream(c)->id : c->null_id;
	return s == CU_STREAM_PER_THREAD ? own_stream(c)->id : s->id;
}

bool sim_get_stream(unsigned int n, struct sim_stream_row *out)
{
	CUstream found = NULL;

	sim_lock();
	for (CUcontext c = sim_context_list(); c; c = c->next)
		for (CUstream s = c->streams; s && !found; s = s->next)
			if (!n--)
				found = s;
	if (found)
		sim_stream_describe(found, out);
	sim_unlock();
	return found;
}
