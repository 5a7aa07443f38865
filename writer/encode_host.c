/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "writer/trace.h"

/*
 * Waits (on lanes of the streams), CUPTI's own work, compilation and module
 * loading (on a lane of the program).
 */
static const char *sync_name(uint32_t type)
{
	static const char *const names[] = {
		"Unknown Sync", "Event Sync", "Stream Wait Event",
		"Stream Sync", "Context Sync",
	};

	return names[type <= SYNC_CONTEXT ? type : 0];
}

/* -1: does not apply, or is not known. */
static int64_t known(uint32_t id)
{
	return id == UINT32_MAX ? -1 : (int64_t)id;
}

static void add_wait(struct trace *trace, const struct sync *sync,
		     uint32_t stream)
{
	const struct recorded_event *event = NULL;
	struct bytes *out = &trace->out;
	bool is_wait = sync->type == SYNC_EVENT ||
		sync->type == SYNC_STREAM_WAIT;

	if (is_wait)
		event = objects_event(&trace->objects, sync->event_id,
				      sync->event_sync_id,
				      sync->correlation);
	json_member_i64(out, "wait_on_stream", event ? known(event->stream) :
			is_wait ? -1 : known(stream));
	json_member_i64(out, "wait_on_cuda_event_record_corr_id",
			event ? (int64_t)event->correlation : -1);
	json_member_i64(out, "wait_on_cuda_event_id",
			is_wait ? known(sync->event_id) : -1);
}

void encode_sync(struct trace *trace, const struct sync *sync)
{
	const char *name = sync_name(sync->type);
	const struct known_context *context;
	struct bytes *out = &trace->out;
	uint32_t stream = sync->stream;
	struct lane *lane;

	context = objects_context(&trace->objects, sync->context);
	lane = track_gpu(&trace->tracks, context ? context->device : 0,
			 sync->context, stream, ROLE_SYNC);
	lane = track_place(&trace->tracks, lane, trace->batch, sync->start_ns,
			   sync->end_ns);
	if (!lane)
		return;
	event_begin(trace, "cuda_sync", name, strlen(name), lane,
		    sync->start_ns, sync->end_ns);
	json_member_text(out, "cuda_sync_kind", name);
	add_wait(trace, sync, stream);
	/* Not the stream itself: HTA takes all that has one for GPU work, and
	 * would find the GPU busy while the host waits. */
	json_member_i64(out, "stream", -1);
	if (sync->type == SYNC_STREAM_WAIT)
		json_member_i64(out, "waiting_stream", known(stream));
	json_member_u64(out, "correlation", sync->correlation);
	json_member_u64(out, "device", context ? context->device : 0);
	json_member_u64(out, "context", sync->context);
	if (sync->result)
		json_member_i64(out, "result", sync->result);
	event_end(trace);
}

static struct lane *overhead_lane(struct trace *trace, uint64_t start_ns,
				  uint64_t end_ns)
{
	return track_place(&trace->tracks,
			   track_own(&trace->tracks, ROLE_OVERHEAD),
			   trace->batch, start_ns, end_ns);
}

/* The names that Kineto gives them. */
static const char *overhead_name(uint32_t kind)
{
	static const char *const names[] = {
		"Unrecognized", "Buffer Flush", "Instrumentation", "Resource",
		"Runtime Triggered Module Loading",
		"Lazy Function Loading", "Command Buffer Full",
		"Activity Buffer Request", "Unified Memory Start",
	};
	uint32_t i = kind >> 16;

	if (kind == 1)
		return "Driver Compiler";
	return names[i < sizeof(names) / sizeof(*names) ? i : 0];
}

void encode_overhead(struct trace *trace, const struct overhead *overhead)
{
	const char *name = overhead_name(overhead->kind);
	struct lane *lane = overhead_lane(trace, overhead->start_ns,
					  overhead->end_ns);

	if (!lane)
		return;
	event_begin(trace, "overhead", name, strlen(name), lane,
		    overhead->start_ns, overhead->end_ns);
	if (overhead->tid)
		json_member_u64(&trace->out, "thread", overhead->tid);
	/* Not "correlation": HTA would take the slice for the launch. */
	if (overhead->correlation)
		json_member_u64(&trace->out, "call correlation",
				overhead->correlation);
	event_end(trace);
}

void encode_jit(struct trace *trace, const struct jit *jit)
{
	static const char *const entries[] = { "?", "PTX to cubin",
					       "NVVM IR to PTX" };
	static const char *const operations[] = {
		"?", "load from cache", "store in cache", "compile",
	};
	struct lane *lane = overhead_lane(trace, jit->start_ns, jit->end_ns);
	char name[64];
	int len;

	if (!lane)
		return;
	len = snprintf(name, sizeof(name), "JIT %s: %s",
		       entries[jit->entry_type < 3 ? jit->entry_type : 0],
		       operations[jit->operation < 4 ? jit->operation : 0]);
	event_begin(trace, "overhead", name, (size_t)len, lane, jit->start_ns,
		    jit->end_ns);
	json_member_u64(&trace->out, "device", jit->device);
	if (jit->tid)
		json_member_u64(&trace->out, "thread", jit->tid);
	if (jit->cache_size)
		json_member_u64(&trace->out, "bytes", jit->cache_size);
	event_end(trace);
}
