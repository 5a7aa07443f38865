/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "collector/loss.h"
#include "collector/nvtx.h"
#include "collector/stack_sampler.h"
#include "writer/backlog.h"
#include "writer/output.h"
#include "writer/trace.h"

/*
 * Records of the rings: NVTX ranges, marks and names; and what a window that
 * opens or closes means for ranges.
 */
/* A device's clock may be ahead of ours, by ms where CUPTI's conversion is
 * poor.  What is a minute ahead is no time but a sign that there is none. */
#define AHEAD_NS UINT64_C(60000000000)

/* 4,096 short names and 256 long ones are 2.1 MiB; nested ranges less. */
enum { CARRY_MAX = 4 << 20 };

/* A range ends with the window in which it began, if not before. */
static uint64_t last_end(const struct trace *trace, uint32_t index,
			 uint64_t t_ns)
{
	uint64_t start_ns = trace->ranges.nodes[index].start_ns;
	const struct window *window = windows_find(trace, start_ns);

	return window && window->close_ns < t_ns ? window->close_ns : t_ns;
}

/* Closes a range and writes it.  Its thread may have looked at the clock long
 * after it looked whether the window is open: that end is the window's, too,
 * as that of the ranges around it, which are not told any more. */
static void finish_range(struct trace *trace, uint32_t index, uint64_t t_ns,
			 bool is_cut)
{
	uint64_t end_ns = last_end(trace, index, t_ns);

	if (is_cut || end_ns < t_ns)
		trace->ranges.nodes[index].flags |= NODE_CUT_OPEN;
	range_close(&trace->ranges, index, end_ns);
	encode_range(trace, &trace->ranges.nodes[index]);
	output_offer(trace);
}

static void close_pushed(struct trace *trace, struct cpu_thread *thread,
			 uint64_t t_ns)
{
	uint32_t index;

	while ((index = range_innermost_pushed(&trace->ranges, thread)))
		finish_range(trace, index, t_ns, true);
}

static void cut_started(struct trace *trace, uint32_t index, uint64_t t_ns)
{
	const struct node *node = &trace->ranges.nodes[index];
	bool has_end = node->flags & NODE_ENDING;

	finish_range(trace, index, has_end ? node->end_ns : t_ns, !has_end);
}

void drain_close_ranges(struct trace *trace, uint64_t t_ns)
{
	struct ranges *ranges = &trace->ranges;
	struct cpu_thread *thread;

	flames_close(trace, t_ns);
	for (thread = trace->threads.list; thread; thread = thread->next)
		close_pushed(trace, thread, t_ns);
	while (ranges->nr_started)
		cut_started(trace, ranges->open_started[ranges->nr_started -
							1], t_ns);
}

static const struct window *last_window(const struct trace *trace)
{
	return trace->nr_windows ? &trace->windows[trace->nr_windows - 1] :
		NULL;
}

/* A thread that is in a new window, which opened by t_ns, has left the old
 * one, with its ranges. */
static void leave_old_window(struct trace *trace, struct cpu_thread *thread,
			     uint64_t t_ns)
{
	const struct window *now = windows_find(trace, t_ns);
	uint32_t index = range_innermost_pushed(&trace->ranges, thread);

	if (index && now &&
	    trace->ranges.nodes[index].start_ns < now->open_ns)
		close_pushed(trace, thread, now->open_ns);
}

/* Levels that are still open though the program is past them: their POPs
 * were dropped when the ring was full. */
static void close_deeper(struct trace *trace, struct cpu_thread *thread,
			 const struct nvtx_domain *domain, uint64_t level,
			 uint64_t t_ns)
{
	uint32_t index;

	while ((index = range_find_deeper(&trace->ranges, thread, domain,
					  level)))
		finish_range(trace, index, t_ns, true);
}

/* 0 if the record belongs to no window. */
static uint64_t start_of(const struct trace *trace,
			 const struct range_record *record)
{
	const struct window *last = last_window(trace);

	if (last && !record->head.t_ns)
		return last->open_ns;
	return windows_hold(trace, record->head.t_ns) ? record->head.t_ns : 0;
}

