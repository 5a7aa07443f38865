/* SPDX-License-Identifier: MIT */
#include "tools/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/jsonval.h"

/* Times stay far from the ends of 64 bits, so that no sum or difference wraps.
 * A ts may be absolute (1.8e18 ns since 1970 is below 2^61); a duration or the
 * distance of two bases is below 2^60 ns, 36 years. */
static const int64_t max_ts_ns = 1ll << 61, max_span_ns = 1ll << 60;

void report_init(struct report *r)
{
	memset(r, 0, sizeof(*r));
	r->first_ns = INT64_MAX;
	r->last_ns = INT64_MIN;
}

static void groups_fini(struct groups *g)
{
	for (size_t i = 0; i < g->nr; i++) {
		stats_fini(&g->group[i].time);
		stats_fini(&g->group[i].bytes);
	}
	free(g->group);
	free(g->by_name);
}

void report_fini(struct report *r)
{
	groups_fini(&r->kernels);
	groups_fini(&r->api);
	groups_fini(&r->copies);
	groups_fini(&r->graphs);
	groups_fini(&r->ranges);
	groups_fini(&r->projected);
	groups_fini(&r->gpu_ranges);
	pairs_fini(&r->devices);
	pairs_fini(&r->processes);
	pairs_fini(&r->lanes);
	intern_fini(&r->names);
	free(r->work);
	free(r->calls);
	free(r->range);
	free(r->device);
	free(r->lane);
	free(r->loss);
}

/* Room in by_name for every name known so far. */
static bool widen_by_name(struct report *r, struct groups *g)
{
	size_t nr = r->names.cap;
	uint32_t *wider = realloc(g->by_name, nr * sizeof(*wider));

	if (!wider)
		return false;
	memset(wider + g->nr_names, 0, (nr - g->nr_names) * sizeof(*wider));
	g->by_name = wider;
	g->nr_names = nr;
	return true;
}

struct group *report_group(struct report *r, struct groups *g, uint32_t name)
{
	struct group *group;

	if (name == INTERN_NONE ||
	    (name >= g->nr_names && !widen_by_name(r, g)))
		goto no_memory;
	if (g->by_name[name])
		return &g->group[g->by_name[name] - 1];
	if (!VEC_ROOM(g->group, g->nr, g->cap))
		goto no_memory;
	group = &g->group[g->nr++];
	memset(group, 0, sizeof(*group));
	group->name = name;
	g->by_name[name] = g->nr;
	return group;

no_memory:
	r->no_memory = true;
	return NULL;
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
	bool is_new;

	return pairs_put(&r->processes, r->file,
			 number_or_name(r, trace_field(ev, EV_PID)),
			 r->processes.nr, &is_new);
}

/* The index of the event's lane, or UINT32_MAX when memory ends. */
static uint32_t event_lane(struct report *r, const struct trace_event *ev)
{
	uint64_t pid = number_or_name(r, trace_field(ev, EV_PID));
	uint64_t tid = number_or_name(r, trace_field(ev, EV_TID));
	uint32_t process = event_process(r, ev), lane = UINT32_MAX;
	bool is_new;

	if (process == UINT32_MAX ||
	    !VEC_ROOM(r->lane, r->nr_lanes, r->cap_lanes))
		goto out;
	lane = pairs_put(&r->lanes, process, tid, r->nr_lanes, &is_new);
	if (lane == UINT32_MAX || !is_new)
		goto out;
	r->lane[r->nr_lanes++] = (struct lane){
		.pid = pid, .tid = tid, .name = INTERN_NONE,
	};
out:
	r->no_memory |= lane == UINT32_MAX;
	return lane;
}

/* Each GPU is a process in a trace; in a merged one several have the number 0,
 * those of different hosts. */
