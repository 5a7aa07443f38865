/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/diff.h"

#define COLUMNS(c) .columns = c, .nr_columns = sizeof(c) / sizeof(*(c))

static const struct column fact_columns[] = {
	{ "A", "a", CELL_TEXT, COLUMN_BOTH },
	{ "B", "b", CELL_TEXT, COLUMN_BOTH },
	{ "What", "name", CELL_TEXT, COLUMN_BOTH },
};

static const struct column side_columns[] = {
	{ "Steps", "steps", CELL_COUNT, COLUMN_BOTH },
	{ "Wall Time (ns)", "wall_ns", CELL_NS, COLUMN_BOTH },
	{ "GPU Ops", "gpu_ops", CELL_COUNT, COLUMN_BOTH },
	{ "API Calls", "api_calls", CELL_COUNT, COLUMN_BOTH },
	{ "Lost", "lost", CELL_COUNT, COLUMN_BOTH },
	{ "Side", "side", CELL_TEXT, COLUMN_BOTH },
	{ "Steps are", "source", CELL_TEXT, COLUMN_BOTH },
	{ "File", "file", CELL_TEXT, COLUMN_BOTH },
};

#define CHANGE_COLUMNS \
	{ "Change (%)", "change", CELL_SHARE, COLUMN_BOTH }, \
	{ "Change (ns)", "change_ns", CELL_NS, COLUMN_BOTH }, \
	{ "A (ns)", "a_ns", CELL_NS, COLUMN_BOTH }, \
	{ "B (ns)", "b_ns", CELL_NS, COLUMN_BOTH }, \
	{ "", "p", CELL_SHARE, COLUMN_JSON }, \
	{ "Verdict", "state", CELL_TEXT, COLUMN_BOTH }
enum { C_CHANGE, C_DELTA, C_A, C_B, C_P, C_STATE, C_MORE };

static const struct column metric_columns[] = {
	CHANGE_COLUMNS,
	{ "Metric", "name", CELL_TEXT, COLUMN_BOTH },
};

static const struct column name_columns[] = {
	CHANGE_COLUMNS,
	{ "Total A (ns)", "a_total_ns", CELL_NS, COLUMN_BOTH },
	{ "Total B (ns)", "b_total_ns", CELL_NS, COLUMN_BOTH },
	{ "Count A", "a_count", CELL_COUNT, COLUMN_BOTH },
	{ "Count B", "b_count", CELL_COUNT, COLUMN_BOTH },
	{ "", "significant", CELL_COUNT, COLUMN_JSON },
	{ "Name", "name", CELL_TEXT, COLUMN_BOTH },
};

static const char *const states[] = {
	[DIFF_SAME] = "same", [DIFF_SLOWER] = "slower",
	[DIFF_FASTER] = "faster", [DIFF_ADDED] = "added",
	[DIFF_REMOVED] = "removed", [DIFF_UNTESTED] = "untested",
};

/* ---- What differs before the program does ---- */

static bool is_listed(const struct diff *d, uint32_t key, size_t before)
{
	for (size_t i = 0; i < before; i++)
		if (d->side[DIFF_A].fact[i].key == key)
			return true;
	return false;
}

static void add_fact(const struct diff *d, struct table *t, uint32_t key)
{
	const char *a = diff_fact(d, DIFF_A, key);
	const char *b = diff_fact(d, DIFF_B, key);
	union cell *cell = t->cells + t->nr_rows * t->nr_columns;

	if (a && b && !strcmp(a, b))
		return;
	cell[0].text = a ? a : "(not said)";
	cell[1].text = b ? b : "(not said)";
	cell[2].text = intern_get(&d->names, key);
	t->nr_rows++;
}

static int print_differences(const struct diff *d, struct diff_view *view)
{
	const struct diff_side *a = &d->side[DIFF_A], *b = &d->side[DIFF_B];
	struct table t = {
		.title = "Recorded differently: what follows may come from it",
		.key = "differences", .use = COLUMN_BOTH,
		COLUMNS(fact_columns),
	};

	t.cells = calloc((a->nr_facts + b->nr_facts + 1) * t.nr_columns,
			 sizeof(*t.cells));
	if (!t.cells)
		return -ENOMEM;
	for (size_t i = 0; i < a->nr_facts; i++)
		if (!is_listed(d, a->fact[i].key, i))
			add_fact(d, &t, a->fact[i].key);
	for (size_t i = 0; i < b->nr_facts; i++)
		if (!diff_fact(d, DIFF_A, b->fact[i].key))
			add_fact(d, &t, b->fact[i].key);
	if (t.nr_rows || view->out.format != FORMAT_TABLE)
		table_rows(&view->out, &t);
	free(t.cells);
	return 0;
}