/* Carried by the thread, and by us, who looked while it was silent. */
static bool is_carried(const struct trace *trace,
		       const struct cpu_thread *thread,
		       const struct range_record *record, uint64_t start_ns)
{
	uint32_t index;

	if (!(record->flags & RECORD_CARRIED))
		return false;
	index = range_find_pushed(&trace->ranges, thread, record->domain,
				  record->id);
	return index && trace->ranges.nodes[index].start_ns == start_ns;
}

static void take_push(struct trace *trace, struct cpu_thread *thread,
		      const struct range_record *record)
{
	uint64_t start_ns = start_of(trace, record);
	struct record_text text;

	if (!start_ns || is_carried(trace, thread, record, start_ns))
		return;
	leave_old_window(trace, thread, start_ns);
	close_deeper(trace, thread, record->domain, record->id, start_ns);
	text = payload_of_record(record, &trace->scratch);
	(void)range_open(&trace->ranges, thread, record, start_ns, &text);
}

/* What the program says at the end of a range. */
static void take_last(struct trace *trace, const struct range_record *record,
		      uint32_t index)
{
	const struct node *node = &trace->ranges.nodes[index];
	struct record_text text = payload_of_end(record, node->domain,
		!node->args_len && node->payload_type == PAYLOAD_NONE,
		&trace->scratch);

	if (text.args_len)
		range_add_args(&trace->ranges, index, text.args,
			       text.args_len);
}

static void take_pop(struct trace *trace, struct cpu_thread *thread,
		     const struct range_record *record)
{
	uint32_t index;

	leave_old_window(trace, thread, record->head.t_ns);
	index = range_find_pushed(&trace->ranges, thread, record->domain,
				  record->id);
	if (!index)
		return;                 /* opened before the window */
	close_deeper(trace, thread, record->domain, record->id + 1,
		     record->head.t_ns);
	take_last(trace, record, index);
	finish_range(trace, index, record->head.t_ns, false);
}

static void begin_end(struct trace *trace, uint32_t index, uint64_t t_ns)
{
	struct node *node = &trace->ranges.nodes[index];

	node->end_ns = t_ns < node->start_ns ? node->start_ns : t_ns;
	node->flags |= NODE_ENDING;
}

/* Ends that were seen at the last sweep over the rings, or before. */
static void finish_ends(struct trace *trace)
{
	struct ranges *ranges = &trace->ranges;
	struct node *node;
	uint32_t i;

	for (i = ranges->nr_started; i-- > 0;) {
		node = &ranges->nodes[ranges->open_started[i]];
		if (node->flags & NODE_ENDED)
			finish_range(trace, ranges->open_started[i],
				     node->end_ns, false);
		else if (node->flags & NODE_ENDING)
			node->flags |= NODE_ENDED;
	}
}

/* A range that was carried, by the thread that ends it and found by us, too.
 * Its part in an older window ends there. */
static bool is_known(struct trace *trace, uint64_t id, uint64_t start_ns)
{
	uint32_t index = range_find_started(&trace->ranges, id);

	if (!index)
		return false;
	if (trace->ranges.nodes[index].start_ns >= start_ns)
		return true;
	cut_started(trace, index, start_ns);
	return false;
}

static void take_start(struct trace *trace, struct cpu_thread *thread,
		       const struct range_record *record)
{
	uint64_t start_ns = start_of(trace, record), end_ns;
	struct record_text text;
	uint32_t index;

	if (!start_ns)
		return;
	if (record->flags & RECORD_CARRIED && is_known(trace, record->id,
						       start_ns))
		return;
	text = payload_of_record(record, &trace->scratch);
	index = range_open(&trace->ranges, thread, record, start_ns, &text);
	end_ns = range_take_early(&trace->ranges, record->id);
	/* An earlier one was of a range that did not exist yet: the program
	 * ends what it likes. */
	if (index && end_ns >= start_ns)
		begin_end(trace, index, end_ns);
}

