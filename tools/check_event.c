/* SPDX-License-Identifier: MIT */
#include "tools/check.h"

#include <inttypes.h>
#include <string.h>

#include "tools/jsonval.h"

static const int64_t week_ns = 604800ll * 1000000000;
/* 2^53 ns in us: above, a double cannot tell 1 ns from the next. */
static const int64_t exact_ns = (1ll << 43) * 1000;
static const int64_t exact_id = 1ll << 53;

static bool is_integer(const struct json_value *v)
{
	return v->type == JSON_NUMBER && !(v->flags & JSON_REAL);
}

static bool is_text(const struct json_value *v)
{
	return v->type == JSON_STRING && v->len;
}

int64_t check_value(const struct json_value *v)
{
	int64_t n;

	if (jsonval_int(v, &n))
		return n;
	return INT64_MIN + (v->type == JSON_STRING ?
			    (int64_t)(jsonval_hash(v) >> 2) : v->type);
}

/* A time in ns as the importer takes it; false if there is none. */
static bool event_time(struct check *c, const struct trace_event *ev,
		       enum trace_event_key key, int64_t *ns)
{
	const struct json_value *v = trace_field(ev, key);
	const char *name = key == EV_TS ? "ts" : "dur";
	bool fits = jsonval_scaled(v, 3, ns);

	if (!jsonval_finite(v) || *v->text == '-') {
		check_note(c, RULE_P014, c->event, "%s", name);
		return false;
	}
	if (fits && (*ns < exact_ns || is_integer(v)))
		return true;
	check_note(c, RULE_P015, c->event, "%s %.*s", name, (int)v->len,
		   v->text);
	return fits;
}

/* pid or tid as the importer takes it: what it cannot use becomes 0. */
static bool number_or_name(struct check *c, const struct json_value *v,
			   uint64_t *out)
{
	int64_t n;

	*out = 0;
	if (v->type == JSON_STRING) {
		*out = CHECK_TEXT | intern_value(&c->names, v);
		return true;
	}
	if (!jsonval_int(v, &n) || n < 0 || n > UINT32_MAX)
		return false;
	*out = n;
	return true;
}

/* The index of a process, or UINT32_MAX when memory ends. */
static uint32_t process_of(struct check *c, uint64_t pid)
{
	bool is_new;
	uint32_t i;

	if (!VEC_ROOM(c->processes, c->nr_processes, c->cap_processes)) {
		c->no_memory = true;
		return UINT32_MAX;
	}
	i = pairs_put(&c->process_of, pid, 0, c->nr_processes, &is_new);
	c->no_memory |= i == UINT32_MAX;
	if (is_new)
		c->processes[c->nr_processes++] = (struct check_process){
			.pid = pid,
		};
	return i;
}

static uint32_t lane_of(struct check *c, uint64_t pid, uint64_t tid)
{
	uint32_t process = process_of(c, pid), i;
	bool is_new;

	if (process == UINT32_MAX ||
	    !VEC_ROOM(c->lanes, c->nr_lanes, c->cap_lanes)) {
		c->no_memory = true;
		return UINT32_MAX;
	}
	i = pairs_put(&c->lane_of, pid, tid, c->nr_lanes, &is_new);
	c->no_memory |= i == UINT32_MAX;
	if (is_new)
		c->lanes[c->nr_lanes++] = (struct check_lane){
			.pid = pid, .tid = tid, .process = process,
		};
	return i;
}

/* The pid of an event that belongs to a process. */
static uint64_t event_pid(struct check *c, const struct trace_event *ev)
{
	const struct json_value *v = trace_field(ev, EV_PID);
	uint64_t pid;

	if (!number_or_name(c, v, &pid))
		check_note(c, RULE_P011, c->event, "pid %.*s", (int)v->len,
			   v->text);
	if (pid & CHECK_TEXT)
		check_note(c, RULE_P012, c->event, "pid");
	return pid;
}

