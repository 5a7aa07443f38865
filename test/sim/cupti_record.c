// SPDX-License-Identifier: MIT
/* What the driver tells, turned into activity records (cupti_layout.c). */
#include "test/sim/cupti_sim.h"

#include <stdatomic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_uint next_correlation = 1;

/* The kernel kind that is on, or 0. */
static unsigned int kernel_kind(void)
{
	if (sim_kind_is_on(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL))
		return CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
	return sim_kind_is_on(CUPTI_ACTIVITY_KIND_KERNEL) ?
		CUPTI_ACTIVITY_KIND_KERNEL : 0;
}

/* SIM_TIMES and SIM_API_TIMES: HOW@N. */
static void spoil_times(const char *variable, uint64_t *start, uint64_t *end,
			unsigned int nth)
{
	const char *how = getenv(variable), *at = how ? strchr(how, '@') : 0;
	unsigned long every = at ? strtoul(at + 1, NULL, 10) : 1;
	uint64_t was = *start;

	if (!how || !every || nth % every)
		return;
	if (!strncmp(how, "zero", 4)) {
		*start = *end = 0;
	} else if (!strncmp(how, "reversed", 8)) {
		*start = *end;
		*end = was;
	} else if (!strncmp(how, "sentinel", 8)) {
		*start = *end = (uint64_t)1 << 63;
	} else if (!strncmp(how, "ones", 4)) {
		*end = UINT64_MAX;
	} else if (!strncmp(how, "early", 5)) {
		*start -= 3600000000000u;
		*end -= 3600000000000u;
	}
}

static void fill_sizes(CUpti_ActivityKernel10 *k, const struct sim_op *op)
{
	k->gridX = (int32_t)op->grid[0];
	k->gridY = (int32_t)op->grid[1];
	k->gridZ = (int32_t)op->grid[2];
	k->blockX = (int32_t)op->block[0];
	k->blockY = (int32_t)op->block[1];
	k->blockZ = (int32_t)op->block[2];
	k->clusterX = op->cluster[0];
	k->clusterY = op->cluster[1];
	k->clusterZ = op->cluster[2];
	k->staticSharedMemory = (int32_t)op->static_smem;
	k->dynamicSharedMemory = (int32_t)op->dynamic_smem;
	k->sharedMemoryExecuted = 32768;
	k->registersPerThread = (uint16_t)op->registers;
}

static void add_kernel(const struct sim_op *op, unsigned int kind)
{
	static atomic_uint count;
	unsigned int nth = atomic_fetch_add(&count, 1) + 1;
	uint64_t end = op->end;
	CUpti_ActivityKernel10 k = {
		.kind = kind, .start = sim_gpu_time(op->start),
		.end = sim_gpu_time(op->end), .deviceId = op->device,
		.completed = sim_gpu_time(op->end), .gridId = nth,
		.contextId = op->context, .streamId = op->stream,
		.correlationId = op->correlation, .name = op->name,
		.launchType = (uint8_t)op->launch_type,
		.graphId = op->graph, .graphNodeId = op->graph_node,
		.channelID = 1, .channelType = op->channel,
	};

	if (sim_env_number("SIM_NO_KERNELS", UINT64_MAX) <= nth)
		return;
	fill_sizes(&k, op);
	if (sim_latency_times())
		k.queued = k.submitted = k.start - 2000;
	spoil_times("SIM_TIMES", &k.start, &k.end, nth);
	k.completed = k.end;
	if (nth == sim_env_number("SIM_KEEP_OPEN", 0))
		end = UINT64_MAX;
	sim_record_add(&k, end);
}

static void add_copy(const struct sim_op *op)
{
	CUpti_ActivityMemcpy6 m = {
		.kind = CUPTI_ACTIVITY_KIND_MEMCPY,
		.copyKind = (uint8_t)op->copy_kind,
		.srcKind = (uint8_t)op->src_kind,
		.dstKind = (uint8_t)op->dst_kind, .flags = op->async,
		.bytes = op->bytes, .start = sim_gpu_time(op->start),
		.end = sim_gpu_time(op->end), .deviceId = op->device,
		.contextId = op->context, .streamId = op->stream,
		.correlationId = op->correlation, .graphId = op->graph,
		.graphNodeId = op->graph_node, .channelID = op->channel,
		.channelType = op->channel, .copyCount = 1,
	};

	sim_record_add(&m, op->end);
}

static void add_peer_copy(const struct sim_op *op)
{
	CUpti_ActivityMemcpyPtoP4 m = {
		.kind = CUPTI_ACTIVITY_KIND_MEMCPY2,
		.copyKind = (uint8_t)op->copy_kind, .srcKind = 3, .dstKind = 3,
		.flags = op->async, .bytes = op->bytes,
		.start = sim_gpu_time(op->start),
		.end = sim_gpu_time(op->end), .deviceId = op->device,
		.contextId = op->context, .streamId = op->stream,
		.srcDeviceId = op->src_device, .srcContextId = op->src_context,
		.dstDeviceId = op->dst_device, .dstContextId = op->dst_context,
		.correlationId = op->correlation, .graphId = op->graph,
		.graphNodeId = op->graph_node, .channelID = op->channel,
		.channelType = op->channel,
	};

	sim_record_add(&m, op->end);
}

