/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "collector/loss.h"
#include "collector/own_thread.h"
#include "writer/trace.h"

/*
 * Runtime and driver calls.  A driver call inside a runtime call of the same
 * correlation is the same call told twice: it is held back until a later call
 * of its thread shows that no runtime call encloses it.
 */
enum { NR_SHAPES = 4096, NR_CBIDS = 1024 };

struct api_shapes {
	struct api_shape {
		const struct lane *lane;
		uint32_t cbid;
		bool is_runtime;
		struct bytes head, args;
	} slots[NR_SHAPES];
	/* Calls of this kind have led to GPU work: learned, since a list of
	 * names would miss those of the next CUDA. */
	uint8_t launches[2][NR_CBIDS];
};

struct api_shapes *api_shapes_create(void)
{
	return calloc(1, sizeof(struct api_shapes));
}

void api_shapes_destroy(struct api_shapes *shapes)
{
	int i;

	for (i = 0; shapes && i < NR_SHAPES; i++) {
		bytes_fini(&shapes->slots[i].head);
		bytes_fini(&shapes->slots[i].args);
	}
	free(shapes);
}

/* Readers expect a function's name, also where we know only a number. */
static void add_name(struct bytes *out, bool is_runtime, uint32_t cbid)
{
	const char *name = activity_api_name(is_runtime, cbid);
	char number[32];

	if (!name || strchr(name, ' ')) {
		snprintf(number, sizeof(number), "%s_%u", is_runtime ?
			 "cudaUnknown" : "cuUnknown", cbid);
		name = number;
	}
	json_member_text(out, "name", name);
}

static const struct api_shape *shape_of(struct trace *trace,
					const struct lane *lane,
					bool is_runtime, uint32_t cbid)
{
	uintptr_t hash = (uintptr_t)lane / sizeof(*lane) * 64 + cbid * 2 +
		is_runtime;
	struct api_shape *shape = &trace->apis->slots[hash % NR_SHAPES];
	struct bytes *out = &shape->head;

	if (shape->lane == lane && shape->cbid == cbid &&
	    shape->is_runtime == is_runtime && !shape->head.is_cut &&
	    !shape->args.is_cut)
		return shape;
	shape->lane = lane;
	shape->cbid = cbid;
	shape->is_runtime = is_runtime;
	bytes_clear(out);
	json_next_event(out);
	json_open(out, '{');
	json_member_text(out, "ph", "X");
	json_member_text(out, "cat", is_runtime ? "cuda_runtime" :
						  "cuda_driver");
	add_name(out, is_runtime, cbid);
	json_comma(out);
	bytes_add(out, lane->where, lane->where_len);
	json_key(out, "ts");
	out = &shape->args;
	bytes_clear(out);
	json_hole(out);
	json_key(out, "args");
	json_open(out, '{');
	json_member_u64(out, "cbid", cbid);
	json_key(out, "correlation");
	return shape->head.is_cut || shape->args.is_cut ? NULL : shape;
}

/* cudaEventRecord: which event, on which stream.  ("stream" alone would make
 * it GPU work in the eyes of HTA.) */
static void add_event(struct trace *trace, const struct api_call *call)
{
	const struct recorded_event *event;

	event = objects_event_of_call(&trace->objects, call->correlation);
	if (!event)
		return;
	json_member_u64(&trace->out, "event id", event->event_id);
	json_member_i64(&trace->out, "event stream",
			event->stream == UINT32_MAX ? -1 :
			(int64_t)event->stream);
	json_member_u64(&trace->out, "event context", event->context);
}

/* It ends with its window, as the ranges around it do; its own end was told
 * since another window had opened by then. */
static bool is_cut(const struct trace *trace, const struct api_call *call)
{
	const struct window *window = windows_find(trace, call->start_ns);

	return window && window->close_ns <= call->end_ns;
}

static void write_slice(struct trace *trace, const struct api_call *call,
			struct lane *lane)
{
	const struct api_shape *shape;
	char *to;

