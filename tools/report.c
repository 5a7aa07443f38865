/* SPDX-License-Identifier: MIT */
#include "tools/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/big.h"
#include "tools/jsonval.h"

void report_init(struct report *r)
{
	memset(r, 0, sizeof(*r));
	r->first_ns = INT64_MAX;
	r->last_ns = INT64_MIN;
}

static void groups_fini(struct groups *g)
{
	for (size_t i = 0; i < g->nr; i++)
		stats_fini(&g->group[i].values);
	free(g->group);
	pairs_fini(&g->by_key);
}

void report_fini(struct report *r)
{
	struct groups *const groups[] = {
		&r->kernels, &r->shapes, &r->api, &r->copies, &r->graphs,
		&r->ranges, &r->projected, &r->range_kernels, &r->launches,
		&r->graph_launches, &r->ops, &r->blocking,
	};
	struct pairs *const pairs[] = {
		&r->devices, &r->streams, &r->processes, &r->lanes,
		&r->graph_ids,
	};
	void *const arrays[] = {
		r->work, r->calls, r->range, r->gpu_range, r->bytes,
		r->device, r->stream, r->process, r->lane, r->loss,
		r->memory, r->pool, r->osrt.call,
	};

	for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++)
		groups_fini(groups[i]);
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
		pairs_fini(pairs[i]);
	for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++)
		big_free(arrays[i]);
	report_around_fini(&r->around);
	report_library_fini(&r->library);
	report_stacks_fini(&r->stacks);
	intern_fini(&r->names);
}

/* pid and tid are numbers, or in Kineto's spans strings. */
static uint64_t number_or_name(struct report *r, const struct json_value *v)
{
	int64_t n;

	if (jsonval_int(v, &n))
		return n & ~REPORT_TEXT;
	if (v->type != JSON_STRING)
		return REPORT_TEXT - 1;
	return REPORT_TEXT | intern_value(&r->names, v);
}

/* The index of the event's process, or UINT32_MAX when memory ends. */
static uint32_t event_process(struct report *r, const struct trace_event *ev)
{
	uint64_t pid = number_or_name(r, trace_field(ev, EV_PID));
	uint32_t process = UINT32_MAX;
	bool is_new = false;

	if (VEC_ROOM(r->process, r->nr_processes, r->cap_processes))
		process = pairs_put(&r->processes, r->file, pid,
				    r->nr_processes, &is_new);
	r->no_memory |= process == UINT32_MAX;
	if (is_new)
		r->process[r->nr_processes++] = (struct process){
			.pid = pid, .file = r->file,
		};
	return process;
}

uint32_t report_event_lane(struct report *r, const struct trace_event *ev,
			   const struct json_value *thread)
{
	uint64_t tid = number_or_name(r, thread);
	uint32_t process = event_process(r, ev), lane = UINT32_MAX;
	bool is_new = false;

	if (process != UINT32_MAX &&
	    VEC_ROOM(r->lane, r->nr_lanes, r->cap_lanes))
		lane = pairs_put(&r->lanes, process, tid, r->nr_lanes,
				 &is_new);
	r->no_memory |= lane == UINT32_MAX;
	if (is_new)
		r->lane[r->nr_lanes++] = (struct lane){
			.process = process, .tid = tid, .name = INTERN_NONE,
		};
	return lane;
}

/* Each GPU is a process in a trace; in a merged one several have the number 0,
 * those of different hosts. */
static uint32_t event_device(struct report *r, const struct trace_event *ev,
			     int64_t id)
{
	uint32_t process = event_process(r, ev), device = UINT32_MAX;
	bool is_new = false;

	if (process != UINT32_MAX &&
	    VEC_ROOM(r->device, r->nr_devices, r->cap_devices))
		device = pairs_put(&r->devices, process, id, r->nr_devices,
				   &is_new);
	r->no_memory |= device == UINT32_MAX;
	if (is_new)
		r->device[r->nr_devices++] = (struct device){
			.id = id, .file = r->file, .process = process,
		};
	return device;
}

