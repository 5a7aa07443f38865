/* SPDX-License-Identifier: MIT */
#include "tools/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/jsonval.h"

/* The clocks of GPU and CPU differ by some us; 8 us was reported. */
static const int64_t skew_ns = 20000;

/* HTA's pattern: "rank": and white space and digits, the first in the file. */
static bool find_rank(const char *text, size_t len, int64_t *rank)
{
	static const char key[] = "\"rank\":";
	const char *end = text + len, *p = text, *digits;

	while ((p = memmem(p, end - p, key, sizeof(key) - 1))) {
		p += sizeof(key) - 1;
		for (digits = p; digits < end && strchr(" \t\r\v\f", *digits);)
			digits++;
		if (digits == p || digits == end || *digits < '0' ||
		    *digits > '9')
			continue;
		*rank = strtoll(digits, NULL, 10);
		return true;
	}
	return false;
}

void check_member(void *arg, const char *text, size_t len, bool before_events)
{
	struct check *c = arg;

	if (memchr(text, 0x7f, len))
		c->del_in_header = true;
	if (!c->rank_found && find_rank(text, len, &c->rank)) {
		c->rank_found = true;
		c->rank_in_head = before_events;
	}
}

static void check_rank(struct check *c, const struct trace *t)
{
	const struct json_value *info = trace_header(t, HEADER_DISTRIBUTED);
	struct json_value v = jsonval_member(info, "rank");
	bool has = v.type > JSON_NULL;
	int64_t rank;

	if (has != c->rank_found ||
	    (has && (!jsonval_int(&v, &rank) || rank != c->rank)))
		check_note(c, RULE_H001, CHECK_NO_EVENT,
			   "HTA finds %s", c->rank_found ? "another" : "none");
	else if (!c->rank_in_head)
		check_note(c, RULE_H002, CHECK_NO_EVENT, "%s",
			   has ? "it comes later" : "none at all");
}

static bool is_known_device(const struct json_value *properties, int64_t id)
{
	struct json_value device, v;
	const char *at = NULL;
	int64_t sms;

	while (jsonval_next(properties, &at, NULL, &device)) {
		v = jsonval_member(&device, "id");
		if (check_value(&v) != id)
			continue;
		v = jsonval_member(&device, "numSms");
		if (!jsonval_int(&v, &sms) || sms < 1)
			continue;
		v = jsonval_member(&device, "name");
		if (v.type == JSON_STRING)
			return true;
	}
	return false;
}

static void check_schema(struct check *c, const struct trace *t)
{
	const struct json_value *properties = trace_header(t, HEADER_DEVICES);
	int64_t n;

	if (!jsonval_int(trace_header(t, HEADER_SCHEMA), &n) || n != 1)
		check_note(c, RULE_K001, CHECK_NO_EVENT, "schemaVersion");
	else if (trace_header(t, HEADER_UNIT)->type == JSON_NONE)
		check_note(c, RULE_K001, CHECK_NO_EVENT, "displayTimeUnit");
	else if (!jsonval_int(trace_header(t, HEADER_BASE), &n) || n < 0)
		check_note(c, RULE_K001, CHECK_NO_EVENT,
			   "baseTimeNanoseconds");
	else if (properties->type != JSON_ARRAY)
		check_note(c, RULE_K001, CHECK_NO_EVENT, "deviceProperties");
	for (size_t i = 0; properties->type == JSON_ARRAY &&
	     i < c->nr_devices; i++)
		if (!is_known_device(properties, c->devices[i]))
			check_note(c, RULE_K001, CHECK_NO_EVENT,
				   "deviceProperties of device %" PRId64,
				   c->devices[i]);
}

static void check_file_name(struct check *c, bool is_gzip)
{
	const char *suffix = is_gzip ? ".gz" : ".json";
	size_t len = strlen(c->path), behind = strlen(suffix);

	if (strcmp(c->path, "-") &&
	    (len < behind || strcmp(c->path + len - behind, suffix)))
		check_note(c, RULE_H009, CHECK_NO_EVENT, "%s", suffix);
}