/* ---- The two files ---- */

static const char *source_of(const struct diff_side *s)
{
	if (s->steps.source == STEPS_KERNELS)
		return "repeating kernels";
	if (s->steps.name != MODEL_NONE)
		return model_name(&s->m, s->steps.name);
	return "none: the whole file";
}

static void print_sides(const struct diff *d, struct diff_view *view)
{
	enum { NR = sizeof(side_columns) / sizeof(*side_columns) };
	union cell cells[DIFF_SIDES * NR];
	const struct table t = {
		.title = "Traces", .key = "sides", .use = COLUMN_BOTH,
		COLUMNS(side_columns), .cells = cells, .nr_rows = DIFF_SIDES,
	};

	for (int side = 0; side < DIFF_SIDES; side++) {
		const struct diff_side *s = &d->side[side];
		union cell *cell = cells + side * NR;

		cell[0].n = s->has_steps ? s->steps.nr : 0;
		cell[1].n = s->m.last_ns > s->m.first_ns ?
			s->m.last_ns - s->m.first_ns : 0;
		cell[2].n = s->m.nr_work;
		cell[3].n = s->m.nr_calls;
		cell[4].n = s->m.nr_files ? s->m.file[0].lost : 0;
		cell[5].text = side == DIFF_A ? "A" : "B";
		cell[6].text = source_of(s);
		cell[7].text = s->path;
	}
	table_rows(&view->out, &t);
}

/* ---- Metrics ---- */

static void fill_change(union cell *cell, const struct diff_change *c,
			enum diff_state state)
{
	cell[C_CHANGE].n = c->part;
	cell[C_DELTA].n = c->typical[DIFF_B] - c->typical[DIFF_A];
	cell[C_A].n = c->typical[DIFF_A];
	cell[C_B].n = c->typical[DIFF_B];
	/* never 0: that would be certainty */
	cell[C_P].n = c->p * CELL_SHARE_ONE + 0.999999;
	cell[C_STATE].text = states[state];
}

static enum diff_state metric_state(const struct diff *d,
				    const struct diff_change *c)
{
	if (!d->by_step)
		return DIFF_UNTESTED;
	if (!c->significant)
		return DIFF_SAME;
	return c->typical[DIFF_B] > c->typical[DIFF_A] ? DIFF_SLOWER :
		DIFF_FASTER;
}

static void title_metrics(const struct diff *d, char *title, size_t size)
{
	const char *unit = !d->side[DIFF_A].has_steps ||
		!d->side[DIFF_B].has_steps ? "the whole file" :
		"medians of the steps";

	if (!d->by_step)
		snprintf(title, size, "Time, %s: fewer than %d steps, noise "
			 "cannot be told from change", unit, DIFF_MIN_VALUES);
	else if (d->nr_significant)
		snprintf(title, size, "Time, %s: %zu significant changes in "
			 "all", unit, d->nr_significant);
	else
		snprintf(title, size, "Time, %s: no significant change",
			 unit);
}

static void print_metrics(const struct diff *d, struct diff_view *view)
{
	static const char *const names[] = {
		"step time", "GPU busy", "GPU idle",
	};
	enum { NR = sizeof(metric_columns) / sizeof(*metric_columns) };
	union cell cells[DIFF_METRICS * NR];
	char title[128];
	const struct table t = {
		.title = title, .key = "metrics", .use = COLUMN_BOTH,
		COLUMNS(metric_columns), .cells = cells,
		.nr_rows = DIFF_METRICS,
	};

	title_metrics(d, title, sizeof(title));
	for (int i = 0; i < DIFF_METRICS; i++) {
		const struct diff_change *c = &d->metric[i].change;

		fill_change(cells + i * NR, c, metric_state(d, c));
		cells[i * NR + C_MORE].text = names[i];
	}
	table_rows(&view->out, &t);
}