static void take_end(struct trace *trace, const struct range_record *record)
{
	uint32_t index = range_find_started(&trace->ranges, record->id);

	if (index && !(trace->ranges.nodes[index].flags & NODE_ENDING)) {
		take_last(trace, record, index);
	} else if (record->head.size > RECORD_END_SIZE &&
		   record->flags & RECORD_PAYLOAD) {
		loss_add(LOSS_PAYLOAD, 1);
	}
	if (index)
		begin_end(trace, index, record->head.t_ns);
	else            /* its START is in a ring not yet read */
		range_keep_early(&trace->ranges, record->id,
				 record->head.t_ns);
}

static void take_name(struct trace *trace, const struct name_record *record)
{
	struct cpu_thread *thread;

	if (record->what == NAMED_THREAD) {
		thread = cpu_thread_get(&trace->threads, &trace->tracks,
					(uint32_t)record->handle);
		if (thread)
			cpu_thread_name(&trace->threads, thread, record->text,
					record->head.len);
	} else {
		objects_name(&trace->objects, record->what, record->handle,
			     record->text, record->head.len);
	}
}

static void take_range(struct trace *trace, struct cpu_thread *thread,
		       const struct range_record *record)
{
	switch (record->head.kind) {
	case RECORD_RANGE_PUSH:
		take_push(trace, thread, record);
		break;
	case RECORD_RANGE_POP:
		take_pop(trace, thread, record);
		break;
	case RECORD_RANGE_START:
		take_start(trace, thread, record);
		break;
	case RECORD_RANGE_END:
		take_end(trace, record);
		break;
	case RECORD_MARK:
		if (windows_hold(trace, record->head.t_ns))
			encode_mark(trace, thread, record);
		break;
	default:
		break;
	}
}

static void take(struct trace *trace, uint32_t tid,
		 const struct record *record)
{
	struct cpu_thread *thread;

	/* A record may tell of a window that opened since we looked. */
	if (trace->epoch_seen != window_epoch())
		windows_refresh(trace);
	if (record->kind == RECORD_NAME) {
		take_name(trace, (const struct name_record *)record);
		return;
	}
	if (record->kind == RECORD_SLICE || record->kind == RECORD_COUNTER ||
	    record->kind == RECORD_INSTANT) {
		encode_source(trace, tid, (const struct slice_record *)record);
		output_offer(trace);
		return;
	}
	if (record->kind == RECORD_STACK) {
		stacks_take(trace, (const void *)record);
		return;
	}
	thread = cpu_thread_get(&trace->threads, &trace->tracks, tid);
	if (thread)
		take_range(trace, thread, (const struct range_record *)record);
	output_offer(trace);
}

/* A thread's ranges can have no end after it. */
static void end_thread(struct trace *trace, uint32_t tid,
		       const struct name_record *record)
{
	struct cpu_thread *thread = cpu_thread_get(&trace->threads,
						   &trace->tracks, tid);

	if (!thread)
		return;
	close_pushed(trace, thread, record->head.t_ns);
	cpu_thread_end(&trace->tracks, thread, record->text, record->head.len,
		       record->head.t_ns);
}

/* Whose records follow: BEGIN is also the end of the one before, whose END did
 * not fit. */
static void take_mark(struct trace *trace, struct thread *state,
		      const struct name_record *record)
{
	struct cpu_thread *thread;

	if (record->head.kind == RECORD_THREAD_END) {
		end_thread(trace, state->reader_tid, record);
		/* By the next BEGIN here the id may be another thread's. */
		state->reader_tid = 0;
		return;
	}
	thread = cpu_thread_find(&trace->threads, state->reader_tid);
	if (thread) {
		close_pushed(trace, thread, record->head.t_ns);
		cpu_thread_end(&trace->tracks, thread, NULL, 0,
			       record->head.t_ns);
	}
	state->reader_tid = (uint32_t)record->handle;
	cpu_thread_begin(&trace->threads, &trace->tracks, state->reader_tid,
			 record);
}

