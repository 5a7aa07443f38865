/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "collector/loss.h"
#include "writer/trace.h"

/*
 * What sources other than CUPTI and NVTX tell (collector/source.h): slices on
 * rows beside their threads', counters, and instants on the threads.  All that
 * is known of a source is in the kind that its record points at.
 */
static void add_value(struct bytes *out, const struct value_field *field,
		      uint64_t bits)
{
	double number;

	if ((field->type == VALUE_ABSENT_0 || field->type == VALUE_STRING ||
	     field->type == VALUE_TRUE) && !bits)
		return;
	json_key(out, field->name);
	switch (field->type) {
	case VALUE_I64:
		json_i64(out, (int64_t)bits);
		break;
	case VALUE_DOUBLE:
		memcpy(&number, &bits, sizeof number);
		json_double(out, number);
		break;
	case VALUE_WORD:
		json_text(out, field->words[bits]);
		break;
	case VALUE_STRING:
		json_text(out, (const char *)(uintptr_t)bits);
		break;
	case VALUE_TRUE:
		json_bool(out, true);
		break;
	default:
		json_u64(out, bits);
		break;
	}
}

/* As many as the kind has names for. */
static void add_values(struct bytes *out, const struct slice_record *record,
		       const struct slice_kind *kind)
{
	const struct value_field *field = kind->fields;
	uint32_t i;

	for (i = 0; i < record->nr_values && field[i].name; i++)
		add_value(out, &field[i], record->values[i]);
}

static struct lane *lane_of(struct trace *trace, uint32_t tid,
			    const struct slice_record *record,
			    uint64_t start_ns, uint64_t end_ns)
{
	enum role role = ROLE_OSRT + record->kind->row;
	struct cpu_thread *thread;
	struct lane *lane;

	if (role == ROLE_PROCESS) {
		lane = track_own(&trace->tracks, role);
	} else {
		thread = cpu_thread_get(&trace->threads, &trace->tracks, tid);
		lane = thread ? track_row(&trace->tracks, thread->lane, role) :
			NULL;
	}
	/* Each on its own: what is inside another comes before it. */
	return track_place(&trace->tracks, lane, ++trace->batch, start_ns,
			   end_ns);
}

static void write_slice(struct trace *trace, uint32_t tid,
			const struct slice_record *record, uint64_t start_ns,
			uint64_t end_ns)
{
	const struct slice_kind *kind = record->kind;
	const char *text = (const char *)(record->values + record->nr_values);
	struct bytes *out = &trace->out;
	struct lane *lane = lane_of(trace, tid, record, start_ns, end_ns);

	if (!lane)
		return;
	event_begin(trace, kind->cat, kind->name ? kind->name : text,
		    kind->name ? strlen(kind->name) : record->head.len, lane,
		    start_ns, end_ns);
	if (kind->row != ROW_PROCESS)
		json_member_u64(out, "thread", tid);
	add_values(out, record, kind);
	if (kind->row == ROW_OSRT)
		stacks_tell_next(trace, tid);
	if (start_ns != record->head.t_ns || end_ns != record->end_ns) {
		json_key(out, "open");
		json_bool(out, true);
	}
	event_end(trace);
}

/* The part of it that lies in the last window that opened before its end. */
static void take_slice(struct trace *trace, uint32_t tid,
		       const struct slice_record *record)
{
	uint64_t start_ns = record->head.t_ns, end_ns = record->end_ns;
	const struct window *window = windows_find(trace, end_ns);

	if (!event_times(trace, start_ns, end_ns) || !window ||
	    window->close_ns < start_ns)
		return;
	if (start_ns < window->open_ns)
		start_ns = window->open_ns;
	if (end_ns > window->close_ns)
		end_ns = window->close_ns;
	write_slice(trace, record->tid ? record->tid : tid, record, start_ns,
		    end_ns);
}

static void write_counter(struct trace *trace,
			  const struct slice_record *record,
			  const struct slice_kind *kind)
{
	event_counter_begin(trace, kind->is_of_device ?
			    TRACK_GPU_COUNTERS_PID + record->tid :
			    TRACK_COUNTERS_PID, kind->name, record->head.t_ns);
	add_values(&trace->out, record, kind);
	event_end(trace);
}

static void write_instant(struct trace *trace, uint32_t tid,
			  const struct slice_record *record)
{
	const struct slice_kind *kind = record->kind;
	struct cpu_thread *thread = cpu_thread_get(&trace->threads,
						   &trace->tracks, tid);

	if (thread) {
		event_instant_begin(trace, kind->name, strlen(kind->name),
				    thread->lane, record->head.t_ns);
		add_values(&trace->out, record, kind);
		event_end(trace);
	}
	if (kind->counter)
		write_counter(trace, record, kind->counter);
}

static void take_point(struct trace *trace, uint32_t tid,
		       const struct slice_record *record)
{
	uint64_t t_ns = record->head.t_ns;

	if (!windows_hold(trace, t_ns) || !event_times(trace, t_ns, t_ns))
		return;
	if (record->head.kind == RECORD_INSTANT)
		write_instant(trace, tid, record);
	else
		write_counter(trace, record, record->kind);
}

void encode_source(struct trace *trace, uint32_t tid,
		   const struct slice_record *record)
{
	if (record->head.kind == RECORD_SLICE)
		take_slice(trace, tid, record);
	else
		take_point(trace, tid, record);
}
