/* SPDX-License-Identifier: MIT */
#include "tools/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/big.h"
#include "tools/jsonval.h"

_Static_assert(sizeof(struct model_work) <= 48, "one event, 48 bytes");
_Static_assert(sizeof(struct model_call) <= 48, "one event, 48 bytes");
_Static_assert(sizeof(struct model_range) <= 48, "one event, 48 bytes");

void model_init(struct model *m)
{
	memset(m, 0, sizeof(*m));
	m->first_ns = INT64_MAX;
	m->last_ns = INT64_MIN;
}

void model_fini(struct model *m)
{
	pairs_fini(&m->devices);
	pairs_fini(&m->streams);
	pairs_fini(&m->processes);
	pairs_fini(&m->lanes);
	pairs_fini(&m->stacks);
	intern_fini(&m->names);
	big_free(m->work);
	big_free(m->call);
	big_free(m->range);
	big_free(m->row);
	free(m->throttle);
	free(m->stream);
	free(m->device);
	free(m->lane);
	free(m->file);
}

static uint32_t value_name(struct model *m, const struct json_value *v)
{
	uint32_t name = intern_value(&m->names, v);

	m->no_memory |= name == INTERN_NONE;
	return name;
}

/* pid and tid are numbers, or in Kineto's spans strings. */
static uint64_t number_or_name(struct model *m, const struct json_value *v)
{
	int64_t n;

	if (jsonval_int(v, &n))
		return n & ~MODEL_TEXT;
	if (v->type != JSON_STRING)
		return MODEL_TEXT - 1;
	return MODEL_TEXT | value_name(m, v);
}

/* The index of a pair in one of the tables, made with `fresh` if it is new. */
static uint32_t find_or_make(struct model *m, struct pairs *p, uint64_t a,
			     uint64_t b, size_t fresh, bool *is_new)
{
	uint32_t i = pairs_put(p, a, b, fresh, is_new);

	m->no_memory |= i == MODEL_NONE;
	return i;
}

static uint32_t event_process(struct model *m, const struct trace_event *ev,
			      uint64_t *pid)
{
	bool is_new;

	*pid = number_or_name(m, trace_field(ev, EV_PID));
	return find_or_make(m, &m->processes, m->nr_files, *pid,
			    m->processes.nr, &is_new);
}

static uint32_t thread_lane(struct model *m, const struct trace_event *ev,
			    const struct json_value *thread)
{
	uint64_t tid = number_or_name(m, thread), pid;
	uint32_t process = event_process(m, ev, &pid), lane;
	bool is_new;

	if (!VEC_ROOM(m->lane, m->nr_lanes, m->cap_lanes)) {
		m->no_memory = true;
		return MODEL_NONE;
	}
	lane = find_or_make(m, &m->lanes, process, tid, m->nr_lanes, &is_new);
	if (is_new)
		m->lane[m->nr_lanes++] = (struct model_lane){
			.pid = pid, .tid = tid, .name = MODEL_NONE,
			.file = m->nr_files,
		};
	return lane;
}

static uint32_t event_lane(struct model *m, const struct trace_event *ev)
{
	return thread_lane(m, ev, trace_field(ev, EV_TID));
}

static int64_t int_arg(const struct trace_event *ev, enum trace_arg_key key,
		       enum trace_arg_key other, int64_t none)
{
	int64_t n;

	if (jsonval_int(trace_arg(ev, key), &n) ||
	    jsonval_int(trace_arg(ev, other), &n))
		return n;
	return none;
}

/* Each GPU is a process in a trace; in a merged one several have the number 0,
 * those of different hosts. */
static uint32_t event_device(struct model *m, const struct trace_event *ev)
{
	uint64_t pid;
	uint32_t process = event_process(m, ev, &pid);
	int64_t id = int_arg(ev, ARG_DEVICE, ARG_IN_DEVICE, -1);
	uint32_t device;
	bool is_new;

	if (m->nr_devices >= UINT16_MAX ||
	    !VEC_ROOM(m->device, m->nr_devices, m->cap_devices)) {
		m->no_memory = true;
		return MODEL_NONE;
	}
	device = find_or_make(m, &m->devices, process, id, m->nr_devices,
			      &is_new);
	if (is_new)
		m->device[m->nr_devices++] = (struct model_device){
			.id = id, .file = m->nr_files,
		};
	return device;
}

