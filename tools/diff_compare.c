/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/diff.h"

/*
 * What is called significant: a corrected p at most as below, and a change of
 * at least --min-change.  Two more bounds keep trifles out:
 *
 *      idle time       the change is that part of a step, not of the idle time
 *      CPU times       at least a twentieth of a step (of A's wall time where
 *                      there are none), and a fifth where the step takes as
 *                      long as before: calls of a few us take 20 % more or
 *                      less, on a loaded machine 40 %, in another run of the
 *                      same program (cuLaunchKernel: 2.6, 3.2 and 3.7 us), and
 *                      where the GPU sets the pace it does not matter
 */
static const double metric_p = 0.01;    /* of three */
static const double name_p = 0.001;     /* of six tables of names */

enum { CPU_FLOOR = 20, CPU_FLOOR_SAME_STEP = 5 };

int64_t diff_part(int64_t a, int64_t b)
{
	const int64_t most = 1000ll * CELL_SHARE_ONE;
	__int128 part;

	if (!a)
		return b ? most : 0;
	part = (__int128)(b - a) * CELL_SHARE_ONE;
	part = (part + (b > a ? a / 2 : -(a / 2))) / a;
	return part > most ? most : part;
}

static int64_t delta(const struct diff_change *c)
{
	return c->typical[DIFF_B] - c->typical[DIFF_A];
}

static int64_t step_time(const struct diff *d)
{
	return d->metric[DIFF_STEP].change.typical[DIFF_A];
}

/* How the medians of blocks move. */
static int64_t move(const struct diff_blocks *a, const struct diff_blocks *b)
{
	return diff_median(b->value, b->nr) - diff_median(a->value, a->nr);
}

/* Makes p larger, and 1 if the medians of values move against the means. */
static void judge_values(struct diff_change *c, const struct diff_values *a,
			 const struct diff_values *b)
{
	struct diff_blocks in_a, in_b;
	double p;

	diff_block(a->value, a->nr, false, &in_a);
	diff_block(b->value, b->nr, false, &in_b);
	p = diff_rank_p(&in_a, &in_b);
	c->p = p > c->p ? p : c->p;
	if ((move(&a->means, &b->means) < 0) != (move(&in_a, &in_b) < 0))
		c->p = 1;
	c->typical[DIFF_A] = diff_median(a->value, a->nr);
	c->typical[DIFF_B] = diff_median(b->value, b->nr);
	c->low_part = diff_part(diff_low(a->value, a->nr),
				diff_low(b->value, b->nr));
}

void diff_judge(struct diff_change *c, const struct diff_values *a,
		const struct diff_values *b, bool by_mean)
{
	c->p = diff_rank_p(&a->means, &b->means);
	c->typical[DIFF_A] = diff_median(a->means.value, a->means.nr);
	c->typical[DIFF_B] = diff_median(b->means.value, b->means.nr);
	if (!by_mean)
		judge_values(c, a, b);
	c->part = diff_part(c->typical[DIFF_A], c->typical[DIFF_B]);
	if (by_mean)
		c->low_part = c->part;
}

/* Does the fast end move the same way, at least half of what counts? */
static bool is_firm(const struct diff *d, const struct diff_change *c)
{
	return (c->low_part < 0) == (c->part < 0) &&
		2 * llabs(c->low_part) >= d->min_change;
}

/* ---- Metrics ---- */

static void judge_metric(const struct diff *d, struct diff_metric *m)
{
	struct diff_values v[DIFF_SIDES];

	for (int side = 0; side < DIFF_SIDES; side++) {
		v[side].value = m->value[side];
		v[side].nr = d->side[side].steps.nr;
		diff_block(v[side].value, v[side].nr, true, &v[side].means);
	}
	diff_judge(&m->change, &v[DIFF_A], &v[DIFF_B], false);
}

static void judge_metrics(struct diff *d)
{
	double *p[DIFF_METRICS];

	for (int i = 0; i < DIFF_METRICS; i++) {
		judge_metric(d, &d->metric[i]);
		p[i] = &d->metric[i].change.p;
	}
	diff_correct(p, DIFF_METRICS);
	for (int i = 0; i < DIFF_METRICS; i++) {
		struct diff_change *c = &d->metric[i].change;
		int64_t part = i == DIFF_IDLE ?
			diff_part(step_time(d), step_time(d) + delta(c)) :
			c->part;

		c->significant = c->p <= metric_p && is_firm(d, c) &&
			llabs(part) >= d->min_change;
		d->nr_significant += c->significant;
	}
}

/* ---- Names ---- */

static bool is_both(const struct diff_row *row)
{
	return row->count[DIFF_A] && row->count[DIFF_B];
}

static int64_t table_total(const struct diff_table *t, enum diff_sides side)
{
	int64_t total = 0;

	for (size_t i = 0; i < t->nr; i++)
		model_sum(&total, t->row[i].total[side]);
	return total;
}

