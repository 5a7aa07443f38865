/* SPDX-License-Identifier: MIT */
#include "tools/report_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/big.h"
#include "tools/order.h"
#include "tools/report.h"

/* ---- What a slice says ---- */

static bool is_plain(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
		(c >= 'A' && c <= 'Z') || strchr(" _,.[]-", c);
}

/* A value of the arguments behind a word, or nothing where it is not there;
 * the file is hostile: 40 plain characters.  Returns the end. */
static char *put_value(char *to, const char *word, const struct json_value *v)
{
	enum { MANY = 40 };
	uint32_t i;

	if (v->type != JSON_NUMBER && v->type != JSON_STRING &&
	    v->type != JSON_ARRAY)
		return to;
	to = stpcpy(to, word);
	for (i = 0; i < v->len && i < MANY; i++)
		if (v->text[i] && is_plain(v->text[i]))
			*to++ = v->text[i];
	return to;
}

static int64_t number(const struct json_value *v)
{
	int64_t n;

	return jsonval_int(v, &n) && n > 0 ? n : 0;
}

/* The arguments of one that says its FLOP.  The others are its shape:
 * "4096x3x1024 batch 8 TN R_16BF", or "x [4,3,8,8] w [6,3,3,3] HALF"; what an
 * event does not have is left out, and a count of 1. */
#define WORK_ARGS(X) \
	X(NULL, "FLOP", false) \
	X("", "m", false) X("x", "n", false) X("x", "k", false) \
	X(" x ", "x", false) X(" w ", "w", false) \
	X(" groups ", "groups", true) X(" batch ", "batch", true) \
	X(" ", "transA", false) X("", "transB", false) \
	X(" ", "A type", false) X(" ", "type", false)

static const char *const work_keys[] = {
#define X(word, key, is_count) key,
	WORK_ARGS(X)
#undef X
};
static const struct {
	const char *word;
	bool is_count;
} work_args[] = {
#define X(word, key, is_count) { word, is_count },
	WORK_ARGS(X)
#undef X
};
enum { NR_WORK_ARGS = sizeof(work_keys) / sizeof(*work_keys) };

static bool read_work(struct report *r, const struct json_value *args,
		      struct library_slice *s)
{
	struct json_value value[NR_WORK_ARGS];
	char text[640], *to = text, *from = text;

	jsonval_members(args, work_keys, NR_WORK_ARGS, value);
	s->kind = LIBRARY_WORK;
	s->amount = number(&value[0]);
	if (!s->amount)
		return false;
	for (size_t i = 1; i < NR_WORK_ARGS; i++)
		if (!work_args[i].is_count || number(&value[i]) > 1)
			to = put_value(to, work_args[i].word, &value[i]);
	from += to > from && *from == ' ';
	s->shape = intern_text(&r->names, from, to - from);
	return true;
}

enum { NAME, RANKS, BYTES, DTYPE, OP, PLAN, ALGORITHM, PROTOCOL, CHANNELS,
	NR_COLLECTIVE_ARGS };
static const char *const collective_keys[NR_COLLECTIVE_ARGS] = {
	"Collective name", "Group size", "bytes", "dtype", "op", "plan",
	"algorithm", "protocol", "channels" };

/* "RING LL", as NCCL says it. */
static void read_choice(struct report *r, const struct json_value *value,
			struct library_slice *s)
{
	int64_t channels = number(&value[CHANNELS]);
	char text[128], *to = text;

	s->plan = number(&value[PLAN]);
	s->channels = channels <= UINT16_MAX ? channels : 0;
	if (s->plan)
		s->kind = LIBRARY_TASK;
	if (value[ALGORITHM].type != JSON_STRING)
		return;
	to = put_value(to, "", &value[ALGORITHM]);
	to = put_value(to, " ", &value[PROTOCOL]);
	s->algorithm = intern_text(&r->names, text, to - text);
}

static bool read_collective(struct report *r, const struct json_value *args,
			    struct library_slice *s)
{
	struct json_value value[NR_COLLECTIVE_ARGS];
	int64_t ranks, bytes;
	char text[256], *to = text;

	jsonval_members(args, collective_keys, NR_COLLECTIVE_ARGS, value);
	ranks = number(&value[RANKS]);
	bytes = number(&value[BYTES]);
	s->kind = LIBRARY_COLLECTIVE;
	read_choice(r, value, s);
	if (value[NAME].type != JSON_STRING ||
	    (s->kind != LIBRARY_TASK && (!ranks || !bytes)))
		return false;
	s->amount = bytes;
	s->name = intern_value(&r->names, &value[NAME]);
	if (s->name != INTERN_NONE)
		s->bus = report_nccl_bus(intern_get(&r->names, s->name),
					 ranks, bytes);
	to = put_value(to, "", &value[DTYPE]);
	to = put_value(to, " ", &value[OP]);
	to = put_value(to, ", ranks: ", &value[RANKS]);
	s->shape = intern_text(&r->names, text, to - text);
	return true;
}

