/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/merge.h"
#include "tools/trace_rules.h"

const enum trace_arg_key merge_id_args[MERGE_ID_ARGS] = {
	ARG_CORRELATION, ARG_IN_CORRELATION, ARG_WAIT_CORRELATION,
	ARG_EXTERNAL, ARG_CALL_CORRELATION,
};

/* pid and tid: numbers, or text in Kineto's spans. */
static bool number_of(struct merge *m, const struct json_value *v,
		      uint64_t *number)
{
	int64_t n;

	if (v->type == JSON_STRING) {
		uint32_t id = intern_value(&m->names, v);

		m->no_memory |= id == INTERN_NONE;
		*number = MERGE_TEXT | id;
		return id != INTERN_NONE;
	}
	if (!jsonval_int(v, &n))
		return false;
	*number = n & ~MERGE_TEXT;
	return true;
}

static uint32_t add_process(struct merge *m, uint16_t file, uint64_t pid)
{
	uint32_t process;
	bool is_new;

	if (!VEC_ROOM(m->process, m->nr_processes, m->cap_processes))
		goto no_memory;
	process = pairs_put(&m->processes, file, pid, m->nr_processes,
			    &is_new);
	if (process == UINT32_MAX)
		goto no_memory;
	if (is_new)
		m->process[m->nr_processes++] = (struct merge_process){
			.pid = pid, .file = file, .name = INTERN_NONE,
			.labels = INTERN_NONE,
		};
	return process;

no_memory:
	m->no_memory = true;
	return UINT32_MAX;
}

uint32_t merge_process_of(struct merge *m, uint16_t file,
			  const struct trace_event *ev, bool make)
{
	uint64_t pid;

	if (!number_of(m, trace_field(ev, EV_PID), &pid))
		return UINT32_MAX;
	return make ? add_process(m, file, pid) :
		pairs_find(&m->processes, file, pid);
}

static uint32_t add_lane(struct merge *m, uint32_t process, uint64_t tid)
{
	uint32_t lane;
	bool is_new;

	if (!VEC_ROOM(m->lane, m->nr_lanes, m->cap_lanes))
		goto no_memory;
	lane = pairs_put(&m->lanes, process, tid, m->nr_lanes, &is_new);
	if (lane == UINT32_MAX)
		goto no_memory;
	if (is_new)
		m->lane[m->nr_lanes++] = (struct merge_lane){
			.tid = tid, .process = process, .name = INTERN_NONE,
		};
	return lane;

no_memory:
	m->no_memory = true;
	return UINT32_MAX;
}

uint32_t merge_lane_of(struct merge *m, uint16_t file,
		       const struct trace_event *ev, bool make)
{
	uint32_t process = merge_process_of(m, file, ev, make);
	uint64_t tid;

	if (process == UINT32_MAX ||
	    !number_of(m, trace_field(ev, EV_TID), &tid))
		return UINT32_MAX;
	return make ? add_lane(m, process, tid) :
		pairs_find(&m->lanes, process, tid);
}

static bool is_flow(char ph)
{
	return ph == 's' || ph == 't' || ph == 'f';
}

static bool read_hex(const struct json_value *v, int64_t *id)
{
	const char *p = v->text, *end = p + v->len;
	int64_t n = 0;

	if (v->len > 2 && p[0] == '0' && (p[1] | 0x20) == 'x')
		p += 2;
	if (p == end || end - p > 13)
		return false;
	for (; p < end; p++) {
		if (jsonval_hex(*p) < 0)
			return false;
		n = n << 4 | jsonval_hex(*p);
	}
	*id = n;
	return true;
}

bool merge_id(const struct trace_event *ev, const struct json_value *v,
	      int64_t *id)
{
	bool is_field = v == trace_field(ev, EV_ID);

	if (v->type == JSON_STRING)
		return is_field && is_flow(ev->ph) && read_hex(v, id);
	/* 0 and -1 are no correlations; of flows and ranges 0 is an id */
	return jsonval_int(v, id) && *id < MERGE_MAX_ID &&
		*id >= (is_field ? 0 : 1);
}

static void note_ids(struct merge_file *f, const struct trace_event *ev)
{
	int64_t id;

	if (merge_id(ev, trace_field(ev, EV_ID), &id) && id > f->max_id)
		f->max_id = id;
	for (int i = 0; i < MERGE_ID_ARGS; i++)
		if (merge_id(ev, trace_arg(ev, merge_id_args[i]), &id) &&
		    id > f->max_id)
			f->max_id = id;
}