/* The lane that the importer will use. */
static uint32_t event_lane(struct check *c, const struct trace_event *ev)
{
	const struct json_value *p = trace_field(ev, EV_PID);
	const struct json_value *t = trace_field(ev, EV_TID);
	uint64_t pid, tid;
	bool good_pid = number_or_name(c, p, &pid);
	bool missing = ev->ph == 'M' && t->type == JSON_NONE;
	bool good_tid = number_or_name(c, t, &tid) || missing;

	if (!good_pid || !good_tid)
		check_note(c, RULE_P011, c->event, "pid %.*s, tid %.*s",
			   (int)p->len, p->text, (int)t->len, t->text);
	if ((pid | tid) & CHECK_TEXT)
		check_note(c, RULE_P012, c->event, "pid %.*s, tid %.*s",
			   (int)p->len, p->text, (int)t->len, t->text);
	if (good_tid && !tid)
		check_note(c, RULE_P013, c->event, "pid %.*s", (int)p->len,
			   p->text);
	return lane_of(c, pid, tid ? tid : pid);
}

static void add_entry(struct check *c, const struct entry *entry)
{
	if (!VEC_ROOM(c->entries, c->nr_entries, c->cap_entries)) {
		c->no_memory = true;
		return;
	}
	c->entries[c->nr_entries++] = *entry;
}

/* The arguments whose types HTA declares. */
static void check_types(struct check *c, const struct trace_event *ev)
{
	static const struct {
		enum trace_arg_key key;
		const char *want;
	} types[] = {
		{ ARG_EXTERNAL, "int" }, { ARG_QUEUED, "int" },
		{ ARG_OCCUPANCY, "int" }, { ARG_SORT_INDEX, "int" },
		{ ARG_WAIT_STREAM, "int" }, { ARG_WARPS, "number" },
		{ ARG_BANDWIDTH, "number" }, { ARG_COLLECTIVE, "string" },
	};
	const struct json_value *args = trace_field(ev, EV_ARGS);

	if (args->type != JSON_NONE && args->type != JSON_OBJECT)
		check_note(c, RULE_H007, c->event, "args is no object");
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		const struct json_value *v = trace_arg(ev, types[i].key);
		bool number = v->type == JSON_NUMBER &&
			!(v->flags & JSON_NONFINITE);
		bool boolean = v->type == JSON_TRUE || v->type == JSON_FALSE;
		bool good = *types[i].want == 's' ? v->type == JSON_STRING :
			*types[i].want == 'n' ? number || boolean :
			is_integer(v) || boolean;

		if (v->type != JSON_NONE && !good)
			check_note(c, RULE_H007, c->event, "%.*s must be %s",
				   (int)v->len, v->text, types[i].want);
	}
}

/* The integers that each cat must have; `in` is the name in peer copies. */
static void check_integers(struct check *c, const struct trace_event *ev)
{
	enum { GPU = 1, API = 2, COPY = 4, KERNEL = 8, GRAPH = 16 };
	static const unsigned kinds[CATS] = {
		[CAT_KERNEL] = GPU | KERNEL, [CAT_MEMCPY] = GPU | COPY,
		[CAT_MEMSET] = GPU | COPY, [CAT_GRAPH] = GPU | GRAPH,
		[CAT_SYNC] = GPU, [CAT_RUNTIME] = API, [CAT_DRIVER] = API,
	};
	static const struct {
		unsigned kinds;
		enum trace_arg_key key, in;
		const char *name;
	} wanted[] = {
		{ GPU, ARG_DEVICE, ARG_IN_DEVICE, "device" },
		{ GPU, ARG_CONTEXT, ARG_IN_CONTEXT, "context" },
		{ GPU, ARG_STREAM, ARG_IN_STREAM, "stream" },
		{ GPU | API, ARG_CORRELATION, ARG_IN_CORRELATION,
			"correlation" },
		{ API, ARG_CBID, ARG_CBID, "cbid" },
		{ COPY, ARG_BYTES, ARG_IN_BYTES, "bytes" },
		{ KERNEL, ARG_REGISTERS, ARG_REGISTERS,
			"registers per thread" },
		{ KERNEL, ARG_SHARED, ARG_SHARED, "shared memory" },
		{ GRAPH, ARG_GRAPH_ID, ARG_GRAPH_ID, "graph id" },
	};

	for (size_t i = 0; ev->cat != CAT_OTHER &&
	     i < sizeof(wanted) / sizeof(*wanted); i++) {
		const struct json_value *v = trace_arg(ev, wanted[i].key);

		if (v->type == JSON_NONE)
			v = trace_arg(ev, wanted[i].in);
		if (kinds[ev->cat] & wanted[i].kinds && !is_integer(v))
			check_note(c, RULE_K004, c->event, "%s",
				   wanted[i].name);
	}
}