static void add_set(const struct sim_op *op)
{
	CUpti_ActivityMemset4 m = {
		.kind = CUPTI_ACTIVITY_KIND_MEMSET, .value = op->value,
		.bytes = op->bytes, .start = sim_gpu_time(op->start),
		.end = sim_gpu_time(op->end), .deviceId = op->device,
		.contextId = op->context, .streamId = op->stream,
		.correlationId = op->correlation, .flags = op->async,
		.memoryKind = (uint16_t)op->dst_kind, .graphId = op->graph,
		.graphNodeId = op->graph_node, .channelID = op->channel,
		.channelType = op->channel,
	};

	sim_record_add(&m, op->end);
}

static void add_graph(const struct sim_op *op)
{
	CUpti_ActivityGraphTrace2 g = {
		.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE,
		.correlationId = op->correlation,
		.start = sim_gpu_time(op->start),
		.end = sim_gpu_time(op->end), .deviceId = op->device,
		.graphId = op->graph, .contextId = op->context,
		.streamId = op->stream, .endDeviceId = op->device,
		.endContextId = op->context,
	};

	sim_record_add(&g, op->end);
}

static void on_op(const struct sim_op *op)
{
	bool whole = sim_kind_is_on(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);

	sim_cupti_clock_check();
	if (op->kind == SIM_OP_GRAPH) {
		if (whole)
			add_graph(op);
		return;
	}
	if (op->graph && whole)		/* hides what is inside */
		return;
	if (op->kind == SIM_OP_KERNEL && kernel_kind())
		add_kernel(op, kernel_kind());
	else if (op->kind == SIM_OP_COPY && op->copy_kind == 10 &&
		 sim_kind_is_on(CUPTI_ACTIVITY_KIND_MEMCPY2))
		add_peer_copy(op);
	else if (op->kind == SIM_OP_COPY && op->copy_kind != 10 &&
		 sim_kind_is_on(CUPTI_ACTIVITY_KIND_MEMCPY))
		add_copy(op);
	else if (op->kind == SIM_OP_SET &&
		 sim_kind_is_on(CUPTI_ACTIVITY_KIND_MEMSET))
		add_set(op);
}

static void on_enter(struct sim_call *c)
{
	if (c->outer && c->outer->correlation)
		c->correlation = c->outer->correlation;
	else
		c->correlation = atomic_fetch_add(&next_correlation, 1);
	c->start = sim_cupti_now();
	sim_callback_api(c, CUPTI_API_ENTER, 0);
}

static void add_external(const struct sim_call *c)
{
	CUpti_ActivityExternalCorrelation x = {
		.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
		.correlationId = c->correlation,
	};

	if (!sim_kind_is_on(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION))
		return;
	for (unsigned int k = 0; k < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE; k++)
		if (sim_push_count(k, &x.externalId)) {
			x.externalKind = k;
			sim_record_add(&x, 0);
		}
}

/* The call inside a runtime call leaves no record, whatever is enabled. */
static void on_leave(struct sim_call *c, unsigned int result)
{
	static atomic_uint count;
	CUpti_ActivityAPI a = {
		.kind = c->domain == CUPTI_CB_DOMAIN_DRIVER_API ?
			CUPTI_ACTIVITY_KIND_DRIVER : CUPTI_ACTIVITY_KIND_RUNTIME,
		.cbid = c->cbid, .start = c->start,
		.processId = (uint32_t)getpid(), .threadId = sim_thread_id(),
		.correlationId = c->correlation, .returnValue = result,
	};

	sim_callback_api(c, CUPTI_API_EXIT, result);
	if (c->outer || !sim_api_is_on(c->domain, c->cbid))
		return;
	a.end = sim_cupti_now();
	spoil_times("SIM_API_TIMES", &a.start, &a.end,
		    atomic_fetch_add(&count, 1) + 1);
	add_external(c);
	sim_record_add(&a, 0);
}

static unsigned int call_correlation(void)
{
	struct sim_call *c = sim_current_call();

	return c ? c->correlation : 0;
}

static void tell_sync(const struct sim_sync *s)
{
	struct sim_call *c = sim_current_call();

	if (s->result || (c && c->cbid == CUPTI_DRIVER_TRACE_CBID_cuStreamQuery))
		return;
	if (s->type == SIM_SYNC_STREAM)
		sim_callback_sync(1, s);
	else if (s->type == SIM_SYNC_CONTEXT)
		sim_callback_sync(2, s);
}

static void on_sync(const struct sim_sync *s)
{
	CUpti_ActivitySynchronization2 r = {
		.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
		.type = (CUpti_ActivitySynchronizationType)s->type,
		.correlationId = call_correlation(), .contextId = s->context,
		.streamId = s->stream, .cudaEventId = s->event,
		.cudaEventSyncId = s->sync_id,
		.returnValue = (uint32_t)s->result,
	};

	tell_sync(s);
	if (!sim_kind_is_on(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION) ||
	    (s->result && !sim_all_syncs()))
		return;
	sim_cupti_clock_check();
	r.start = sim_cupti_time(s->start);
	r.end = sim_cupti_time(s->end);
	sim_record_add(&r, 0);
}