	shape = shape_of(trace, lane, call->is_runtime, call->cbid);
	to = shape ? bytes_room(&trace->out, shape->head.len +
				shape->args.len + 256) : NULL;
	if (!to) {
		loss_add(LOSS_TABLE_FULL, 1);
		return;
	}
	memcpy(to, shape->head.data, shape->head.len);
	to = json_put_us(to + shape->head.len,
			 call->start_ns - trace->base_ns);
	to = json_put(to, JSON_DUR);
	to = json_put_us(to, call->end_ns - call->start_ns);
	memcpy(to, shape->args.data, shape->args.len);
	to = json_put_u64(to + shape->args.len, call->correlation);
	bytes_end(&trace->out, to);
	if (call->result)
		json_member_i64(&trace->out, "result", call->result);
	if (is_cut(trace, call)) {
		json_key(&trace->out, "open");
		json_bool(&trace->out, true);
	}
	add_event(trace, call);
	stacks_tell_call(trace, call->correlation);
	to = bytes_room(&trace->out, 8);
	if (to)
		bytes_end(&trace->out, json_put(to, JSON_END_ARGS));
	lane->nr_events++;
	trace->nr_events++;
	event_ends(trace, call->end_ns);
}

/* Calls of a thread nest by nature; what does not, was told wrongly.  One
 * inside another is nearly always told close to it. */
static bool crosses_calls(struct cpu_thread *thread, uint64_t start_ns,
			  uint64_t end_ns)
{
	bool is_inside = false;
	struct gap *slot;
	int i;

	for (i = 0; i < RECENT_MAX; i++) {
		slot = &thread->recent[i];
		if ((slot->start_ns < start_ns && start_ns < slot->end_ns &&
		     slot->end_ns < end_ns) ||
		    (start_ns < slot->start_ns && slot->start_ns < end_ns &&
		     end_ns < slot->end_ns))
			return true;
		is_inside |= slot->start_ns <= start_ns &&
			end_ns <= slot->end_ns;
	}
	if (!nest_place_whole(&thread->lane->nest, start_ns, end_ns) &&
	    !is_inside)
		return true;
	slot = &thread->recent[thread->nr_recent++ % RECENT_MAX];
	slot->start_ns = start_ns;
	slot->end_ns = end_ns;
	return false;
}

static struct lane *lane_of(struct trace *trace, struct cpu_thread *thread,
			    const struct api_call *call)
{
	if (!range_crosses(&trace->ranges, thread, call->start_ns,
			   call->end_ns) &&
	    !crosses_calls(thread, call->start_ns, call->end_ns)) {
		cpu_thread_stands(thread, call->start_ns, call->end_ns);
		return thread->lane;
	}
	return track_place(&trace->tracks,
			   track_more(&trace->tracks, thread->lane),
			   ++trace->batch, call->start_ns, call->end_ns);
}

static void remember(struct trace *trace, struct cpu_thread *thread,
		     const struct api_call *call, struct lane *lane,
		     uint32_t flags)
{
	struct call *slot = calls_slot(&trace->calls, call->correlation);
	uint32_t cbid = call->cbid % NR_CBIDS;
	bool is_pending = slot->correlation == call->correlation &&
		slot->flags & CALL_PENDING;

	slot->start_ns = call->start_ns;
	slot->lane = lane;
	slot->correlation = call->correlation;
	slot->cbid = (uint16_t)call->cbid;
	slot->serial = (uint8_t)trace->serial;
	slot->flags = (uint8_t)(flags | (call->is_runtime ? CALL_RUNTIME : 0));
	slot->node = range_at(&trace->ranges, thread, call->start_ns);
	slot->node_turn = trace->ranges.nodes[slot->node].turn;
	trace->ranges.nodes[slot->node].last_cycle = trace->ranges.cycle;
	if (is_pending) {       /* a driver call, held until now */
		slot->flags |= CALL_PENDING;
	} else if (slot->node &&
		   trace->apis->launches[call->is_runtime][cbid]) {
		slot->flags |= CALL_PENDING;
		range_expect(&trace->ranges, slot->node, slot->node_turn, 1);
	}
}

void encode_learn_launch(struct trace *trace, struct call *call)
{
	bool is_runtime = call->flags & CALL_RUNTIME;

	trace->apis->launches[is_runtime][call->cbid % NR_CBIDS] = 1;
	if (call->flags & CALL_PENDING) {
		call->flags &= (uint8_t)~CALL_PENDING;
		range_expect(&trace->ranges, call->node, call->node_turn, -1);
	}
}