static void check_sync(struct check *c, const struct trace_event *ev)
{
	const struct json_value *name = trace_field(ev, EV_NAME);
	const struct json_value *kind = trace_arg(ev, ARG_SYNC_KIND);
	bool good = kind->type == JSON_STRING &&
		jsonval_hash(kind) == jsonval_hash(name);

	if (memmem(name->text, name->len, "Event", 5))
		good = good && is_integer(trace_arg(ev, ARG_WAIT_STREAM)) &&
			is_integer(trace_arg(ev, ARG_WAIT_CORRELATION)) &&
			is_integer(trace_arg(ev, ARG_WAIT_EVENT));
	if (!good)
		check_note(c, RULE_K013, c->event, "%.*s", (int)name->len,
			   name->text);
}

static bool is_cpu(enum trace_cat cat)
{
	return trace_is_api(cat) || cat == CAT_CPU_OP ||
		cat == CAT_ANNOTATION || cat == CAT_PYTHON;
}

static void check_slice(struct check *c, const struct trace_event *ev)
{
	const struct json_value *name = trace_field(ev, EV_NAME);
	const struct json_value *cat = trace_field(ev, EV_CAT);
	struct entry entry = { .index = c->event, .kind = ENTRY_SLICE };
	bool has_ts, has_dur;
	int64_t end;

	entry.lane = event_lane(c, ev);
	has_ts = event_time(c, ev, EV_TS, &entry.ts);
	has_dur = event_time(c, ev, EV_DUR, &entry.dur);
	if (!is_text(name) || !is_text(cat))
		check_note(c, RULE_P010, c->event, "%s",
			   is_text(name) ? "cat" : "name");
	if (is_text(cat) && ev->cat == CAT_OTHER)
		check_note(c, RULE_K002, c->event, "%.*s", (int)cat->len,
			   cat->text);
	if (!check_name(ev->cat, name))
		check_note(c, RULE_K011, c->event, "%.*s: %.*s",
			   (int)cat->len, cat->text, (int)name->len,
			   name->text);
	check_types(c, ev);
	check_integers(c, ev);
	if (!has_ts || !has_dur || entry.lane == UINT32_MAX)
		return;
	if (__builtin_add_overflow(entry.ts, entry.dur, &end)) {
		check_note(c, RULE_P015, c->event, "ts + dur");
		return;
	}
	entry.has_correlation = jsonval_int(trace_arg(ev, ARG_CORRELATION),
					    &entry.what);
	if (entry.dur > week_ns)
		check_note(c, RULE_H010, c->event, "%" PRId64 " ns",
			   entry.dur);
	if (trace_is_gpu_work(ev->cat))
		check_gpu_work(c, ev, &entry);
	else if (trace_is_api(ev->cat))
		check_api_call(c, ev, &entry);
	else if (ev->cat == CAT_SYNC)
		check_sync(c, ev);
	if (is_cpu(ev->cat))
		c->processes[c->lanes[entry.lane].process].has_cpu = true;
	if (end > c->last_ns)
		c->last_ns = end;
	add_entry(c, &entry);
}

/* The number of a flow's key (cat, name, id). */
static bool flow_key(struct check *c, const struct trace_event *ev,
		     int64_t id, int64_t *key)
{
	uint32_t cat = intern_value(&c->names, trace_field(ev, EV_CAT));
	uint32_t name = intern_value(&c->names, trace_field(ev, EV_NAME));
	uint32_t names;
	bool is_new;

	names = pairs_put(&c->flow_names, cat, name, c->flow_names.nr,
			  &is_new);
	*key = pairs_put(&c->flow_of, names, id, c->flow_of.nr, &is_new);
	c->no_memory |= *key == UINT32_MAX;
	return !c->no_memory;
}

static void check_flow(struct check *c, const struct trace_event *ev)
{
	struct entry entry = {
		.index = c->event, .kind = ev->ph == 's' ? ENTRY_FLOW_START :
			ev->ph == 't' ? ENTRY_FLOW_STEP : ENTRY_FLOW_END,
	};
	int64_t id;
	bool has_ts;

	entry.lane = event_lane(c, ev);
	has_ts = event_time(c, ev, EV_TS, &entry.ts);
	if (ev->ph == 'f' && !jsonval_is(trace_field(ev, EV_BP), "e"))
		check_note(c, RULE_P033, c->event, "bp");
	if (!is_text(trace_field(ev, EV_CAT)) ||
	    !is_text(trace_field(ev, EV_NAME)) ||
	    !jsonval_int(trace_field(ev, EV_ID), &id) || id < 0 ||
	    id > exact_id) {
		check_note(c, RULE_P030, c->event, "id %.*s",
			   (int)trace_field(ev, EV_ID)->len,
			   trace_field(ev, EV_ID)->text);
		return;
	}
	if (has_ts && entry.lane != UINT32_MAX &&
	    flow_key(c, ev, id, &entry.what))
		add_entry(c, &entry);
}

