/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "tools/diff.h"

/*
 * The rows of a table.  An entry is one operation, call or range; sorted by
 * name and start, those of a name follow each other:
 *
 *      entries of A   aaaaaa bbb   d
 *      entries of B   aaaaa  bbbb c
 *      rows           a      b    c (added)  d (removed)
 */
struct entry {
	int64_t start, dur;
	uint32_t name, step;            /* MODEL_NONE: in no step */
};

struct entries {
	struct entry *entry;
	size_t nr, cap, at;
};

static int by_name_and_start(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* ---- Entries ---- */

struct collect {
	struct diff *d;
	const struct diff_side *s;
	uint32_t *common;       /* a side's name -> that in d->names, + 1 */
	struct entries *out;
};

/* Numbers of one side become those of both. */
static uint32_t common_name(struct collect *c, uint32_t name)
{
	const struct intern_string *text = &c->s->m.names.string[name];
	uint32_t id;

	if (c->common[name])
		return c->common[name] - 1;
	id = intern_text(&c->d->names, text->text, text->len);
	c->d->no_memory |= id == INTERN_NONE;
	c->common[name] = id + 1;
	return id;
}

static void add(struct collect *c, uint32_t name, uint32_t step,
		int64_t start, int64_t end)
{
	struct entries *out = c->out;

	if (!VEC_ROOM(out->entry, out->nr, out->cap)) {
		c->d->no_memory = true;
		return;
	}
	out->entry[out->nr++] = (struct entry){
		start, end - start, common_name(c, name), step,
	};
}

static void add_work(struct collect *c, bool copies)
{
	const struct model *m = &c->s->m;

	for (size_t i = 0; i < m->nr_work && !c->d->no_memory; i++) {
		const struct model_work *w = &m->work[i];
		bool is_copy = w->kind != WORK_KERNEL && w->kind != WORK_GRAPH;

		if (is_copy == copies)
			add(c, w->name, steps_of_work(&c->s->steps, m, w),
			    w->start, w->end);
	}
}

static void add_calls(struct collect *c)
{
	const struct model *m = &c->s->m;

	for (size_t i = 0; i < m->nr_calls && !c->d->no_memory; i++)
		add(c, m->call[i].name, steps_at(&c->s->steps,
						 m->call[i].start),
		    m->call[i].start, m->call[i].end);
}

/* "step 1", "step 2" ... are one name: that of the first. */
static uint32_t range_name(const struct collect *c, uint32_t name)
{
	const struct model *m = &c->s->m;
	uint32_t first = c->s->steps.name;
	const char *base = c->d->step ? c->d->step :
		c->s->steps.source == STEPS_PROFILER ? "ProfilerStep" : "step";

	if (first == MODEL_NONE || name == first)
		return name;
	return steps_is_name(model_name(m, name), base) ? first : name;
}

static void add_ranges(struct collect *c)
{
	const struct model *m = &c->s->m;

	for (size_t i = 0; i < m->nr_ranges && !c->d->no_memory; i++) {
		const struct model_range *r = &m->range[i];

		if (!r->is_op)
			add(c, range_name(c, r->name),
			    steps_at(&c->s->steps, r->start), r->start,
			    r->end);
	}
}

static void collect(struct diff *d, enum diff_sides side,
		    enum diff_table_id id, struct entries *out)
{
	struct collect c = { .d = d, .s = &d->side[side], .out = out };

	c.common = calloc(c.s->m.names.nr + 1, sizeof(*c.common));
	if (!c.common) {
		d->no_memory = true;
		return;
	}
	if (id == DIFF_KERNELS || id == DIFF_COPIES)
		add_work(&c, id == DIFF_COPIES);
	else if (id == DIFF_API)
		add_calls(&c);
	else
		add_ranges(&c);
	free(c.common);
	if (out->nr)
		qsort(out->entry, out->nr, sizeof(*out->entry),
		      by_name_and_start);
}

/* ---- Rows ---- */

/* A name's values: of each step, or of each operation. */
struct values {
	int64_t *value;
	size_t nr, present;     /* values; those above nothing */
};

static bool values_make(struct diff *d, enum diff_sides side,
			const struct entry *e, size_t nr, struct values *out)
{
	size_t nr_steps = d->side[side].steps.nr;

	out->nr = d->by_step ? nr_steps : nr;
	out->present = 0;
	out->value = calloc(out->nr + 1, sizeof(*out->value));
	if (!out->value)
		return false;
	for (size_t i = 0; i < nr; i++) {
		if (!d->by_step) {
			out->value[i] = e[i].dur;
		} else if (e[i].step != MODEL_NONE) {
			int64_t *v = &out->value[e[i].step];

			if (__builtin_add_overflow(*v, e[i].dur, v))
				*v = INT64_MAX;
		}
	}
	for (size_t i = 0; i < out->nr; i++)
		out->present += !d->by_step || out->value[i];
	return true;
}

/* Is it part of (nearly) every step?  Then the median of steps says most;
 * else it would be nothing. */
static bool is_regular(const struct values *v)
{
	return v->present * 10 >= v->nr * 6;
}

static void judge(struct diff *d, struct diff_row *row,
		  const struct values v[DIFF_SIDES])
{
	const struct diff_values a = { v[DIFF_A].value, v[DIFF_A].nr };
	const struct diff_values b = { v[DIFF_B].value, v[DIFF_B].nr };

	diff_judge(&row->change, a, b, !d->by_step ||
		   !is_regular(&v[DIFF_A]) || !is_regular(&v[DIFF_B]));
}

/* One side has it only: that is sure, and matters where it is regular. */
static void only(struct diff *d, struct diff_row *row, enum diff_sides side,
		 const struct values *v)
{
	const struct diff_values own = { v->value, v->nr };

	diff_judge(&row->change, own, own, !d->by_step || !is_regular(v));
	row->change.typical[side == DIFF_A ? DIFF_B : DIFF_A] = 0;
	row->change.part = diff_part(row->change.typical[DIFF_A],
				     row->change.typical[DIFF_B]);
	row->change.p = 1;
	row->change.significant = d->by_step && is_regular(v);
	row->state = side == DIFF_A ? DIFF_REMOVED : DIFF_ADDED;
}

static void make_row(struct diff *d, struct diff_row *row,
		     const struct entry *e[DIFF_SIDES],
		     const size_t nr[DIFF_SIDES])
{
	struct values v[DIFF_SIDES] = { { .nr = 0 }, { .nr = 0 } };

	row->change.p = 1;
	for (int side = 0; side < DIFF_SIDES; side++) {
		row->count[side] = nr[side];
		for (size_t i = 0; i < nr[side]; i++)
			if (__builtin_add_overflow(row->total[side],
						   e[side][i].dur,
						   &row->total[side]))
				row->total[side] = INT64_MAX;
		if (!values_make(d, side, e[side], nr[side], &v[side]))
			d->no_memory = true;
	}
	if (!d->no_memory) {
		if (nr[DIFF_A] && nr[DIFF_B])
			judge(d, row, v);
		else
			only(d, row, nr[DIFF_A] ? DIFF_A : DIFF_B,
			     &v[nr[DIFF_A] ? DIFF_A : DIFF_B]);
	}
	free(v[DIFF_A].value);
	free(v[DIFF_B].value);
}

/* The entries of the next name on either side. */
static uint32_t next_name(const struct entries all[DIFF_SIDES])
{
	uint32_t name = MODEL_NONE;

	for (int side = 0; side < DIFF_SIDES; side++)
		if (all[side].at < all[side].nr &&
		    all[side].entry[all[side].at].name < name)
			name = all[side].entry[all[side].at].name;
	return name;
}

static void make_rows(struct diff *d, struct diff_table *t,
		      struct entries all[DIFF_SIDES])
{
	uint32_t name;

	while (!d->no_memory && (name = next_name(all)) != MODEL_NONE) {
		const struct entry *e[DIFF_SIDES];
		size_t nr[DIFF_SIDES] = { 0, 0 };

		for (int side = 0; side < DIFF_SIDES; side++) {
			struct entries *in = &all[side];

			e[side] = in->entry + in->at;
			while (in->at < in->nr &&
			       in->entry[in->at].name == name) {
				nr[side]++;
				in->at++;
			}
		}
		if (!VEC_ROOM(t->row, t->nr, t->cap)) {
			d->no_memory = true;
			return;
		}
		t->row[t->nr] = (struct diff_row){ .name = name };
		make_row(d, &t->row[t->nr++], e, nr);
	}
}

void diff_names(struct diff *d, enum diff_table_id id)
{
	struct entries all[DIFF_SIDES] = { { .nr = 0 }, { .nr = 0 } };

	collect(d, DIFF_A, id, &all[DIFF_A]);
	collect(d, DIFF_B, id, &all[DIFF_B]);
	if (!d->no_memory)
		make_rows(d, &d->table[id], all);
	free(all[DIFF_A].entry);
	free(all[DIFF_B].entry);
}