static void note_time(struct merge_file *f, const struct trace_event *ev)
{
	int64_t ts, dur = 0;

	if (!trace_time(ev, EV_TS, &ts))
		return;
	if (!trace_time(ev, EV_DUR, &dur) || dur > TRACE_SPAN_MAX)
		dur = 0;
	if (ts > TRACE_TS_MAX)
		return;
	f->first_ns = ts < f->first_ns ? ts : f->first_ns;
	f->last_ns = ts + dur > f->last_ns ? ts + dur : f->last_ns;
}

static void note_name(struct merge *m, uint32_t *name,
		      const struct json_value *v)
{
	if (v->type != JSON_STRING || !v->len)
		return;
	*name = intern_value(&m->names, v);
	m->no_memory |= *name == INTERN_NONE;
}

/* Names of threads tell of lanes, all other metadata of processes; Kineto gives
 * those tid 0. */
static void add_metadata(struct merge *m, uint16_t file,
			 const struct trace_event *ev)
{
	const struct json_value *kind = trace_field(ev, EV_NAME);
	const struct json_value *name = trace_arg(ev, ARG_ARG_NAME);
	const struct json_value *index = trace_arg(ev, ARG_SORT_INDEX);
	struct merge_process *p;
	uint32_t i;

	if (jsonval_is(kind, "thread_name") ||
	    jsonval_is(kind, "thread_sort_index")) {
		i = merge_lane_of(m, file, ev, true);
		if (i == UINT32_MAX)
			return;
		note_name(m, &m->lane[i].name, name);
		if (jsonval_int(index, &m->lane[i].sort_index))
			m->lane[i].has_index = true;
		return;
	}
	i = merge_process_of(m, file, ev, true);
	if (i == UINT32_MAX)
		return;
	p = &m->process[i];
	if (jsonval_is(kind, "process_name"))
		note_name(m, &p->name, name);
	else if (jsonval_is(kind, "process_labels"))
		note_name(m, &p->labels, trace_arg(ev, ARG_LABELS));
	else if (jsonval_is(kind, "process_sort_index"))
		(void)jsonval_int(index, &p->sort_index);
}

static void add_event(struct merge *m, uint16_t file,
		      const struct trace_event *ev)
{
	uint32_t lane = merge_lane_of(m, file, ev, true), process;
	struct merge_file *f = &m->file[file];

	note_time(f, ev);
	note_ids(f, ev);
	process = lane != UINT32_MAX ? m->lane[lane].process :
		merge_process_of(m, file, ev, true);
	if (process == UINT32_MAX)
		return;
	m->process[process].has_events = true;
	m->process[process].has_work |= trace_is_gpu_work(ev->cat);
	if (lane != UINT32_MAX && ev->ph != 'C')
		m->lane[lane].has_events = true;
}

/* Keeps the text of each key of the document. */
static void keep_member(void *arg, const char *text, size_t len,
			bool before_events)
{
	struct merge_file *f = arg;
	size_t room = len + 2, cap = f->header_cap;
	char *wider;

	(void)before_events;
	if (f->header_len + room > MERGE_MAX_HEADER) {
		f->header_left_out++;
		return;
	}
	if (f->header_len + room > cap) {
		cap = 2 * cap + room;
		wider = realloc(f->header, cap);
		if (!wider) {
			f->header_left_out++;
			return;
		}
		f->header = wider;
		f->header_cap = cap;
	}
	if (f->header_len) {
		memcpy(f->header + f->header_len, ",\n", 2);
		f->header_len += 2;
	}
	memcpy(f->header + f->header_len, text, len);
	f->header_len += len;
}

static void add_loss(struct merge *m, uint32_t name, int64_t n)
{
	size_t i = 0;

	while (i < m->nr_losses && m->loss[i].name != name)
		i++;
	if (i == m->nr_losses) {
		if (name == INTERN_NONE ||
		    !VEC_ROOM(m->loss, i, m->cap_losses)) {
			m->no_memory = true;
			return;
		}
		m->loss[m->nr_losses++] = (struct merge_count){ name, 0 };
	}
	if (__builtin_add_overflow(m->loss[i].n, n, &m->loss[i].n))
		m->loss[i].n = INT64_MAX;
}

/* What a hostile file has beyond a hundred causes is one more.  The tracers'
 * CPU times are added up as well. */