/* Without steps a name of one side matters by its time. */
static bool is_much(const struct diff *d, const struct diff_row *row,
		    const int64_t totals[DIFF_SIDES])
{
	enum diff_sides side = row->state == DIFF_REMOVED ? DIFF_A : DIFF_B;
	int64_t total = totals[side];

	return !d->by_step && d->min_change <=
		diff_part(total, total + row->total[side]);
}

/* Time lost or won: of a step, or of the whole file. */
static int64_t weight(const struct diff *d, const struct diff_row *row)
{
	return llabs(d->by_step ? delta(&row->change) :
		     row->total[DIFF_B] - row->total[DIFF_A]);
}

/* How much a CPU time must change. */
static int64_t cpu_floor(const struct diff *d)
{
	const struct model *m = &d->side[DIFF_A].m;
	int64_t whole = d->by_step ? step_time(d) : m->last_ns - m->first_ns;

	return whole / (d->metric[DIFF_STEP].change.significant ? CPU_FLOOR :
			CPU_FLOOR_SAME_STEP);
}

static void judge_row(const struct diff *d, enum diff_table_id id,
		      struct diff_row *row, const int64_t totals[DIFF_SIDES])
{
	struct diff_change *c = &row->change;
	bool on_cpu = id >= DIFF_API;

	if (!is_both(row)) {
		c->significant |= is_much(d, row, totals);
		return;
	}
	c->significant = c->p <= name_p && is_firm(d, c) &&
		llabs(c->part) >= d->min_change;
	if (on_cpu)
		c->significant &= weight(d, row) >= cpu_floor(d);
	if (c->significant)
		row->state = delta(c) > 0 ? DIFF_SLOWER : DIFF_FASTER;
}

static int correct_table(struct diff_table *t)
{
	double **p = malloc((t->nr + 1) * sizeof(*p));
	size_t nr = 0;

	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < t->nr; i++)
		if (is_both(&t->row[i]))
			p[nr++] = &t->row[i].change.p;
	diff_correct(p, nr);
	free(p);
	return 0;
}

static const struct diff *sorting;      /* for qsort; one thread */

static int by_weight(const void *a, const void *b)
{
	const struct diff_row *x = a, *y = b;

	if (x->change.significant != y->change.significant)
		return x->change.significant ? -1 : 1;
	if (weight(sorting, x) != weight(sorting, y))
		return weight(sorting, x) > weight(sorting, y) ? -1 : 1;
	return strcmp(intern_get(&sorting->names, x->name),
		      intern_get(&sorting->names, y->name));
}

static int judge_table(struct diff *d, enum diff_table_id id)
{
	struct diff_table *t = &d->table[id];

	const int64_t totals[DIFF_SIDES] = {
		table_total(t, DIFF_A), table_total(t, DIFF_B),
	};

	if (correct_table(t))
		return -ENOMEM;
	for (size_t i = 0; i < t->nr; i++) {
		judge_row(d, id, &t->row[i], totals);
		d->nr_significant += t->row[i].change.significant;
	}
	sorting = d;
	if (t->nr)
		qsort(t->row, t->nr, sizeof(*t->row), by_weight);
	return 0;
}

int diff_compare(struct diff *d)
{
	d->by_step = true;
	for (int side = 0; side < DIFF_SIDES; side++)
		d->by_step &= d->side[side].steps.nr >= DIFF_MIN_VALUES;
	diff_metrics(d);
	if (d->no_memory)
		return -ENOMEM;
	judge_metrics(d);
	for (int i = 0; i < DIFF_TABLES; i++) {
		diff_names(d, i);
		if (d->no_memory || judge_table(d, i))
			return -ENOMEM;
	}
	return 0;
}

/* ---- --fail-over ---- */

bool diff_is_over(const struct diff *d, enum diff_metric_id id, int64_t limit)
{
	const struct diff_metric *m = &d->metric[id];
	int64_t least = INT64_MAX, largest = 0;

	if (m->change.part <= limit)
		return false;
	if (d->by_step)
		return m->change.p <= metric_p && is_firm(d, &m->change);
	for (size_t i = 0; i < d->side[DIFF_A].steps.nr; i++)
		if (m->value[DIFF_A][i] > largest)
			largest = m->value[DIFF_A][i];
	for (size_t i = 0; i < d->side[DIFF_B].steps.nr; i++)
		if (m->value[DIFF_B][i] < least)
			least = m->value[DIFF_B][i];
	return diff_part(largest, least) > limit;
}

void diff_fini(struct diff *d)
{
	for (int side = 0; side < DIFF_SIDES; side++) {
		steps_fini(&d->side[side].steps);
		model_fini(&d->side[side].m);
		free(d->side[side].fact);
		for (int i = 0; i < DIFF_METRICS; i++)
			free(d->metric[i].value[side]);
	}
	for (int i = 0; i < DIFF_TABLES; i++)
		free(d->table[i].row);
	intern_fini(&d->names);
}
