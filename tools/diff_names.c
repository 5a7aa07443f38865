/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "tools/diff.h"

/*
 * The rows of a table.  An entry is one operation, call or range; sorted by
 * name, step and start, those of a name follow each other:
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

static int by_name_step_start(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
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
		start, end - start, common_name(c, name),
		c->d->by_step ? step : MODEL_NONE,
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

static void add_ranges(struct collect *c, bool ops)
{
	const struct model *m = &c->s->m;

	for (size_t i = 0; i < m->nr_ranges && !c->d->no_memory; i++) {
		const struct model_range *r = &m->range[i];

		if (r->is_op == ops)
			add(c, range_name(c, r->name),
			    steps_at(&c->s->steps, r->start), r->start,
			    r->end);
	}
}

static void add_blocking(struct collect *c)
{
	const struct model *m = &c->s->m;

	for (size_t i = 0; i < m->nr_rows && !c->d->no_memory; i++)
		if (m->row[i].kind == ROW_CALL)
			add(c, m->row[i].name,
			    steps_at(&c->s->steps, m->row[i].start),
			    m->row[i].start, m->row[i].end);
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
	switch (id) {
	case DIFF_API:
		add_calls(&c);
		break;
	case DIFF_NVTX:
	case DIFF_OPS:
		add_ranges(&c, id == DIFF_OPS);
		break;
	case DIFF_OSRT:
		add_blocking(&c);
		break;
	default:
		add_work(&c, id == DIFF_COPIES);
	}
	free(c.common);
	if (out->nr)
		qsort(out->entry, out->nr, sizeof(*out->entry),
		      by_name_step_start);
}

/* ---- Rows ---- */

/* In how many steps is there something?  Those in none come last. */
static size_t count_steps(const struct entry *e, size_t nr)
{
	size_t present = 0;

	for (size_t i = 0; i < nr && e[i].step != MODEL_NONE; i++)
		present += !i || e[i].step != e[i - 1].step;
	return present;
}

/* The means of blocks of steps of which most are 0, without an array of them:
 * names and steps may both be many. */
static void sparse_means(const struct entry *e, size_t nr, size_t nr_steps,
			 struct diff_blocks *out)
{
	size_t i = 0;

	out->nr = nr_steps < DIFF_BLOCKS ? nr_steps : DIFF_BLOCKS;
	for (size_t block = 0; block < out->nr; block++) {
		size_t first = block * nr_steps / out->nr;
		size_t behind = (block + 1) * nr_steps / out->nr;
		unsigned __int128 sum = 0, n = behind - first;

		for (; i < nr && e[i].step < behind; i++)
			sum += e[i].dur;
		sum = (2 * sum + n) / (2 * n);
		out->value[block] = sum > INT64_MAX ? INT64_MAX : (int64_t)sum;
	}
}

/* A name's values: of each step where it is part of (nearly) every one; else
 * its means.  Without steps: of each operation, by their means. */
struct values {
	struct diff_values v;
	int64_t *array;
	bool regular;
};

static bool fill_values(struct values *out, const struct diff *d,
			const struct entry *e, size_t nr)
{
	out->array = calloc(out->v.nr + 1, sizeof(*out->array));
	if (!out->array)
		return false;
	for (size_t i = 0; i < nr; i++) {
		if (!d->by_step)
			out->array[i] = e[i].dur;
		else if (e[i].step != MODEL_NONE)
			model_sum(&out->array[e[i].step], e[i].dur);
	}
	out->v.value = out->array;
	diff_block(out->array, out->v.nr, true, &out->v.means);
	return true;
}

static bool make_values(struct values *out, const struct diff *d,
			enum diff_sides side, const struct entry *e, size_t nr)
{
	size_t nr_steps = d->side[side].steps.nr;

	out->v.nr = d->by_step ? nr_steps : nr;
	out->regular = d->by_step && count_steps(e, nr) * 10 >= nr_steps * 6;
	if (out->regular || !d->by_step)
		return fill_values(out, d, e, nr);
	sparse_means(e, nr, nr_steps, &out->v.means);
	return true;
}

/* One side has it only: that is sure, and matters where it is regular. */
static void only(struct diff_row *row, enum diff_sides side,
		 const struct values *own)
{
	struct diff_change *c = &row->change;

	diff_judge(c, &own->v, &own->v, !own->regular);
	c->typical[side == DIFF_A ? DIFF_B : DIFF_A] = 0;
	c->part = diff_part(c->typical[DIFF_A], c->typical[DIFF_B]);
	c->p = 1;
	c->significant = own->regular;
	row->state = side == DIFF_A ? DIFF_REMOVED : DIFF_ADDED;
}

static void make_row(struct diff *d, struct diff_row *row,
		     const struct entry *e[DIFF_SIDES],
		     const size_t nr[DIFF_SIDES])
{
	struct values v[DIFF_SIDES] = { { .array = NULL }, { .array = NULL } };

	for (int side = 0; side < DIFF_SIDES; side++) {
		row->count[side] = nr[side];
		for (size_t i = 0; i < nr[side]; i++)
			model_sum(&row->total[side], e[side][i].dur);
		if (nr[side] && !make_values(&v[side], d, side, e[side],
					     nr[side]))
			d->no_memory = true;
	}
	if (d->no_memory)
		;
	else if (!nr[DIFF_B])
		only(row, DIFF_A, &v[DIFF_A]);
	else if (!nr[DIFF_A])
		only(row, DIFF_B, &v[DIFF_B]);
	else
		diff_judge(&row->change, &v[DIFF_A].v, &v[DIFF_B].v,
			   !v[DIFF_A].regular || !v[DIFF_B].regular);
	free(v[DIFF_A].array);
	free(v[DIFF_B].array);
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

/* Both sides have it, or that one has none is a change of the program: sources
 * that must be asked for are more likely off. */
static bool is_told(enum diff_table_id id,
		    const struct entries all[DIFF_SIDES])
{
	bool is_asked_for = id == DIFF_OPS || id == DIFF_OSRT;

	return !is_asked_for || (all[DIFF_A].nr && all[DIFF_B].nr);
}

void diff_names(struct diff *d, enum diff_table_id id)
{
	struct entries all[DIFF_SIDES] = { { .nr = 0 }, { .nr = 0 } };

	collect(d, DIFF_A, id, &all[DIFF_A]);
	collect(d, DIFF_B, id, &all[DIFF_B]);
	if (!d->no_memory && is_told(id, all))
		make_rows(d, &d->table[id], all);
	free(all[DIFF_A].entry);
	free(all[DIFF_B].entry);
}