static void drain_run(struct trace *trace, const struct backlog_run *run)
{
	const struct record *record = NULL;

	while ((record = backlog_record(run, record)))
		if (record->kind == RECORD_THREAD_BEGIN ||
		    record->kind == RECORD_THREAD_END)
			take_mark(trace, run->state, (const void *)record);
		else
			take(trace, run->state->reader_tid, record);
}

/* All that is in the rings now; where that was too much at once, the rest of
 * it (but no more: the program may be faster than we are). */
static void drain_backlog(struct trace *trace)
{
	const struct backlog_run *run;
	bool is_all = false;
	int i;

	for (i = 0; i < 2 && !is_all; i++) {
		is_all = backlog_read(trace->backlog);
		while ((run = backlog_next(trace->backlog))) {
			drain_run(trace, run);
			/* It holds more ranges than there is room for. */
			if (ranges_use(&trace->ranges) > RANGES_FULL)
				batch_write(trace, false);
		}
	}
}

/* Of the sampler: each record says of which thread it is. */
static void drain_samples(struct trace *trace)
{
	const struct record *record;
	struct ring *ring;
	uint32_t i;

	for (i = 0; (ring = stack_sampler_ring(i)); i++) {
		while ((record = ring_peek(ring))) {
			take(trace, 0, record);
			ring_release(ring);
		}
		loss_add(LOSS_STACKS, ring_take_drops(ring));
	}
}

static void take_carried(struct trace *trace, uint32_t tid, const char *at,
			 size_t len)
{
	const struct record *record;

	while (len >= sizeof(*record)) {
		record = (const struct record *)(const void *)at;
		if (record->size < sizeof(*record) || record->size > len)
			return;
		take(trace, tid, record);
		at += record->size;
		len -= record->size;
	}
}

/* Ranges that were open when the window opened, of threads that have been
 * silent since.  Where it is over by now, they may be of later. */
static void carry(struct trace *trace)
{
	struct thread *state = NULL;
	char *buffer = malloc(CARRY_MAX);
	size_t len;

	if (!buffer)
		return;
	while ((state = thread_next(state))) {
		len = nvtx_carry(state, trace->epoch, buffer, CARRY_MAX);
		if (window_epoch() == trace->epoch)
			take_carried(trace, thread_tid(state), buffer, len);
	}
	len = nvtx_carry_started(trace->epoch, buffer, CARRY_MAX);
	if (window_epoch() == trace->epoch)
		take_carried(trace, trace->pid, buffer, len);
	free(buffer);
}

/* Start/end ranges of the window before, and pushed ones, end with it.  (The
 * newest that we know may be a later one: what is open may end before that.) */
static void enter_window(struct trace *trace)
{
	uint64_t open_ns = window_opened_ns(trace->epoch);
	struct ranges *ranges = &trace->ranges;
	struct cpu_thread *thread;
	uint32_t i;

	for (thread = trace->threads.list; thread; thread = thread->next)
		leave_old_window(trace, thread, open_ns);
	for (i = ranges->nr_started; i-- > 0;)
		if (ranges->nodes[ranges->open_started[i]].start_ns < open_ns)
			cut_started(trace, ranges->open_started[i], open_ns);
	carry(trace);
}

void drain_rings(struct trace *trace)
{
	const struct window *last;
	uint32_t epoch = window_epoch();

	trace->last_ns = clock_now_ns() + AHEAD_NS;
	if (window_is_open(epoch))
		backlog_wake(trace->backlog);
	windows_refresh(trace);
	drain_backlog(trace);
	drain_samples(trace);
	finish_ends(trace);
	last = last_window(trace);
	if (epoch != trace->epoch) {
		trace->epoch = epoch;
		if (window_is_open(epoch))
			enter_window(trace);
	} else if (!window_is_open(epoch) && epoch == trace->epoch_seen &&
		   last) {
		/* The second look after it closed: what was on its way into
		 * the rings then is here.  If records told of the next one
		 * meanwhile, entering that ends what is open. */
		drain_close_ranges(trace, last->close_ns);
	}
}