/* ---- Names ---- */

static void fill_row(const struct diff *d, union cell *cell,
		     const struct diff_row *row)
{
	fill_change(cell, &row->change, row->state);
	cell += C_MORE;
	for (int side = 0; side < DIFF_SIDES; side++) {
		cell[side].n = row->total[side];
		cell[DIFF_SIDES + side].n = row->count[side];
	}
	cell[4].n = row->change.significant;
	cell[5].text = intern_get(&d->names, row->name);
}

/* One of the three tables of names of one kind. */
static const struct part {
	const char *key, *title;
	unsigned states;        /* 1 << enum diff_state */
} parts[] = {
	{ "", "", 1 << DIFF_SAME | 1 << DIFF_SLOWER | 1 << DIFF_FASTER },
	{ "_added", ": only in B", 1 << DIFF_ADDED },
	{ "_removed", ": only in A", 1 << DIFF_REMOVED },
};

static bool is_shown(const struct diff_view *view, const struct diff_row *row)
{
	return view->all || view->out.format != FORMAT_TABLE ||
		row->change.significant;
}

static int print_part(const struct diff *d, struct diff_view *view,
		      const struct diff_table *from, const struct part *part,
		      const char *key, const char *title)
{
	char keys[64], titles[128];
	struct table t = {
		.title = titles, .key = keys, .use = COLUMN_BOTH,
		COLUMNS(name_columns),
	};

	snprintf(keys, sizeof(keys), "%s%s", key, part->key);
	snprintf(titles, sizeof(titles), "%s%s, ns of a%s", title, part->title,
		 d->by_step ? " step" : "n operation");
	t.cells = calloc(from->nr * t.nr_columns + 1, sizeof(*t.cells));
	if (!t.cells)
		return -ENOMEM;
	for (size_t i = 0; i < from->nr; i++) {
		const struct diff_row *row = &from->row[i];

		if (!(part->states & 1u << row->state) || !is_shown(view, row))
			continue;
		if (view->top && t.nr_rows == view->top) {
			t.nr_hidden++;
			continue;
		}
		fill_row(d, t.cells + t.nr_rows++ * t.nr_columns, row);
	}
	if (t.nr_rows || view->out.format != FORMAT_TABLE)
		table_rows(&view->out, &t);
	free(t.cells);
	return 0;
}

static int print_names(const struct diff *d, struct diff_view *view)
{
	static const char *const keys[] = {
		[DIFF_KERNELS] = "kernels", [DIFF_COPIES] = "copies",
		[DIFF_API] = "api", [DIFF_NVTX] = "nvtx",
		[DIFF_OPS] = "ops", [DIFF_OSRT] = "osrt",
	}, *const titles[] = {
		[DIFF_KERNELS] = "Kernels", [DIFF_COPIES] = "Copies and sets",
		[DIFF_API] = "CUDA API calls", [DIFF_NVTX] = "NVTX ranges",
		[DIFF_OPS] = "Operators",
		[DIFF_OSRT] = "Blocking calls of the C library",
	};
	int err = 0;

	for (int i = 0; i < DIFF_TABLES; i++)
		for (int p = 0; p < 3; p++)
			err |= print_part(d, view, &d->table[i], &parts[p],
					  keys[i], titles[i]);
	return err;
}

static void print_verdict(const struct diff *d, struct diff_view *view)
{
	const struct fact facts[] = {
		{ "Significant changes", "significant", CELL_COUNT,
			d->nr_significant, 0, NULL, 0, NULL, NULL },
		{ "Tested by step", "by_step", CELL_COUNT, d->by_step, 0, NULL,
			0, NULL, NULL },
		{ "Smallest change, ppm", "min_change_ppm", CELL_COUNT,
			d->min_change, 0, NULL, 0, NULL, NULL },
	};

	if (view->out.format != FORMAT_TABLE)
		table_facts(&view->out, "Verdict", "verdict", facts, 3);
}

int diff_print(const struct diff *d, struct diff_view *view)
{
	int err;

	table_begin(&view->out);
	err = print_differences(d, view);
	print_sides(d, view);
	print_verdict(d, view);
	print_metrics(d, view);
	if (!err)
		err = print_names(d, view);
	return err ? -ENOMEM : table_end(&view->out);
}