static uint32_t find_stream(struct report *r, const struct trace_event *ev,
			    int64_t device_id, int64_t id)
{
	uint32_t device = event_device(r, ev, device_id), stream = UINT32_MAX;
	bool is_new = false;

	if (device != UINT32_MAX &&
	    VEC_ROOM(r->stream, r->nr_streams, r->cap_streams))
		stream = pairs_put(&r->streams, device, id, r->nr_streams,
				   &is_new);
	r->no_memory |= stream == UINT32_MAX;
	if (is_new)
		r->stream[r->nr_streams++] = (struct stream){
			.id = id, .device = device,
		};
	return stream;
}

/* The index of the event's stream, or UINT32_MAX when memory ends. */
static uint32_t event_stream(struct report *r, const struct trace_event *ev)
{
	struct last_stream *last = &r->last_stream, now = {
		number_or_name(r, trace_field(ev, EV_PID)), -1, -1, 0,
	};

	if (!jsonval_int(trace_arg(ev, ARG_DEVICE), &now.device))
		(void)jsonval_int(trace_arg(ev, ARG_IN_DEVICE), &now.device);
	if (!jsonval_int(trace_arg(ev, ARG_STREAM), &now.stream))
		(void)jsonval_int(trace_arg(ev, ARG_IN_STREAM), &now.stream);
	if (last->index && last->pid == now.pid &&
	    last->device == now.device && last->stream == now.stream)
		return last->index - 1;
	now.index = find_stream(r, ev, now.device, now.stream) + 1;
	*last = now;
	return now.index - 1;
}

/* "[128, 1,1]" as "128 1 1"; nothing of anything else.  Returns the end. */
static char *put_numbers(char *to, const struct json_value *v)
{
	enum { MANY = 40 };     /* three numbers of 32 bits */
	char *start = to;

	if (v->type != JSON_ARRAY)
		return to;
	for (uint32_t i = 1; i + 1 < v->len && to < start + MANY; i++) {
		char c = v->text[i];

		if (c >= '0' && c <= '9')
			*to++ = c;
		else if (c == ',')
			*to++ = ' ';
		else if (!strchr(" \t\r\n", c))
			return start;
	}
	return to;
}

/* The name of a kernel's grid and block. */
static uint32_t event_shape(struct report *r, const struct trace_event *ev)
{
	char text[96], *to = put_numbers(text, trace_arg(ev, ARG_GRID));

	*to++ = '|';
	to = put_numbers(to, trace_arg(ev, ARG_BLOCK));
	return intern_text(&r->names, text, to - text);
}

static uint64_t event_correlation(const struct trace_event *ev)
{
	int64_t n;

	if (!jsonval_int(trace_arg(ev, ARG_CORRELATION), &n))
		return 0;
	return n > 0 ? n : 0;
}

static bool is_communication(const struct json_value *name)
{
	return name->len >= 4 && !memcmp(name->text, "nccl", 4);
}

/* The index of a copy's bytes, or UINT32_MAX if it does not say them. */
static uint32_t event_bytes(struct report *r, const struct trace_event *ev)
{
	int64_t bytes;

	if (!jsonval_int(trace_arg(ev, ARG_BYTES), &bytes) &&
	    !jsonval_int(trace_arg(ev, ARG_IN_BYTES), &bytes))
		return UINT32_MAX;
	if (bytes < 0)
		return UINT32_MAX;
	if (!BIG_ROOM(r->bytes, r->nr_bytes, r->cap_bytes)) {
		r->no_memory = true;
		return UINT32_MAX;
	}
	r->bytes[r->nr_bytes] = bytes;
	return r->nr_bytes++;
}

/* Which graph a launch was of is said by each of its nodes. */
static void add_graph_id(struct report *r, const struct trace_event *ev)
{
	uint64_t correlation = event_correlation(ev);
	char text[40];
	bool is_new;
	int64_t id;
	int len;

	if (!correlation || !jsonval_int(trace_arg(ev, ARG_GRAPH_ID), &id) ||
	    id <= 0 || pairs_find(&r->graph_ids, r->file, correlation) !=
	    UINT32_MAX)
		return;
	len = snprintf(text, sizeof(text), "CUDA graph %" PRId64, id);
	if (pairs_put(&r->graph_ids, r->file, correlation,
		      intern_text(&r->names, text, len),
		      &is_new) == UINT32_MAX)
		r->no_memory = true;
}