static void check_instant(struct check *c, const struct trace_event *ev)
{
	const struct json_value *scope = trace_field(ev, EV_S);
	struct entry entry = { .index = c->event, .kind = ENTRY_INSTANT };
	bool has_ts;

	entry.lane = event_lane(c, ev);
	has_ts = event_time(c, ev, EV_TS, &entry.ts);
	if (entry.lane == UINT32_MAX)
		return;
	c->processes[c->lanes[entry.lane].process].is_used = true;
	if (jsonval_is(scope, "t") && has_ts)
		add_entry(c, &entry);
	else if (!jsonval_is(scope, "g") && !jsonval_is(scope, "p") &&
		 !jsonval_is(scope, "t"))
		check_note(c, RULE_P018, c->event, "s");
}

static void check_counter(struct check *c, const struct trace_event *ev)
{
	uint32_t process = process_of(c, event_pid(c, ev));
	int64_t ts;

	if (process != UINT32_MAX)
		c->processes[process].is_used = true;
	event_time(c, ev, EV_TS, &ts);
	if (!is_text(trace_field(ev, EV_NAME)) ||
	    trace_field(ev, EV_ARGS)->type != JSON_OBJECT ||
	    !ev->args.nr || !ev->args.numbers_only)
		check_note(c, RULE_P019, c->event, "%.*s",
			   (int)trace_field(ev, EV_NAME)->len,
			   trace_field(ev, EV_NAME)->text);
}

/* Notes the name of a process or a lane; a second one must be the same. */
static void check_label(struct check *c, const struct trace_event *ev,
			bool *has, uint32_t *known)
{
	const struct json_value *label = trace_arg(ev, ARG_ARG_NAME);
	uint32_t name;

	if (!is_text(label)) {
		check_note(c, RULE_P041, c->event, "name");
		return;
	}
	name = intern_value(&c->names, label);
	if (*has && *known != name)
		check_note(c, RULE_P042, c->event, "%.*s", (int)label->len,
			   label->text);
	if (!*has)
		*known = name;
	*has = true;
}

static void check_sort(struct check *c, const struct trace_event *ev,
		       bool *has)
{
	int64_t place;

	*has = true;
	if (!jsonval_int(trace_arg(ev, ARG_SORT_INDEX), &place) ||
	    place < INT32_MIN || place > INT32_MAX) {
		check_note(c, RULE_P041, c->event, "sort_index");
	}
}

static void check_metadata(struct check *c, const struct trace_event *ev)
{
	const struct json_value *name = trace_field(ev, EV_NAME);
	uint32_t i = event_lane(c, ev);
	struct check_process *process;
	struct check_lane *lane;

	if (i == UINT32_MAX)
		return;
	lane = &c->lanes[i];
	process = &c->processes[lane->process];
	if (jsonval_is(name, "process_name"))
		check_label(c, ev, &process->has_name, &process->name);
	else if (jsonval_is(name, "thread_name"))
		check_label(c, ev, &lane->has_name, &lane->name);
	else if (jsonval_is(name, "process_sort_index"))
		check_sort(c, ev, &process->has_sort);
	else if (jsonval_is(name, "thread_sort_index"))
		check_sort(c, ev, &lane->has_sort);
}

void check_event(struct check *c, const struct trace_event *ev)
{
	c->event = ev->index;
	c->offset = ev->offset;
	c->nr_events++;
	if (ev->type != JSON_OBJECT) {
		check_note(c, RULE_P007, c->event, "no object");
		return;
	}
	switch (ev->ph) {
	case 'X':
		check_slice(c, ev);
		break;
	case 's':
	case 't':
	case 'f':
		check_flow(c, ev);
		break;
	case 'i':
		check_instant(c, ev);
		break;
	case 'C':
		check_counter(c, ev);
		break;
	case 'M':
		check_metadata(c, ev);
		break;
	default:
		check_note(c, RULE_P017, c->event, "ph %.*s",
			   (int)trace_field(ev, EV_PH)->len,
			   trace_field(ev, EV_PH)->text);
	}
}