static void add_losses(struct merge *m, const struct json_value *own)
{
	struct json_value losses = jsonval_member(own, "losses"), cause, n;
	const char *at = NULL;
	int64_t count;

	while (losses.type == JSON_OBJECT && !m->no_memory &&
	       jsonval_next(&losses, &at, &cause, &n))
		if (jsonval_int(&n, &count) && count > 0)
			add_loss(m, m->nr_losses < 100 ?
				 intern_value(&m->names, &cause) :
				 intern_text(&m->names, "other", 5), count);
	n = jsonval_member(own, "own_ns");
	if (jsonval_int(&n, &count) && count > 0 &&
	    __builtin_add_overflow(m->own_ns, count, &m->own_ns))
		m->own_ns = INT64_MAX;
}

/* Each GPU once, if all that is said of it is the same. */
static void add_devices(struct merge *m, const struct json_value *list)
{
	struct json_value device;
	const char *at = NULL;
	uint32_t id;
	size_t i;

	while (list->type == JSON_ARRAY && m->nr_devices < 4096 &&
	       jsonval_next(list, &at, NULL, &device)) {
		if (device.type != JSON_OBJECT)
			continue;
		id = intern_text(&m->names, device.text, device.len);
		for (i = 0; i < m->nr_devices && m->device[i] != id; i++)
			;
		if (i < m->nr_devices)
			continue;
		if (id == INTERN_NONE ||
		    !VEC_ROOM(m->device, i, m->cap_devices)) {
			m->no_memory = true;
			return;
		}
		m->device[m->nr_devices++] = id;
	}
}

static void add_facts(struct merge *m, struct merge_file *f,
		      const struct trace *t)
{
	const struct json_value *own = trace_header(t, HEADER_GPUTRACE);
	struct json_value info = *trace_header(t, HEADER_DISTRIBUTED);
	struct json_value host = jsonval_member(own, "host"), v;

	if (!jsonval_int(trace_header(t, HEADER_BASE), &f->base_ns) ||
	    f->base_ns > TRACE_TS_MAX)
		f->base_ns = -1;
	v = jsonval_member(&info, "rank");
	if (!jsonval_int(&v, &f->rank) || f->rank < 0)
		f->rank = -1;
	v = jsonval_member(&info, "world_size");
	if (!jsonval_int(&v, &f->world_size))
		f->world_size = 0;
	v = jsonval_member(own, "pid");
	if (!jsonval_int(&v, &f->pid))
		f->pid = -1;
	v = jsonval_member(own, "merged");
	f->is_merged = v.type == JSON_ARRAY;
	if (host.type == JSON_STRING && host.len)
		f->host = intern_value(&m->names, &host);
	add_losses(m, own);
	add_devices(m, trace_header(t, HEADER_DEVICES));
}

static int out_of(struct trace_problem *problem, const char *what)
{
	problem->has_offset = false;
	snprintf(problem->text, sizeof(problem->text), "%s", what);
	return -ENOMEM;
}

static int scan_events(struct merge *m, uint16_t file, struct trace *t,
		       struct trace_problem *problem)
{
	struct trace_event ev;
	int more;

	while ((more = trace_next(t, &ev)) > 0 && !m->no_memory &&
	       m->nr_lanes + m->nr_processes < MERGE_MAX_LANES) {
		if (ev.type != JSON_OBJECT || !ev.ph)
			m->file[file].nr_odd++;
		else if (ev.ph == 'M')
			add_metadata(m, file, &ev);
		else
			add_event(m, file, &ev);
	}
	*problem = *trace_problem(t);
	if (more < 0)
		return more;
	if (more && !m->no_memory)
		return out_of(problem, "more than a million lanes");
	if (!m->no_memory && trace_need_events(t, problem))
		return -EBADMSG;
	add_facts(m, &m->file[file], t);
	return m->no_memory ? out_of(problem, "out of memory") : 0;
}

int merge_scan(struct merge *m, uint16_t file, struct trace_problem *problem)
{
	struct merge_file *f = &m->file[file];
	struct trace *t = trace_open(f->path, 0, problem);
	int err;

	f->first_ns = INT64_MAX;
	f->last_ns = -1;
	f->host = f->label = INTERN_NONE;
	if (!t)
		return -EIO;
	trace_on_member(t, keep_member, f);
	err = stat(f->path, &f->seen) ? -errno :
		scan_events(m, file, t, problem);
	trace_close(t);
	return err;
}