static void add_work(struct report *r, const struct trace_event *ev,
		     uint32_t name, int64_t start, int64_t end)
{
	enum work_class class = WORK_COMPUTE;
	uint32_t stream = event_stream(r, ev), detail = UINT32_MAX;

	if (ev->cat == CAT_MEMCPY || ev->cat == CAT_MEMSET) {
		class = WORK_COPY;
		detail = event_bytes(r, ev);
	} else if (ev->cat == CAT_KERNEL) {
		if (is_communication(trace_field(ev, EV_NAME)))
			class = WORK_COMM;
		detail = event_shape(r, ev);
	}
	if (stream == UINT32_MAX ||
	    !BIG_ROOM(r->work, r->nr_work, r->cap_work)) {
		r->no_memory = true;
		return;
	}
	add_graph_id(r, ev);
	r->device[r->stream[stream].device].has_work = true;
	r->work[r->nr_work++] = (struct work){
		.start = start, .end = end, .name = name, .stream = stream,
		.detail = detail, .class = class, .cat = ev->cat,
		.correlation = event_correlation(ev),
	};
}

static void add_call(struct report *r, const struct trace_event *ev,
		     uint32_t name, int64_t start, int64_t end)
{
	const struct json_value *line = trace_arg(ev, ARG_LINE);
	uint32_t lane = report_event_lane(r, ev, trace_field(ev, EV_TID));

	if (lane == UINT32_MAX ||
	    !BIG_ROOM(r->calls, r->nr_calls, r->cap_calls)) {
		r->no_memory = true;
		return;
	}
	r->calls[r->nr_calls++] = (struct call){
		.correlation = event_correlation(ev), .start = start,
		.end = end, .name = name, .lane = lane,
		.line = line->type == JSON_STRING ?
			intern_value(&r->names, line) : INTERN_NONE,
	};
}

static void add_range(struct report *r, const struct trace_event *ev,
		      uint32_t name, int64_t start, int64_t end)
{
	uint32_t lane = report_event_lane(r, ev, trace_field(ev, EV_TID));

	if (lane == UINT32_MAX ||
	    !BIG_ROOM(r->range, r->nr_ranges, r->cap_ranges)) {
		r->no_memory = true;
		return;
	}
	r->range[r->nr_ranges++] = (struct range){
		.start = start, .end = end, .name = name, .lane = lane,
	};
}

static void add_annotation(struct report *r, const struct trace_event *ev,
			   uint32_t name, int64_t start, int64_t end)
{
	add_range(r, ev, name, start, end);
	if (report_nccl_is(ev))
		report_library_add(r, ev, name, start, end);
}

static void add_gpu_range(struct report *r, const struct trace_event *ev,
			  uint32_t name, int64_t start, int64_t end)
{
	uint32_t stream = event_stream(r, ev);
	int64_t ops;

	if (stream == UINT32_MAX ||
	    !BIG_ROOM(r->gpu_range, r->nr_gpu_ranges, r->cap_gpu_ranges)) {
		r->no_memory = true;
		return;
	}
	if (!jsonval_int(trace_arg(ev, ARG_GPU_OPS), &ops) || ops < 0)
		ops = 0;
	r->gpu_range[r->nr_gpu_ranges++] = (struct gpu_range){
		.start = start, .end = end, .name = name, .stream = stream,
		.gpu_ops = ops,
	};
}

static uint32_t event_name(struct report *r, const struct trace_event *ev)
{
	const struct json_value *name = trace_field(ev, EV_NAME);
	uint32_t id = name->type == JSON_STRING ?
		intern_value(&r->names, name) :
		intern_text(&r->names, "(no name)", 9);

	r->no_memory |= id == INTERN_NONE;
	return id;
}

