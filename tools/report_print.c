/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report_print.h"

enum { ROW_IDS = 4 };

/* A row before it is printed. */
struct row {
	const struct group *group;
	const char *name, *second, *place;
	const struct lane *lane;        /* or NULL */
	uint64_t id[ROW_IDS];   /* file, pid, tid, device; 0 without lane */
	int64_t key;            /* sorted by it, the largest first */
};

/* What is no table of groups, before those and behind them. */
static const struct part {
	const char *key;
	report_part *print;
} first_parts[] = {
	{ "summary", report_print_summary },
	{ "devices", report_print_devices },
}, last_parts[] = {
	{ "ops", report_print_ops },
	{ "threads", report_print_threads },
	{ "memory", report_print_memory },
	{ "library_calls", report_print_library_calls },
	{ "nccl", report_print_nccl },
	{ "stacks", report_print_stacks },
};
enum { NR_FIRST = sizeof(first_parts) / sizeof(*first_parts),
	NR_LAST = sizeof(last_parts) / sizeof(*last_parts) };

static bool is_key(const char *key, const char *name, size_t len)
{
	return strlen(key) == len && !memcmp(key, name, len);
}

bool report_has_table(const char *name, size_t len)
{
	for (size_t i = 0; i < report_nr_tables; i++)
		if (is_key(report_tables[i].key, name, len))
			return true;
	for (size_t i = 0; i < NR_FIRST; i++)
		if (is_key(first_parts[i].key, name, len))
			return true;
	for (size_t i = 0; i < NR_LAST; i++)
		if (is_key(last_parts[i].key, name, len))
			return true;
	return false;
}

void report_table_cut(const struct report_view *s, struct table *t)
{
	if (!s->top || t->nr_rows <= s->top)
		return;
	t->nr_hidden = t->nr_rows - s->top;
	t->nr_rows = s->top;
}

void report_table_print(struct report_view *s, struct table *t)
{
	if (t->nr_rows || s->out.format != FORMAT_TABLE || s->tables)
		table_rows(&s->out, t);
	free(t->cells);
	t->cells = NULL;
}

#define NUMBER(x) ((union cell){ .n = (x) })
#define TEXT(x) ((union cell){ .text = (x) })

static bool wants(const struct report_view *s, const char *table)
{
	const char *at = s->tables;
	size_t len = strlen(table);

	if (!at)
		return true;
	for (; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, table, len) && (!at[len] || at[len] == ','))
			return true;
	}
	return false;
}

static int64_t sort_key(enum sort_by sort, const struct stats *st)
{
	const int64_t keys[NR_SORTS] = {
		[SORT_TIME] = st->total, [SORT_COUNT] = st->count,
		[SORT_AVG] = st->avg, [SORT_MEDIAN] = st->median,
		[SORT_MIN] = st->min, [SORT_MAX] = st->max,
		[SORT_STDDEV] = st->stddev, [SORT_NAME] = 0,
	};

	return keys[sort];
}

static const char *name_or(const struct report *r, uint32_t id,
			   const char *other)
{
	return id == INTERN_NONE ? other : intern_get(&r->names, id);
}

/* So that the order of rows never depends on that of events. */
static int by_key_then_name(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int order;

	if (x->key != y->key)
		return x->key > y->key ? -1 : 1;
	order = strcmp(x->name, y->name);
	if (!order)
		order = strcmp(x->second, y->second);
	if (!order)
		order = strcmp(x->place, y->place);
	for (int i = 0; !order && i < ROW_IDS; i++)
		order = (x->id[i] > y->id[i]) - (x->id[i] < y->id[i]);
	return order;
}

static int64_t stat_of(enum cell_of of, const struct stats *st)
{
	switch (of) {
	case CELL_OF_TOTAL:
		return st->total;
	case CELL_OF_COUNT:
		return st->count;
	case CELL_OF_AVG:
		return st->avg;
	case CELL_OF_MEDIAN:
		return st->median;
	case CELL_OF_MIN:
		return st->min;
	case CELL_OF_MAX:
		return st->max;
	default:
		return st->stddev;
	}
}

/* Of "64 1 1|128 1 1" one part, in memory that the report owns. */
static const char *shape_text(struct report *r, const struct group *g,
			      bool grid)
{
	const char *both = intern_get(&r->names, g->key.second);
	const char *bar = strchr(both, '|');
	uint32_t id;

	if (!grid)
		return bar + 1;
	id = intern_text(&r->names, both, bar - both);
	return id == INTERN_NONE ? "" : intern_get(&r->names, id);
}

/* In hundredths, a half rounded up. */
static int64_t mean(int64_t sum, const struct group *g)
{
	__int128 nr = g->stats[SET_TIME].count, mean;

	mean = nr ? ((__int128)200 * sum + nr) / (2 * nr) : 0;
	return mean < INT64_MAX ? (int64_t)mean : INT64_MAX;
}