/* False: it says nothing of interest. */
static bool read_slice(struct report *r, const struct trace_event *ev,
		       struct library_slice *s)
{
	const struct json_value *args = trace_field(ev, EV_ARGS);
	const struct json_value *name = trace_field(ev, EV_NAME);

	if (jsonval_is(name, "ncclGroupStart") ||
	    jsonval_is(name, "ncclGroupEnd")) {
		s->kind = jsonval_is(name, "ncclGroupEnd") ?
			LIBRARY_GROUP_END : LIBRARY_GROUP_START;
		return true;
	}
	if (args->type != JSON_OBJECT)
		return false;
	if (ev->cat == CAT_ANNOTATION)
		return report_nccl_read(r, ev, s);
	return ev->cat == CAT_NCCL ? read_collective(r, args, s) :
		read_work(r, args, s);
}

void report_library_add(struct report *r, const struct trace_event *ev,
			uint32_t name, int64_t start, int64_t end)
{
	struct report_library *l = &r->library;
	struct library_slice s = { .start = start, .end = end, .name = name,
				   .shape = INTERN_NONE,
				   .comm = INTERN_NONE,
				   .algorithm = INTERN_NONE };

	if (!read_slice(r, ev, &s))
		return;
	s.lane = report_event_lane(r, ev, trace_field(ev, EV_TID));
	if (s.lane == UINT32_MAX || s.name == INTERN_NONE ||
	    !BIG_ROOM(l->slice, l->nr_slices, l->cap_slices)) {
		r->no_memory = true;
		return;
	}
	l->slice[l->nr_slices++] = s;
}

/* ---- From slices to units ---- */

static int slice_order(const void *a, const void *b)
{
	const struct library_slice *x = a, *y = b;

	return ORDER_NESTED(x, y);
}

static struct library_unit *add_unit(struct report *r,
				     const struct library_slice *s)
{
	struct report_library *l = &r->library;

	if (!BIG_ROOM(l->unit, l->nr_units, l->cap_units)) {
		r->no_memory = true;
		return NULL;
	}
	l->unit[l->nr_units] = (struct library_unit){
		.start = s->start, .end = s->end, .lane = s->lane,
		.name = INTERN_NONE, .shape = INTERN_NONE,
		.algorithm = INTERN_NONE, .first_ns = INT64_MAX,
		.last_ns = INT64_MIN, .is_collective = s->kind != LIBRARY_WORK,
	};
	return &l->unit[l->nr_units++];
}

/* Its name and shape are those of all its calls, or none. */
static uint32_t of_all(struct report *r, const struct library_unit *u,
		       uint32_t before, uint32_t name)
{
	return !u->nr_calls || before == name ? name :
		intern_text(&r->names, "(several)", 9);
}

static void add_to_unit(struct report *r, struct library_unit *u,
			const struct library_slice *s)
{
	u->amount += s->amount;
	u->bus += s->bus;
	u->name = of_all(r, u, u->name, s->name);
	u->shape = of_all(r, u, u->shape, s->shape);
	u->nr_calls++;
	if (s->end > u->end)
		u->end = s->end;
}

/* What NCCL says of its own choice: of several that differ, that. */
static void tell_unit(struct report *r, struct library_unit *u,
		      const struct library_slice *s)
{
	if (s->channels > u->channels)
		u->channels = s->channels;
	if (s->algorithm == INTERN_NONE)
		return;
	u->algorithm = !u->is_told || u->algorithm == s->algorithm ?
		s->algorithm : intern_text(&r->names, "(several)", 9);
	u->is_told = true;
}

struct walk {
	uint32_t lane, depth;           /* of groups */
	int64_t covered;                /* the end of the last outermost one */
	size_t group;                   /* its unit, plus 1 */
	size_t last;                    /* that of the last slice, plus 1 */
};

/* In a call of the last unit; a group may hold calls that no wrapper saw. */
static void walk_told(struct report *r, struct walk *w,
		      const struct library_slice *s)
{
	struct library_unit *u = w->last ?
		&r->library.unit[w->last - 1] : NULL;

	if (s->kind != LIBRARY_TASK || !u || !u->is_collective)
		return;
	if (!u->nr_calls || u->plan) {
		u->plan = s->plan;
		add_to_unit(r, u, s);
	}
	tell_unit(r, u, s);
}

/* No wrapper is around it. */
static void walk_task(struct report *r, struct walk *w,
		      const struct library_slice *s)
{
	struct library_unit *u = w->last ?
		&r->library.unit[w->last - 1] : NULL;

	if (!u || !u->is_collective || u->plan != s->plan) {
		u = add_unit(r, s);
		if (!u)
			return;
		u->start = w->covered;
		u->plan = s->plan;
		w->last = r->library.nr_units;
	}
	add_to_unit(r, u, s);
	tell_unit(r, u, s);
	w->covered = s->end;
}