/* Start and end of a slice; false if they cannot be used. */
static bool event_times(const struct report *r, const struct trace_event *ev,
			int64_t *start, int64_t *end)
{
	int64_t ts, dur;

	if (!trace_slice_times(ev, &ts, &dur))
		return false;
	*start = ts + r->shift_ns;
	*end = *start + dur;
	return true;
}

static void add_slice(struct report *r, const struct trace_event *ev)
{
	int64_t start, end;

	if (ev->cat == CAT_SPAN)
		return;
	if (!event_times(r, ev, &start, &end)) {
		r->nr_bad_times++;
		return;
	}
	/* The tracer's work, CUPTI's and ours, is not the program's time: the
	 * last write-out comes long after a short window. */
	if (ev->cat == CAT_OVERHEAD) {
		report_sum(&r->overhead_ns, end - start);
		return;
	}
	r->first_ns = start < r->first_ns ? start : r->first_ns;
	r->last_ns = end > r->last_ns ? end : r->last_ns;
	if (trace_is_gpu_work(ev->cat))
		add_work(r, ev, event_name(r, ev), start, end);
	else if (trace_is_api(ev->cat))
		add_call(r, ev, event_name(r, ev), start, end);
	else if (ev->cat == CAT_ANNOTATION)
		add_annotation(r, ev, event_name(r, ev), start, end);
	else if (ev->cat == CAT_GPU_ANNOTATION)
		add_gpu_range(r, ev, event_name(r, ev), start, end);
	else if (ev->cat == CAT_SAMPLE)
		report_stacks_add(r, ev, event_name(r, ev), start, end);
	else if (trace_is_library(ev->cat))
		report_library_add(r, ev, event_name(r, ev), start, end);
	else if (ev->cat == CAT_OSRT)
		report_osrt_add(r, ev, event_name(r, ev), start, end);
	else if (r->by >= BY_OP || ev->cat == CAT_CPU_OP)
		report_around_add(r, ev, event_name(r, ev), start, end);
}

static void add_instant(struct report *r, const struct trace_event *ev)
{
	uint32_t process;
	int64_t at;

	bool is_failure = jsonval_is(trace_field(ev, EV_NAME),
				     "[OutOfMemory]");

	if ((!is_failure &&
	     !jsonval_is(trace_field(ev, EV_NAME), "[memory]")) ||
	    !trace_time(ev, EV_TS, &at) || at > TRACE_TS_MAX)
		return;
	process = event_process(r, ev);
	if (process != UINT32_MAX)
		report_memory_add(r, trace_field(ev, EV_ARGS), process,
				  at + r->shift_ns, is_failure);
}

static void add_metadata(struct report *r, const struct trace_event *ev)
{
	const struct json_value *name = trace_arg(ev, ARG_ARG_NAME);
	uint32_t lane;

	if (!jsonval_is(trace_field(ev, EV_NAME), "thread_name") ||
	    name->type != JSON_STRING)
		return;
	lane = report_event_lane(r, ev, trace_field(ev, EV_TID));
	if (lane != UINT32_MAX)
		r->lane[lane].name = intern_value(&r->names, name);
}

int report_add_file(struct report *r, const char *path,
		    struct trace_problem *problem)
{
	struct trace *t = trace_open(path, 0, problem);
	struct trace_event ev;
	bool first = true;
	int more;

	if (!t)
		return -EIO;
	while ((more = trace_next(t, &ev)) > 0 && !r->no_memory) {
		if (first)
			r->shift_ns = trace_shift(&r->base, t);
		first = false;
		r->nr_events++;
		if (ev.ph == 'X')
			add_slice(r, &ev);
		else if (ev.ph == 'M')
			add_metadata(r, &ev);
		else if (ev.ph == 'i')
			add_instant(r, &ev);
	}
	*problem = *trace_problem(t);
	if (!more)
		more = trace_need_events(t, problem);
	if (!more)
		report_add_tracer(r, trace_header(t, HEADER_GPUTRACE));
	if (more >= 0 && r->no_memory) {
		snprintf(problem->text, sizeof(problem->text),
			 "out of memory");
		more = -ENOMEM;
	}
	trace_close(t);
	r->last_stream.index = 0;
	r->file++;
	return more;
}