static uint32_t event_stream(struct model *m, const struct trace_event *ev,
			     uint32_t device)
{
	int64_t id = int_arg(ev, ARG_STREAM, ARG_IN_STREAM, -1);
	uint32_t stream;
	bool is_new;

	if (!VEC_ROOM(m->stream, m->nr_streams, m->cap_streams)) {
		m->no_memory = true;
		return MODEL_NONE;
	}
	stream = find_or_make(m, &m->streams, device, id, m->nr_streams,
			      &is_new);
	if (is_new)
		m->stream[m->nr_streams++] = (struct model_stream){
			id, device,
		};
	return stream;
}

static uint64_t event_correlation(const struct trace_event *ev)
{
	int64_t n = int_arg(ev, ARG_CORRELATION, ARG_IN_CORRELATION, 0);

	return n > 0 ? n : 0;
}

static bool has_text(const struct json_value *v, const char *text)
{
	return memmem(v->text, v->len, text, strlen(text));
}

static enum work_kind work_kind(const struct trace_event *ev)
{
	const struct json_value *name = trace_field(ev, EV_NAME);

	switch (ev->cat) {
	case CAT_KERNEL:
		return WORK_KERNEL;
	case CAT_MEMSET:
		return WORK_SET;
	case CAT_GRAPH:
		return WORK_GRAPH;
	default:
		return has_text(name, "HtoD") ? WORK_COPY_HTOD :
			has_text(name, "DtoH") ? WORK_COPY_DTOH :
			WORK_COPY_OTHER;
	}
}

static unsigned work_flags(const struct trace_event *ev)
{
	const struct json_value *name = trace_field(ev, EV_NAME);
	unsigned flags = 0;

	if (ev->cat == CAT_MEMCPY && has_text(name, "Pageable"))
		flags |= WORK_PAGEABLE;
	if (ev->cat == CAT_KERNEL && name->len >= 4 &&
	    !memcmp(name->text, "nccl", 4))
		flags |= WORK_COMMUNICATES;
	if (int_arg(ev, ARG_GRAPH_NODE, ARG_GRAPH_ID, 0) > 0)
		flags |= WORK_IN_GRAPH;
	return flags;
}

static void add_work(struct model *m, const struct trace_event *ev,
		     uint32_t name, int64_t start, int64_t end)
{
	uint32_t device = event_device(m, ev);
	uint32_t stream = event_stream(m, ev, device);
	int64_t bytes = int_arg(ev, ARG_BYTES, ARG_IN_BYTES, 0);

	if (m->no_memory || !BIG_ROOM(m->work, m->nr_work, m->cap_work)) {
		m->no_memory = true;
		return;
	}
	m->work[m->nr_work++] = (struct model_work){
		.start = start, .end = end, .name = name, .stream = stream,
		.correlation = event_correlation(ev), .call = MODEL_NONE,
		.bytes = bytes > 0 ? bytes : 0,
		.device = device, .kind = work_kind(ev),
		.flags = work_flags(ev),
	};
}

/* By what the names of the runtime and the driver have in common; the first
 * row that fits counts. */