void check_header(struct check *c, const struct trace *t)
{
	const struct trace_shape *shape = trace_shape(t);
	const struct json_value *unit = trace_header(t, HEADER_UNIT);
	int64_t base;

	check_file_name(c, shape->is_gzip);
	if (shape->has_bom)
		check_note(c, RULE_P004, CHECK_NO_EVENT, "byte order mark");
	if (shape->is_array || !shape->has_events)
		check_note(c, RULE_P007, CHECK_NO_EVENT, "%s",
			   shape->is_array ? "the document is an array" :
			   "no traceEvents");
	if (shape->trailing_commas)
		check_note(c, RULE_P001, CHECK_NO_EVENT, "%" PRIu64 " times",
			   shape->trailing_commas);
	if (shape->tail_space > 1)
		check_note(c, RULE_P009, CHECK_NO_EVENT, "%" PRIu64 " bytes",
			   shape->tail_space);
	if (c->del_in_header)
		check_note(c, RULE_P003, CHECK_NO_EVENT, "DEL in the header");
	if (unit->type != JSON_NONE && !jsonval_is(unit, "ms") &&
	    !jsonval_is(unit, "ns"))
		check_note(c, RULE_P008, CHECK_NO_EVENT, "%.*s",
			   (int)unit->len, unit->text);
	if (jsonval_int(trace_header(t, HEADER_BASE), &base) &&
	    base >= 100000000000000000 && c->last_ns >= base / 2)
		check_note(c, RULE_P016, CHECK_NO_EVENT, "last %" PRId64
			   " ns, base %" PRId64, c->last_ns, base);
	check_schema(c, t);
	check_rank(c, t);
}

void check_links(struct check *c)
{
	for (size_t i = 0; i < c->nr_work; i++) {
		const struct check_work *w = &c->work[i];
		uint32_t at = w->has_correlation ?
			pairs_find(&c->call_of, w->correlation, 0) :
			UINT32_MAX;
		const struct check_call *call;

		if (at == UINT32_MAX) {
			if (!w->is_flagged)
				check_note(c, RULE_K007, w->index,
					   "correlation %" PRId64,
					   w->correlation);
			continue;
		}
		call = &c->calls[at];
		if (!w->index || !call->index)
			check_note(c, RULE_H003, 0, "correlation %" PRId64,
				   w->correlation);
		if (w->is_kernel && !call->is_launch && !w->is_graph)
			check_note(c, RULE_H006, w->index, "%s",
				   intern_get(&c->names, call->name));
		if (w->ts < call->ts) {
			int64_t early = call->ts - w->ts;
			bool known = early == w->before_ns && early <= skew_ns;

			check_note(c, known ? RULE_K016 : RULE_K008, w->index,
				   "%" PRId64 " ns before event %" PRIu64,
				   early, call->index);
		}
	}
}

static void check_process_name(struct check *c, const struct check_process *p)
{
	if (p->has_gpu && p->has_cpu)
		check_note(c, RULE_P044, p->first_gpu_event, "pid %" PRIu64,
			   p->pid);
	if (!p->is_used || p->pid & CHECK_TEXT)
		return;
	if (!p->has_name)
		check_note(c, RULE_P040, CHECK_NO_EVENT, "pid %" PRIu64,
			   p->pid);
	if (!p->has_sort)
		check_note(c, RULE_P043, CHECK_NO_EVENT, "pid %" PRIu64,
			   p->pid);
}

/* After the lanes: those with slices are known to be used. */
void check_names(struct check *c)
{
	for (size_t i = 0; i < c->nr_lanes; i++) {
		const struct check_lane *lane = &c->lanes[i];

		if (!lane->is_used)
			continue;
		c->processes[lane->process].is_used = true;
		if ((lane->pid | lane->tid) & CHECK_TEXT)
			continue;
		if (!lane->has_name)
			check_note(c, RULE_P040, CHECK_NO_EVENT,
				   "pid %" PRIu64 ", tid %" PRIu64, lane->pid,
				   lane->tid);
		if (!lane->has_sort)
			check_note(c, RULE_P043, CHECK_NO_EVENT,
				   "pid %" PRIu64 ", tid %" PRIu64, lane->pid,
				   lane->tid);
	}
	for (size_t i = 0; i < c->nr_processes; i++)
		check_process_name(c, &c->processes[i]);
}