static uint32_t event_device(struct report *r, const struct trace_event *ev)
{
	uint32_t process = event_process(r, ev), device;
	int64_t id = -1;
	bool is_new;

	if (!jsonval_int(trace_arg(ev, ARG_DEVICE), &id))
		(void)jsonval_int(trace_arg(ev, ARG_IN_DEVICE), &id);
	if (process == UINT32_MAX ||
	    !VEC_ROOM(r->device, r->nr_devices, r->cap_devices)) {
		r->no_memory = true;
		return UINT32_MAX;
	}
	device = pairs_put(&r->devices, process, id, r->nr_devices, &is_new);
	r->no_memory |= device == UINT32_MAX;
	if (is_new)
		r->device[r->nr_devices++] = (struct device){
			.id = id, .file = r->file,
			.process = number_or_name(r, trace_field(ev, EV_PID)),
		};
	return device;
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

static void add_work(struct report *r, const struct trace_event *ev,
		     struct group *group, int64_t start, int64_t end)
{
	enum work_class class = WORK_COMPUTE;
	uint32_t device = event_device(r, ev);
	int64_t bytes;

	if (ev->cat == CAT_MEMCPY || ev->cat == CAT_MEMSET)
		class = WORK_COPY;
	else if (ev->cat == CAT_KERNEL &&
		 is_communication(trace_field(ev, EV_NAME)))
		class = WORK_COMM;
	if (class == WORK_COPY &&
	    (jsonval_int(trace_arg(ev, ARG_BYTES), &bytes) ||
	     jsonval_int(trace_arg(ev, ARG_IN_BYTES), &bytes)) && bytes >= 0)
		r->no_memory |= !stats_add(&group->bytes, bytes);
	if (device == UINT32_MAX ||
	    !VEC_ROOM(r->work, r->nr_work, r->cap_work)) {
		r->no_memory = true;
		return;
	}
	r->work[r->nr_work++] = (struct work){
		.start = start, .end = end, .device = device, .class = class,
		.correlation = event_correlation(ev), .file = r->file,
	};
}

static void add_call(struct report *r, const struct trace_event *ev,
		     int64_t start, int64_t end)
{
	uint64_t correlation = event_correlation(ev);
	uint32_t lane = event_lane(r, ev);

	if (lane == UINT32_MAX)
		return;
	r->lane[lane].nr_calls++;
	if (!VEC_ROOM(r->calls, r->nr_calls, r->cap_calls)) {
		r->no_memory = true;
		return;
	}
	r->calls[r->nr_calls++] = (struct call){
		.correlation = correlation, .start = start, .end = end,
		.lane = lane, .file = r->file,
	};
}

static void add_range(struct report *r, const struct trace_event *ev,
		      uint32_t name, int64_t start, int64_t end)
{
	uint32_t lane = event_lane(r, ev);

	if (lane == UINT32_MAX ||
	    !VEC_ROOM(r->range, r->nr_ranges, r->cap_ranges)) {
		r->no_memory = true;
		return;
	}
	r->lane[lane].nr_ranges++;
	r->range[r->nr_ranges++] = (struct range){
		.start = start, .end = end, .name = name, .lane = lane,
	};
}

static struct groups *groups_of(struct report *r, enum trace_cat cat)
{
	switch (cat) {
	case CAT_KERNEL:
		return &r->kernels;
	case CAT_MEMCPY:
	case CAT_MEMSET:
		return &r->copies;
	case CAT_GRAPH:
		return &r->graphs;
	case CAT_RUNTIME:
	case CAT_DRIVER:
		return &r->api;
	case CAT_ANNOTATION:
		return &r->ranges;
	case CAT_GPU_ANNOTATION:
		return &r->gpu_ranges;
	default:
		return NULL;
	}
}

static uint32_t event_name(struct report *r, const struct trace_event *ev)
{
	const struct json_value *name = trace_field(ev, EV_NAME);

	if (name->type != JSON_STRING)
		return intern_text(&r->names, "(no name)", 9);
	return intern_value(&r->names, name);
}

/* Start and end of a slice; false if they cannot be used. */
static bool event_times(const struct report *r, const struct trace_event *ev,
			int64_t *start, int64_t *end)
{
	int64_t ts, dur;

	if (!trace_time(ev, EV_TS, &ts) || !trace_time(ev, EV_DUR, &dur) ||
	    ts > max_ts_ns || dur > max_span_ns)
		return false;
	*start = ts + r->shift_ns;
	*end = *start + dur;
	return true;
}

static void add_slice(struct report *r, const struct trace_event *ev)
{
	struct groups *groups = groups_of(r, ev->cat);
	struct group *group;
	int64_t start, end, ops;

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
	if (!groups)
		return;
	group = report_group(r, groups, event_name(r, ev));
	if (!group || !stats_add(&group->time, end - start)) {
		r->no_memory = true;
		return;
	}
	if (trace_is_gpu_work(ev->cat))
		add_work(r, ev, group, start, end);
	else if (trace_is_api(ev->cat))
		add_call(r, ev, start, end);
	else if (ev->cat == CAT_ANNOTATION)
		add_range(r, ev, group->name, start, end);
	else if (jsonval_int(trace_arg(ev, ARG_GPU_OPS), &ops) && ops > 0)
		report_sum(&group->gpu_ops, ops);
}

static void add_metadata(struct report *r, const struct trace_event *ev)
{
	const struct json_value *name = trace_arg(ev, ARG_ARG_NAME);
	uint32_t lane;

	if (!jsonval_is(trace_field(ev, EV_NAME), "thread_name") ||
	    name->type != JSON_STRING)
		return;
	lane = event_lane(r, ev);
	if (lane != UINT32_MAX)
		r->lane[lane].name = intern_value(&r->names, name);
}

static void add_loss(struct report *r, uint32_t cause, int64_t n)
{
	size_t i = 0;

	while (i < r->nr_losses && r->loss[i].cause != cause)
		i++;
	if (i == r->nr_losses) {
		if (cause == INTERN_NONE ||
		    !VEC_ROOM(r->loss, i, r->cap_losses)) {
			r->no_memory = true;
			return;
		}
		r->loss[r->nr_losses++] = (struct loss){ cause, 0 };
	}
	report_sum(&r->loss[i].n, n);
}

/* The tracer knows some twenty causes; what a hostile file has beyond a
 * hundred is not told apart. */
static void add_losses(struct report *r, const struct json_value *gputrace)
{
	enum { MANY = 100 };
	struct json_value losses = jsonval_member(gputrace, "losses");
	struct json_value cause, value;
	const char *at = NULL;
	int64_t n;

	if (losses.type != JSON_OBJECT)
		return;
	while (!r->no_memory && jsonval_next(&losses, &at, &cause, &value))
		if (jsonval_int(&value, &n) && n > 0)
			add_loss(r, r->nr_losses < MANY ?
				 intern_value(&r->names, &cause) :
				 intern_text(&r->names, "other", 5), n);
}

static void add_tracer(struct report *r, const struct json_value *gputrace)
{
	struct json_value own = jsonval_member(gputrace, "own_ns");
	int64_t ns;

	if (jsonval_int(&own, &ns) && ns > 0)
		report_sum(&r->own_ns, ns);
	add_losses(r, gputrace);
}

/* Files of one run may count from different bases. */
static void align(struct report *r, const struct trace *t)
{
	int64_t base, shift;

	r->shift_ns = 0;
	if (!jsonval_int(trace_header(t, HEADER_BASE), &base) || base < 0)
		return;
	if (!r->has_base) {
		r->has_base = true;
		r->base_ns = base;
	}
	shift = base - r->base_ns;
	if (shift <= max_span_ns && shift >= -max_span_ns)
		r->shift_ns = shift;
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
			align(r, t);
		first = false;
		r->nr_events++;
		if (ev.ph == 'X')
			add_slice(r, &ev);
		else if (ev.ph == 'M')
			add_metadata(r, &ev);
	}
	*problem = *trace_problem(t);
	if (!more && !trace_shape(t)->has_events) {
		problem->has_offset = true;
		problem->offset = trace_shape(t)->size;
		snprintf(problem->text, sizeof(problem->text),
			 "the end, and no traceEvents: this is no trace");
		more = -EBADMSG;
	}
	if (!more)
		add_tracer(r, trace_header(t, HEADER_GPUTRACE));
	if (more >= 0 && r->no_memory) {
		snprintf(problem->text, sizeof(problem->text),
			 "out of memory");
		more = -ENOMEM;
	}
	trace_close(t);
	r->file++;
	return more;
}