static enum call_kind call_kind(const struct json_value *name)
{
	static const struct {
		const char *text;
		enum call_kind kind;
	} kinds[] = {
		{ "GraphLaunch", CALL_GRAPH_LAUNCH }, { "HostFunc", CALL_OTHER },
		{ "Launch", CALL_LAUNCH }, { "Synchronize", CALL_SYNC },
		{ "StreamWaitEvent", CALL_EVENT },
		{ "EventRecord", CALL_EVENT }, { "Memcpy", CALL_COPY },
		{ "Memset", CALL_COPY }, { "Malloc", CALL_ALLOCATE },
		{ "MemAlloc", CALL_ALLOCATE }, { "HostAlloc", CALL_ALLOCATE },
		{ "Free", CALL_ALLOCATE },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (has_text(name, kinds[i].text))
			return kinds[i].kind;
	return CALL_OTHER;
}

static void add_stack(struct model *m, const struct trace_event *ev)
{
	const struct json_value *stack = trace_arg(ev, ARG_STACK);
	bool is_new;

	if (stack->type == JSON_STRING)
		(void)find_or_make(m, &m->stacks, m->nr_files,
				   event_correlation(ev),
				   value_name(m, stack), &is_new);
}

static void add_call(struct model *m, const struct trace_event *ev,
		     uint32_t name, int64_t start, int64_t end)
{
	const struct json_value *text = trace_field(ev, EV_NAME);
	const struct json_value *line = trace_arg(ev, ARG_LINE);
	enum call_kind kind = call_kind(text);
	uint32_t lane = event_lane(m, ev);

	if (m->no_memory || !BIG_ROOM(m->call, m->nr_calls, m->cap_calls)) {
		m->no_memory = true;
		return;
	}
	add_stack(m, ev);
	m->call[m->nr_calls++] = (struct model_call){
		.start = start, .end = end, .name = name, .lane = lane,
		.correlation = event_correlation(ev), .work = MODEL_NONE,
		.line = line->type == JSON_STRING ? value_name(m, line) :
			MODEL_NONE,
		.file = m->nr_files, .kind = kind,
		.flags = kind == CALL_COPY && !has_text(text, "Async") ?
			CALL_BLOCKING : 0,
	};
}

static void add_range(struct model *m, const struct trace_event *ev,
		      uint32_t name, int64_t start, int64_t end)
{
	uint32_t lane = event_lane(m, ev);

	if (m->no_memory || !BIG_ROOM(m->range, m->nr_ranges, m->cap_ranges)) {
		m->no_memory = true;
		return;
	}
	m->range[m->nr_ranges++] = (struct model_range){
		.start = start, .end = end, .name = name, .lane = lane,
		.is_op = ev->cat == CAT_CPU_OP,
	};
}

static void add_row(struct model *m, const struct trace_event *ev,
		    uint32_t name, int64_t start, int64_t end)
{
	uint32_t lane = thread_lane(m, ev, trace_arg(ev, ARG_THREAD));

	if (m->no_memory || !BIG_ROOM(m->row, m->nr_rows, m->cap_rows)) {
		m->no_memory = true;
		return;
	}
	m->row[m->nr_rows++] = (struct model_row){
		.start = start, .end = end, .name = name, .lane = lane,
		.kind = ev->cat == CAT_OSRT ? ROW_CALL : ROW_STATE,
	};
}

static bool is_row(const struct trace_event *ev)
{
	return (ev->cat == CAT_OSRT || ev->cat == CAT_THREAD_STATE) &&
		trace_arg(ev, ARG_THREAD)->type == JSON_NUMBER;
}

/* Start and end of a slice; false if they cannot be used. */
static bool event_times(const struct model *m, const struct trace_event *ev,
			int64_t *start, int64_t *end)
{
	int64_t ts, dur;

	if (!trace_slice_times(ev, &ts, &dur))
		return false;
	*start = ts + m->shift_ns;
	*end = *start + dur;
	return true;
}

static void add_slice(struct model *m, const struct trace_event *ev)
{
	const struct json_value *text = trace_field(ev, EV_NAME);
	int64_t start, end;
	uint32_t name;

	if (!trace_is_gpu_work(ev->cat) && !trace_is_api(ev->cat) &&
	    ev->cat != CAT_ANNOTATION && ev->cat != CAT_CPU_OP && !is_row(ev))
		return;
	if (!event_times(m, ev, &start, &end)) {
		m->nr_bad_times++;
		return;
	}
	m->first_ns = start < m->first_ns ? start : m->first_ns;
	m->last_ns = end > m->last_ns ? end : m->last_ns;
	name = text->type == JSON_STRING ? value_name(m, text) :
		intern_text(&m->names, "(no name)", 9);
	m->no_memory |= name == INTERN_NONE;
	if (trace_is_gpu_work(ev->cat))
		add_work(m, ev, name, start, end);
	else if (trace_is_api(ev->cat))
		add_call(m, ev, name, start, end);
	else if (is_row(ev))
		add_row(m, ev, name, start, end);
	else
		add_range(m, ev, name, start, end);
}

/* The source cpu's counter "container CPU". */
static void add_throttle(struct model *m, const struct trace_event *ev)
{
	const struct json_value *args = trace_field(ev, EV_ARGS);
	struct model_throttle t = { .file = m->nr_files };
	struct json_value periods, ns, quota;

	if (!jsonval_is(trace_field(ev, EV_NAME), "container CPU") ||
	    args->type != JSON_OBJECT || !trace_time(ev, EV_TS, &t.at) ||
	    t.at > TRACE_TS_MAX)
		return;
	t.at += m->shift_ns;
	periods = jsonval_member(args, "throttled periods");
	ns = jsonval_member(args, "throttled ms");
	quota = jsonval_member(args, "quota %");
	if (!jsonval_int(&periods, &t.periods) || t.periods <= 0 ||
	    !jsonval_scaled(&ns, 6, &t.ns) || t.ns < 0 ||
	    !jsonval_scaled(&quota, 0, &t.quota))
		return;
	if (!VEC_ROOM(m->throttle, m->nr_throttles, m->cap_throttles)) {
		m->no_memory = true;
		return;
	}
	m->throttle[m->nr_throttles++] = t;
}

static void add_metadata(struct model *m, const struct trace_event *ev)
{
	const struct json_value *name = trace_arg(ev, ARG_ARG_NAME);
	uint32_t lane;

	if (!jsonval_is(trace_field(ev, EV_NAME), "thread_name") ||
	    name->type != JSON_STRING)
		return;
	lane = event_lane(m, ev);
	if (lane != MODEL_NONE)
		m->lane[lane].name = value_name(m, name);
}

static uint32_t member_name(struct model *m, const struct json_value *of,
			    const char *key)
{
	struct json_value v = trace_none;

	if (of->type == JSON_OBJECT)
		v = jsonval_member(of, key);
	if (v.type == JSON_STRING)
		return value_name(m, &v);
	return v.type == JSON_NUMBER ? intern_text(&m->names, v.text, v.len) :
		MODEL_NONE;
}

static int64_t sum_of_losses(const struct json_value *gputrace)
{
	struct json_value losses = trace_none, value;
	const char *at = NULL;
	int64_t n, sum = 0;

	if (gputrace->type == JSON_OBJECT)
		losses = jsonval_member(gputrace, "losses");
	while (losses.type == JSON_OBJECT &&
	       jsonval_next(&losses, &at, NULL, &value))
		if (jsonval_int(&value, &n) && n > 0)
			model_sum(&sum, n);
	return sum;
}

static void add_header(struct model *m, const struct trace *t,
		       const char *path)
{
	const struct json_value *own = trace_header(t, HEADER_GPUTRACE);
	const struct json_value *devices = trace_header(t, HEADER_DEVICES);
	const struct json_value *group = trace_header(t, HEADER_DISTRIBUTED);
	struct json_value v = trace_none;
	struct model_file *file;
	const char *at = NULL;

	if (!VEC_ROOM(m->file, m->nr_files, m->cap_files)) {
		m->no_memory = true;
		return;
	}
	file = &m->file[m->nr_files++];
	*file = (struct model_file){
		.path = path, .rank = -1, .shift_ns = m->shift_ns,
	};
	if (devices->type == JSON_ARRAY)
		(void)jsonval_next(devices, &at, NULL, &v);
	file->gpu = member_name(m, &v, "name");
	file->driver = member_name(m, own, "driver");
	file->cupti = member_name(m, own, "cupti");
	file->lost = sum_of_losses(own);
	if (group->type == JSON_OBJECT) {
		v = jsonval_member(group, "rank");
		if (!jsonval_int(&v, &file->rank) || file->rank < 0)
			file->rank = -1;
	}
}

int model_add_file(struct model *m, const char *path,
		   struct trace_problem *problem)
{
	struct trace *t = trace_open(path, 0, problem);
	struct trace_event ev;
	bool first = true;
	int more;

	if (!t)
		return -EIO;
	trace_on_member(t, m->member_fn, m->member_arg);
	while ((more = trace_next(t, &ev)) > 0 && !m->no_memory) {
		if (first)
			m->shift_ns = trace_shift(&m->base, t);
		first = false;
		m->nr_events++;
		if (ev.ph == 'X')
			add_slice(m, &ev);
		else if (ev.ph == 'C')
			add_throttle(m, &ev);
		else if (ev.ph == 'M')
			add_metadata(m, &ev);
	}
	*problem = *trace_problem(t);
	if (!more)
		more = trace_need_events(t, problem);
	if (!more)
		add_header(m, t, path);
	if (more >= 0 && m->no_memory) {
		snprintf(problem->text, sizeof(problem->text),
			 "out of memory");
		more = -ENOMEM;
	}
	trace_close(t);
	return more;
}