static void walk_slice(struct report *r, struct walk *w,
		       const struct library_slice *s)
{
	struct library_unit *u;

	if (s->lane != w->lane)
		*w = (struct walk){ .lane = s->lane, .covered = INT64_MIN };
	/* Also of a call's slice, and NCCL's own range in it, the outer. */
	if (s->start < w->covered) {
		walk_told(r, w, s);
		return;
	}
	if (s->kind == LIBRARY_TASK) {
		walk_task(r, w, s);
		return;
	}
	w->covered = s->end;
	if (s->kind == LIBRARY_GROUP_START) {
		if (!w->depth++ && add_unit(r, s))
			w->group = r->library.nr_units;
		return;
	}
	if (s->kind == LIBRARY_GROUP_END) {
		if (w->group && w->depth == 1) {
			r->library.unit[w->group - 1].end = s->end;
			w->last = w->group;
		}
		w->depth -= w->depth > 0;
		return;
	}
	u = w->depth && w->group && s->kind == LIBRARY_COLLECTIVE ?
		&r->library.unit[w->group - 1] : add_unit(r, s);
	if (!u)
		return;
	w->last = u - r->library.unit + 1;
	add_to_unit(r, u, s);
}

static void make_units(struct report *r)
{
	struct walk walk = { .lane = UINT32_MAX };

	order_sort(r->library.slice, r->library.nr_slices,
		   sizeof(*r->library.slice), slice_order);
	for (size_t i = 0; i < r->library.nr_slices && !r->no_memory; i++)
		walk_slice(r, &walk, &r->library.slice[i]);
}

/* ---- From kernels to units ---- */

/* "kernel RING LL" of "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)": NCCL names
 * its kernels so, from 2.19 on.  Of the program inside it chooses by a number
 * (its src/device/generate.py: a kernel of trees and one of all else, both by
 * the name LL). */
static uint32_t algorithm_of(struct report *r, uint32_t kernel)
{
	static const char *const names[] = { "_COLLNET_DIRECT", "_COLLNET_CHAIN",
		"_NVLS_TREE", "_NVLS", "_TREE", "_RING", "_PAT" };
	static const char *const protocols[] = { "_LL128", "_SIMPLE", "_LL" };
	const char *name = intern_get(&r->names, kernel);
	char text[64], *to = text;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strstr(name, names[i])) {
			to = stpcpy(stpcpy(to, "kernel "), names[i] + 1);
			break;
		}
	for (i = 0; to > text && i < 3; i++)
		if (strstr(name, protocols[i])) {
			*to++ = ' ';
			to = stpcpy(to, protocols[i] + 1);
			break;
		}
	return intern_text(&r->names, text, to - text);
}

static void add_kernel(struct report *r, struct library_unit *u,
		       const struct work *w)
{
	if (u->plan && !strstr(intern_get(&r->names, w->name), "nccl"))
		return;
	report_sum(&u->busy_ns, w->end - w->start);
	u->first_ns = w->start < u->first_ns ? w->start : u->first_ns;
	u->last_ns = w->end > u->last_ns ? w->end : u->last_ns;
	if (u->is_collective && !u->is_told && !u->nr_kernels)
		u->algorithm = algorithm_of(r, w->name);
	u->nr_kernels++;
	u->devices |= 1ull << report_work_device(r, w) % 64;
}

static void add_kernels(struct report *r, const uint32_t *unit_of)
{
	for (size_t i = 0; i < r->nr_work; i++) {
		const struct work *w = &r->work[i];
		const struct call *c = report_work_call(r, w);
		uint32_t unit = c ? unit_of[c - r->calls] : INTERN_NONE;

		if (w->cat == CAT_KERNEL && unit != INTERN_NONE)
			add_kernel(r, &r->library.unit[unit], w);
	}
}

static void find_kernels(struct report *r)
{
	struct report_library *l = &r->library;
	uint32_t *unit_of = big_alloc((r->nr_calls + 1) * sizeof(*unit_of));
	struct around_slices of = {
		.slice = big_alloc((l->nr_units + 1) * sizeof(*of.slice)),
		.nr = l->nr_units,
	};

	r->no_memory |= !unit_of || !of.slice;
	for (size_t i = 0; !r->no_memory && i < l->nr_units; i++)
		of.slice[i] = (struct range){ l->unit[i].start, l->unit[i].end,
					      i, l->unit[i].lane };
	if (!r->no_memory)
		report_around_find(r, &of, unit_of);
	if (!r->no_memory)
		add_kernels(r, unit_of);
	big_free(unit_of);
	big_free(of.slice);
}

void report_library(struct report *r)
{
	report_nccl_finish(r);
	make_units(r);
	if (r->library.nr_units && !r->no_memory)
		find_kernels(r);
}

void report_library_fini(struct report_library *library)
{
	big_free(library->slice);
	big_free(library->unit);
	pairs_fini(&library->ranks);
}