static union cell fill_cell(struct report *r, const struct report_column *c,
			    const struct row *row, int64_t total)
{
	const struct group *g = row->group;

	switch (c->of) {
	case CELL_OF_SHARE:
		return NUMBER(report_share(g->stats[SET_TIME].total, total));
	case CELL_OF_SELF:
		return NUMBER(g->self_ns);
	case CELL_OF_RANGE_NS:
		return NUMBER(g->range_ns);
	case CELL_OF_OPS:
		return NUMBER(g->gpu_ops);
	case CELL_OF_AVG_OPS:
		return NUMBER(mean(g->gpu_ops, g));
	case CELL_OF_AVG_LEVEL:
		return NUMBER(mean(g->levels, g));
	case CELL_OF_AVG_CHILDREN:
		return NUMBER(mean(g->children, g));
	case CELL_OF_INSTANCES:
		return NUMBER(g->instances);
	case CELL_OF_DEVICE:
		return NUMBER(r->device[g->key.place].id);
	case CELL_OF_NAME:
		return TEXT(row->name);
	case CELL_OF_SECOND:
		return TEXT(row->second);
	case CELL_OF_PLACE:
		return TEXT(row->place);
	case CELL_OF_GRID:
	case CELL_OF_BLOCK:
		return TEXT(shape_text(r, g, c->of == CELL_OF_GRID));
	case CELL_OF_PID:
		return TEXT(report_lane_text(
				r, r->process[row->lane->process].pid));
	case CELL_OF_TID:
		return TEXT(report_lane_text(r, row->lane->tid));
	default:
		return NUMBER(stat_of(c->of, &g->stats[c->set]));
	}
}

static void make_row(struct report_view *s, struct report *r,
		     const struct report_table *rt, const struct group *g,
		     struct row *row)
{
	const struct group_key *key = &g->key;
	enum group_set set = rt->sort;

	row->group = g;
	row->name = intern_get(&r->names, key->name);
	row->lane = key->lane == INTERN_NONE ? NULL : &r->lane[key->lane];
	row->place = row->lane || key->place == INTERN_NONE ?
		r->by >= BY_RANGE ? "(none)" : "" :
		report_place_text(r, key->place);
	row->second = name_or(r, key->second, "");
	memset(row->id, 0, sizeof(row->id));
	if (row->lane) {
		row->id[0] = r->process[row->lane->process].file;
		row->id[1] = r->process[row->lane->process].pid;
		row->id[2] = row->lane->tid;
	}
	if (row->lane && key->place != INTERN_NONE)
		row->id[3] = r->device[key->place].id;
	if (rt->sort == SET_GPU && !r->ops_of.self_gpu_ns)
		set = SET_TIME;         /* a program without a GPU */
	row->key = sort_key(s->sort, &g->stats[set]);
}

/* The rows that pass the filter, sorted; *total is over all of them. */
static size_t make_rows(struct report_view *s, struct report *r,
			const struct report_table *rt, struct row *rows,
			int64_t *total)
{
	const struct groups *g = (void *)((char *)r + rt->groups);
	size_t nr = 0;

	*total = 0;
	for (size_t i = 0; i < g->nr; i++) {
		struct row *row = &rows[nr];

		make_row(s, r, rt, &g->group[i], row);
		report_sum(total, row->group->stats[SET_TIME].total);
		nr += !s->filter || !fnmatch(s->filter, row->name, 0);
	}
	if (nr)
		qsort(rows, nr, sizeof(*rows), by_key_then_name);
	return nr;
}

/* The place is shown where rows are told apart by it. */
static void take_columns(const struct report *r, const struct report_table *rt,
			 struct column *columns)
{
	for (size_t c = 0; c < rt->nr_columns; c++) {
		columns[c] = rt->columns[c].column;
		if (rt->columns[c].of == CELL_OF_PLACE && r->by == BY_ALL)
			columns[c].use = 0;
	}
}

static int print_groups(struct report_view *s, struct report *r,
			const struct report_table *rt)
{
	const struct groups *g = (void *)((char *)r + rt->groups);
	struct row *rows = calloc(g->nr + 1, sizeof(*rows));
	struct column columns[REPORT_COLUMNS];
	struct table t = {
		.title = rt->title, .key = rt->key, .columns = columns,
		.nr_columns = rt->nr_columns, .use = rt->use,
	};
	int64_t total;
	int err;

	if (!rows)
		return -1;
	take_columns(r, rt, columns);
	t.nr_rows = make_rows(s, r, rt, rows, &total);
	report_table_cut(s, &t);
	t.cells = calloc(t.nr_rows * t.nr_columns + 1, sizeof(*t.cells));
	for (size_t i = 0; t.cells && i < t.nr_rows * t.nr_columns; i++)
		t.cells[i] = fill_cell(r, &rt->columns[i % t.nr_columns],
				       &rows[i / t.nr_columns], total);
	err = t.cells ? 0 : -1;
	if (t.cells)
		report_table_print(s, &t);
	free(rows);
	return err;
}

static int print_parts(struct report_view *s, struct report *r,
		       const struct part *part, size_t nr)
{
	int err = 0;

	for (size_t i = 0; i < nr; i++)
		if (wants(s, part[i].key))
			err |= part[i].print(s, r);
	return err;
}

int report_print(struct report_view *s, struct report *r)
{
	int err;

	if (s->is_collapsed)
		return report_print_collapsed(s, r) ? -EIO : 0;
	table_begin(&s->out);
	err = print_parts(s, r, first_parts, NR_FIRST);
	for (size_t i = 0; i < report_nr_tables; i++)
		if (wants(s, report_tables[i].key))
			err |= print_groups(s, r, &report_tables[i]);
	err |= print_parts(s, r, last_parts, NR_LAST);
	return err ? -ENOMEM : table_end(&s->out);
}
