/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "collector/loss.h"
#include "writer/items.h"
#include "writer/output.h"
#include "writer/trace.h"

/*
 * The buffers that CUPTI completed, in two passes.  Calls first, so that GPU
 * work finds its launch; then what stands on lanes by time (GPU work, waits,
 * overhead), sorted by start, so that it fills the lanes in order.
 *
 * Work whose launch has not shown up yet waits for two batches.
 */

/* Write-outs in which GPU work waits for its launch. */
enum { PENDING_CYCLES = 2 };
/* A buffer counts by its size, not by what is in it, and for so much at least:
 * those of many threads that launch little are as scarce as full ones. */
enum { SCARCE = 64 << 10 };

struct pending {
	struct waiting {
		struct activity activity;
		uint32_t cycle;
	} *list;
	size_t nr, size;
	size_t max;                     /* more is written at once, as not
					 * traced */
	struct items calls, work, spare;
	/* Taken from CUPTI, not yet written. */
	struct activity_buffer *first, **last;
	uint64_t bytes;
	bool is_forced;                 /* some by a forced flush */
};

struct pending *pending_create(uint64_t bytes)
{
	struct pending *pending = calloc(1, sizeof(*pending));

	if (!pending)
		return NULL;
	pending->last = &pending->first;
	pending->max = (size_t)bytes / sizeof(struct waiting);
	return pending;
}

static void recycle(struct pending *pending)
{
	struct activity_buffer *buffer;

	while ((buffer = pending->first)) {
		pending->first = buffer->next;
		activity_recycle(buffer);
	}
	pending->last = &pending->first;
	pending->bytes = 0;
}

void pending_destroy(struct pending *pending)
{
	if (!pending)
		return;
	recycle(pending);
	free(pending->list);
	free(pending->calls.list);
	free(pending->work.list);
	free(pending->spare.list);
	free(pending);
}

uint64_t batch_take(struct trace *trace)
{
	struct pending *pending = trace->pending;
	struct activity_buffer *buffer = activity_take();

	*pending->last = buffer;
	for (; buffer; buffer = buffer->next) {
		pending->last = &buffer->next;
		pending->bytes += buffer->size < SCARCE ? SCARCE : buffer->size;
	}
	return pending->bytes;
}

/* ---- Reading ---- */

/* Where they stand in time decides what they mean: waits, overhead. */
static uint64_t lane_start(const struct activity *activity)
{
	switch (activity->kind) {
	case ACTIVITY_SYNC:
		return activity->sync.start_ns;
	case ACTIVITY_OVERHEAD:
		return activity->overhead.start_ns;
	default:
		return activity->jit.start_ns;
	}
}

static void read_object(struct trace *trace, const struct activity *activity)
{
	struct objects *objects = &trace->objects;

	if (activity->kind == ACTIVITY_DEVICE)
		objects_add_device(objects, &activity->device);
	else if (activity->kind == ACTIVITY_CONTEXT)
		objects_add_context(objects, &activity->context);
	else if (activity->kind == ACTIVITY_STREAM)
		objects_add_stream(objects, &activity->stream);
	else
		objects_add_event(objects, &activity->event);
}

static void sort_out(struct trace *trace, const void *raw)
{
	struct pending *pending = trace->pending;
	enum activity_kind kind = activity_kind(raw);
	struct activity activity;

	if (activity_is_gpu_work(kind)) {
		items_add(&pending->work, activity_gpu_start_ns(raw), raw);
	} else if (kind == ACTIVITY_RUNTIME || kind == ACTIVITY_DRIVER) {
		items_add(&pending->calls, 0, raw);
	} else if (!activity_decode(raw, &activity)) {
		loss_add(LOSS_INVALID, 1);
	} else if (kind == ACTIVITY_DEVICE || kind == ACTIVITY_CONTEXT ||
		   kind == ACTIVITY_STREAM || kind == ACTIVITY_CUDA_EVENT) {
		read_object(trace, &activity);
	} else if (kind == ACTIVITY_SYNC || kind == ACTIVITY_OVERHEAD ||
		   kind == ACTIVITY_JIT) {
		items_add(&pending->work, lane_start(&activity), raw);
	} else {
		items_add(&pending->calls, 0, raw);
	}
}

static void read_buffers(struct trace *trace)
{
	struct activity_buffer *buffer;
	const void *raw;

	trace->pending->is_forced = false;
	for (buffer = trace->pending->first; buffer; buffer = buffer->next) {
		trace->pending->is_forced |= buffer->is_forced;
		for (raw = NULL; (raw = activity_next(buffer, raw));) {
			notice_activity(trace, raw, buffer->is_forced);
			sort_out(trace, raw);
		}
	}
}