static void on_event(const struct sim_event_record *e)
{
	CUpti_ActivityCudaEvent2 r = {
		.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT,
		.correlationId = call_correlation(), .contextId = e->context,
		.streamId = e->stream, .eventId = e->event,
		.deviceId = e->device, .cudaEventSyncId = e->sync_id,
	};

	if (!sim_kind_is_on(CUPTI_ACTIVITY_KIND_CUDA_EVENT))
		return;
	if (sim_event_times())
		r.deviceTimestamp = sim_cupti_time(e->time);
	sim_record_add(&r, sim_event_times() ? e->time : 0);
}

static void add_pool(const struct sim_memory *m)
{
	CUpti_ActivityMemoryPool3 r = {
		.kind = CUPTI_ACTIVITY_KIND_MEMORY_POOL,
		.memoryPoolOperationType = m->operation,
		.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL,
		.correlationId = call_correlation(),
		.processId = (uint32_t)getpid(), .deviceId = m->device,
		.address = m->pool, .size = m->bytes,
		.timestamp = sim_cupti_now(),
	};

	if (sim_kind_is_on(CUPTI_ACTIVITY_KIND_MEMORY_POOL))
		sim_record_add(&r, 0);
}

static void on_memory(const struct sim_memory *m)
{
	CUpti_ActivityMemory4 r = {
		.kind = CUPTI_ACTIVITY_KIND_MEMORY2,
		.memoryOperationType = m->operation, .memoryKind = m->kind,
		.correlationId = call_correlation(), .address = m->address,
		.bytes = m->bytes, .timestamp = sim_cupti_now(),
		.processId = (uint32_t)getpid(), .deviceId = m->device,
		.contextId = m->context, .streamId = m->stream,
		.isAsync = m->async,
	};

	if (m->pool_operation) {
		add_pool(m);
		return;
	}
	if (!sim_kind_is_on(CUPTI_ACTIVITY_KIND_MEMORY2))
		return;
	if (m->pool) {
		r.memoryPoolConfig.memoryPoolType =
			CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
		r.memoryPoolConfig.address = m->pool;
	}
	sim_record_add(&r, 0);
}

CUpti_ActivityOverhead3 sim_overhead(unsigned int kind, uint64_t start,
				     uint64_t end)
{
	return (CUpti_ActivityOverhead3){
		.kind = CUPTI_ACTIVITY_KIND_OVERHEAD,
		.overheadKind = (CUpti_ActivityOverheadKind)kind,
		.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD,
		.objectId.pt.processId = (uint32_t)getpid(),
		.objectId.pt.threadId = sim_thread_id(),
		.start = sim_cupti_time(start), .end = sim_cupti_time(end),
		.correlationId = call_correlation(),
	};
}

/* 11.8 has no such overhead; seen in the headers of 12.4. */
static void add_load(const struct sim_load *l)
{
	CUpti_ActivityOverhead3 r = sim_overhead(
		CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING, l->start,
		l->end);

	if (sim_cupti_version() >= 22)
		sim_record_add(&r, 0);
}

static void add_jit(const struct sim_load *l)
{
	CUpti_ActivityJit2 r = {
		.kind = CUPTI_ACTIVITY_KIND_JIT,
		.jitEntryType = CUPTI_ACTIVITY_JIT_ENTRY_PTX_TO_CUBIN,
		.jitOperationType = l->cached ?
			CUPTI_ACTIVITY_JIT_OPERATION_CACHE_LOAD :
			CUPTI_ACTIVITY_JIT_OPERATION_COMPILE,
		.deviceId = l->device, .start = sim_cupti_time(l->start),
		.end = sim_cupti_time(l->end),
		.correlationId = call_correlation(),
		.processId = (uint32_t)getpid(), .threadId = sim_thread_id(),
	};

	sim_record_add(&r, 0);
}

static void on_load(const struct sim_load *l)
{
	sim_cupti_clock_check();
	if (l->compiled && sim_kind_is_on(CUPTI_ACTIVITY_KIND_JIT))
		add_jit(l);
	else if (!l->compiled && sim_kind_is_on(CUPTI_ACTIVITY_KIND_OVERHEAD))
		add_load(l);
}

/* A graph that was instantiated before GRAPH_TRACE came on: the real crash. */
static void on_graph_launch(unsigned int serial)
{
	if (sim_kind_is_on(CUPTI_ACTIVITY_KIND_GRAPH_TRACE) &&
	    serial <= sim_graph_trace_since())
		raise(SIGSEGV);
}

const struct sim_hooks sim_cupti_hooks = {
	.enter = on_enter, .leave = on_leave, .op = on_op, .sync = on_sync,
	.event = on_event, .memory = on_memory, .load = on_load,
	.resource = sim_on_resource, .graph_launch = on_graph_launch,
};