static void write_call(struct trace *trace, struct cpu_thread *thread,
		       const struct api_call *call)
{
	struct lane *lane = lane_of(trace, thread, call);

	if (!lane)
		return;
	write_slice(trace, call, lane);
	remember(trace, thread, call, lane, CALL_WRITTEN);
}

static void write_held(struct trace *trace, struct cpu_thread *thread,
		       uint32_t i)
{
	const struct held_call *held = &thread->held[i];
	struct api_call call = {
		.start_ns = held->start_ns, .end_ns = held->end_ns,
		.cbid = held->cbid, .correlation = held->correlation,
		.result = held->result, .tid = thread->tid,
	};

	write_call(trace, thread, &call);
}

static void drop_held(struct cpu_thread *thread, uint32_t i)
{
	thread->nr_held--;
	memmove(&thread->held[i], &thread->held[i + 1],
		(thread->nr_held - i) * sizeof(thread->held[0]));
}

/* What a new call of the thread tells of those that wait. */
static void settle_held(struct trace *trace, struct cpu_thread *thread,
			const struct api_call *call)
{
	uint32_t i = 0;

	while (i < thread->nr_held) {
		if (call->is_runtime &&
		    call->correlation == thread->held[i].correlation) {
			drop_held(thread, i);
		} else if (call->start_ns >= thread->held[i].end_ns) {
			write_held(trace, thread, i);
			drop_held(thread, i);
		} else {
			i++;
		}
	}
}

static void hold(struct trace *trace, struct cpu_thread *thread,
		 const struct api_call *call)
{
	struct held_call *held;

	if (!thread->held)
		thread->held = malloc(HELD_MAX * sizeof(*held));
	if (!thread->held) {
		loss_add(LOSS_TABLE_FULL, 1);
		return;
	}
	if (thread->nr_held == HELD_MAX) {
		write_held(trace, thread, 0);
		drop_held(thread, 0);
	}
	held = &thread->held[thread->nr_held++];
	held->start_ns = call->start_ns;
	held->end_ns = call->end_ns;
	held->cbid = call->cbid;
	held->correlation = call->correlation;
	held->result = call->result;
	held->cycle = trace->cycle;
	remember(trace, thread, call, thread->lane, CALL_HELD);
}

/* A runtime call that came after its driver call was written, or before it:
 * the call is in the file already. */
static bool is_known(struct trace *trace, const struct api_call *call)
{
	const struct call *known = calls_find(&trace->calls,
					      call->correlation);

	return known && !(known->flags & (CALL_HELD | CALL_OUTSIDE)) &&
	       !!(known->flags & CALL_RUNTIME) != call->is_runtime;
}

static void cut(const struct trace *trace, struct api_call *call)
{
	const struct window *window = windows_find(trace, call->start_ns);

	if (window && call->start_ns <= window->close_ns &&
	    window->close_ns < call->end_ns)
		call->end_ns = window->close_ns;
}

void encode_call(struct trace *trace, const struct api_call *told)
{
	struct api_call whole = *told, *call = &whole;
	struct cpu_thread *thread;

	if (own_thread_is_caller(call->tid) ||
	    !event_times(trace, call->start_ns, call->end_ns))
		return;
	cut(trace, call);
	trace->api_cycle = trace->cycle;
	thread = cpu_thread_get(&trace->threads, &trace->tracks, call->tid);
	if (!thread)
		return;
	if (call->start_ns > thread->last_call_ns)
		thread->last_call_ns = call->start_ns;
	if (thread->nr_held)
		settle_held(trace, thread, call);
	if (is_known(trace, call))
		return;
	if (!windows_hold(trace, call->start_ns))
		remember(trace, thread, call, thread->lane, CALL_OUTSIDE);
	else if (call->is_runtime || !call->correlation)
		write_call(trace, thread, call);
	else
		hold(trace, thread, call);
}

void encode_held_calls(struct trace *trace, bool everything)
{
	struct cpu_thread *thread;

	for (thread = trace->threads.list; thread; thread = thread->next) {
		while (thread->nr_held &&
		       (everything || thread->held[0].cycle != trace->cycle)) {
			write_held(trace, thread, 0);
			drop_held(thread, 0);
		}
		if (thread->is_gone && !thread->nr_held) {
			free(thread->held);
			thread->held = NULL;
		}
	}
}