static void write_call(struct trace *trace, const void *raw)
{
	struct activity activity;

	if (!activity_decode(raw, &activity))
		return;
	switch (activity.kind) {
	case ACTIVITY_RUNTIME:
	case ACTIVITY_DRIVER:
		encode_call(trace, &activity.api);
		break;
	case ACTIVITY_MEMORY2:
		if (windows_hold(trace, activity.memory.t_ns))
			encode_memory(trace, &activity.memory);
		break;
	case ACTIVITY_MEMORY_POOL:
		if (windows_hold(trace, activity.pool.t_ns))
			encode_pool(trace, &activity.pool);
		break;
	case ACTIVITY_UNIFIED_MEMORY:
		if (windows_hold(trace, activity.unified.start_ns))
			encode_unified(trace, &activity.unified);
		break;
	default:
		break;
	}
}

/* ---- GPU work ---- */

static void wait_for_launch(struct trace *trace,
			    const struct activity *activity, uint32_t since)
{
	struct pending *pending = trace->pending;
	size_t size = pending->size ? pending->size * 2 : 256;
	struct waiting *list;

	if (pending->nr == pending->size) {
		list = realloc(pending->list, size * sizeof(*list));
		if (!list) {
			loss_add(LOSS_TABLE_FULL, 1);
			return;
		}
		pending->list = list;
		pending->size = size;
	}
	pending->list[pending->nr].activity = *activity;
	pending->list[pending->nr++].cycle = since;
}

/* A launch that may still show up: not where calls are not recorded. */
static bool may_wait(const struct trace *trace)
{
	return trace->pending->nr < trace->pending->max &&
	       (trace->api_cycle || trace->cycle <= PENDING_CYCLES);
}

static bool gpu_times(struct trace *trace, const struct activity *activity)
{
	const struct gpu_op *op = &activity->op;

	/* A forced flush returns what was running without its end. */
	if (!op->end_ns && (op->start_ns || trace->pending->is_forced)) {
		unfinished_add(trace, activity);
		return false;
	}
	return event_times(trace, op->start_ns, op->end_ns);
}

/* What its launch tells: the ranges around it, and the operator. */
static uint32_t project(struct trace *trace, const struct gpu_op *op,
			struct call *call)
{
	struct projection projection = {
		.device = op->device, .context = op->context,
		.stream = op->stream,
		.start_ns = op->start_ns, .end_ns = op->end_ns,
	};

	encode_learn_launch(trace, call);
	if (!call->node)
		return 0;
	range_project(&trace->ranges, call->node, call->node_turn,
		      call->start_ns, &projection);
	return range_external_id(&trace->ranges, call->node, call->node_turn,
				 call->start_ns);
}

static void write_op(struct trace *trace, const struct activity *activity,
		     const struct launch *launch)
{
	switch (activity->kind) {
	case ACTIVITY_MEMCPY:
	case ACTIVITY_MEMCPY2:
		encode_copy(trace, &activity->copy, launch);
		break;
	case ACTIVITY_MEMSET:
		encode_set(trace, &activity->set, launch);
		break;
	case ACTIVITY_GRAPH_TRACE:
		encode_graph(trace, &activity->graph, launch);
		break;
	case ACTIVITY_MEM_DECOMPRESS:
		encode_decompress(trace, &activity->decompress, launch);
		break;
	default:
		encode_kernel(trace, &activity->kernel, launch);
		break;
	}
}

static bool is_kernel(const struct activity *activity)
{
	return activity->kind == ACTIVITY_KERNEL ||
	       activity->kind == ACTIVITY_CONCURRENT_KERNEL;
}

/* since: the write-out in which it came; can_wait: not long enough yet. */
static void gpu_work(struct trace *trace, struct activity *activity,
		     uint32_t since, bool can_wait)
{
	struct gpu_op *op = &activity->op;
	struct call *call = calls_find(&trace->calls, op->correlation);
	struct launch launch = { 0 };

	if (is_kernel(activity) && trace->names.globs &&
	    !names_get(&trace->names, activity->kernel.name)->is_selected)
		return;
	if ((!call || call->flags & CALL_HELD) && can_wait) {
		/* The name is CUPTI's; keep ours. */
		if (is_kernel(activity))
			activity->kernel.name = names_get(&trace->names,
				activity->kernel.name)->mangled;
		wait_for_launch(trace, activity, since);
		return;
	}
	/* Its launch, or where that is not known itself, was outside. */
	if (call ? call->flags & CALL_OUTSIDE :
	    !windows_hold(trace, op->start_ns))
		return;
	if (call)
		launch.external_id = project(trace, op, call);
	if (call && call->flags & CALL_WRITTEN &&
	    call->serial == (uint8_t)trace->serial)
		launch.call = call;
	if (launch.call && op->start_ns < call->start_ns) {
		launch.before_launch_ns = call->start_ns - op->start_ns;
		trace->nr_before_launch++;
	}
	objects_learn_context(&trace->objects, op->context, op->device);
	write_op(trace, activity, &launch);
}

static void write_waiting(struct trace *trace, bool everything)
{
	struct pending *pending = trace->pending;
	size_t nr = pending->nr, i;
	uint32_t cycle;
	bool can_wait;

	/* Those that go on waiting move to the front, in their order. */
	pending->nr = 0;
	for (i = 0; i < nr; i++) {
		struct activity activity = pending->list[i].activity;

		cycle = pending->list[i].cycle;
		can_wait = !everything &&
			trace->cycle - cycle < PENDING_CYCLES;
		gpu_work(trace, &activity, cycle, can_wait);
		output_offer(trace);
	}
}

static void on_lane(struct trace *trace, struct activity *activity)
{
	uint64_t start_ns = lane_start(activity), end_ns;

	if (activity->kind == ACTIVITY_SYNC)
		end_ns = activity->sync.end_ns;
	else if (activity->kind == ACTIVITY_OVERHEAD)
		end_ns = activity->overhead.end_ns;
	else
		end_ns = activity->jit.end_ns;
	if (!event_times(trace, start_ns, end_ns) ||
	    !windows_hold(trace, start_ns))
		return;
	if (activity->kind == ACTIVITY_SYNC)
		encode_sync(trace, &activity->sync);
	else if (activity->kind == ACTIVITY_OVERHEAD)
		encode_overhead(trace, &activity->overhead);
	else
		encode_jit(trace, &activity->jit);
}

static void write_work(struct trace *trace, const void *raw, bool everything)
{
	struct activity activity;

	if (!activity_decode(raw, &activity))
		loss_add(LOSS_INVALID, 1);
	else if (!activity_is_gpu_work(activity.kind))
		on_lane(trace, &activity);
	else if (gpu_times(trace, &activity))
		gpu_work(trace, &activity, trace->cycle,
			 !everything && may_wait(trace));
}

/* What is written at once.  Calls come first, so that work finds them: in a
 * file that is nearly full there would be calls and no work. */
static void write_part(struct trace *trace, bool everything)
{
	struct pending *pending = trace->pending;
	size_t i;

	pending->calls.nr = pending->work.nr = 0;
	read_buffers(trace);
	for (i = 0; i < pending->calls.nr; i++) {
		write_call(trace, pending->calls.list[i].raw);
		output_offer(trace);
	}
	encode_held_calls(trace, everything);
	write_waiting(trace, everything);
	items_sort(&pending->work, &pending->spare);
	for (i = 0; i < pending->work.nr; i++) {
		write_work(trace, pending->work.list[i].raw, everything);
		output_offer(trace);
	}
}

/* Cuts the list of buffers behind `bytes` of activities, at least one buffer.
 * Returns the rest. */
static struct activity_buffer *cut(struct pending *pending, uint64_t bytes)
{
	struct activity_buffer *at = pending->first, *rest;
	uint64_t sum = 0;

	for (; at && at->next; at = at->next) {
		sum += at->valid;
		if (sum >= bytes)
			break;
	}
	if (!at)
		return NULL;
	rest = at->next;
	at->next = NULL;
	return rest;
}

bool batch_write(struct trace *trace, bool everything)
{
	struct pending *pending = trace->pending;
	bool has_buffers = pending->first;
	/* An activity becomes about four times its size. */
	uint64_t part = trace->options.max_size / 64;
	struct activity_buffer *rest;

	trace->cycle++;
	trace->batch++;
	do {
		rest = cut(pending, part ? part : UINT64_MAX);
		write_part(trace, everything && !rest);
		recycle(pending);
		pending->first = rest;
	} while (rest);
	pending->last = &pending->first;
	watch_tell(&trace->noticed);
	names_forget_pointers(&trace->names);
	if (has_buffers)
		trace->ranges.cycle++;
	encode_projections(trace, everything);
	cpu_threads_sweep(&trace->threads);
	return has_buffers;
}
