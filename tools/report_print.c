/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report_print.h"

/* The columns of every table of groups; JSON has the same keys in all. */
enum { C_SHARE, C_TOTAL, C_COUNT, C_AVG, C_MEDIAN, C_MIN, C_MAX, C_STDDEV,
	C_MORE };

#define TIME_COLUMNS(count) \
	{ "Time (%)", "share", CELL_SHARE, COLUMN_BOTH }, \
	{ "Total Time (ns)", "total_ns", CELL_NS, COLUMN_BOTH }, \
	{ count, "count", CELL_COUNT, COLUMN_BOTH }, \
	{ "Avg (ns)", "avg_ns", CELL_NS, COLUMN_BOTH }, \
	{ "Med (ns)", "median_ns", CELL_NS, COLUMN_BOTH }, \
	{ "Min (ns)", "min_ns", CELL_NS, COLUMN_BOTH }, \
	{ "Max (ns)", "max_ns", CELL_NS, COLUMN_BOTH }, \
	{ "StdDev (ns)", "stddev_ns", CELL_NS, COLUMN_BOTH }
#define NAME_COLUMN(title) { title, "name", CELL_TEXT, COLUMN_BOTH }
#define SIZE_COLUMN(title, key) { title, key, CELL_BYTES, COLUMN_JSON }

static const struct column kernel_columns[] = {
	TIME_COLUMNS("Instances"), NAME_COLUMN("Name"),
};

static const struct column api_columns[] = {
	TIME_COLUMNS("Num Calls"), NAME_COLUMN("Name"),
};

static const struct column copy_columns[] = {
	TIME_COLUMNS("Count"),
	SIZE_COLUMN("", "total_bytes"), SIZE_COLUMN("", "avg_bytes"),
	SIZE_COLUMN("", "median_bytes"), SIZE_COLUMN("", "min_bytes"),
	SIZE_COLUMN("", "max_bytes"), SIZE_COLUMN("", "stddev_bytes"),
	NAME_COLUMN("Operation"),
};

static const struct column size_columns[] = {
	{ "Total (MB)", "total_bytes", CELL_BYTES, COLUMN_TEXT },
	{ "Count", "count", CELL_COUNT, COLUMN_TEXT },
	{ "Avg (MB)", "avg_bytes", CELL_BYTES, COLUMN_TEXT },
	{ "Med (MB)", "median_bytes", CELL_BYTES, COLUMN_TEXT },
	{ "Min (MB)", "min_bytes", CELL_BYTES, COLUMN_TEXT },
	{ "Max (MB)", "max_bytes", CELL_BYTES, COLUMN_TEXT },
	{ "StdDev (MB)", "stddev_bytes", CELL_BYTES, COLUMN_TEXT },
	{ "Operation", "name", CELL_TEXT, COLUMN_TEXT },
};

static const struct column range_columns[] = {
	TIME_COLUMNS("Instances"),
	{ "Self Time (ns)", "self_ns", CELL_NS, COLUMN_BOTH },
	NAME_COLUMN("Range"),
};

static const struct column projected_columns[] = {
	{ "Proj Time (%)", "share", CELL_SHARE, COLUMN_BOTH },
	{ "Total Proj Time (ns)", "total_ns", CELL_NS, COLUMN_BOTH },
	{ "Range Instances", "count", CELL_COUNT, COLUMN_BOTH },
	{ "Proj Avg (ns)", "avg_ns", CELL_NS, COLUMN_BOTH },
	{ "Proj Med (ns)", "median_ns", CELL_NS, COLUMN_BOTH },
	{ "Proj Min (ns)", "min_ns", CELL_NS, COLUMN_BOTH },
	{ "Proj Max (ns)", "max_ns", CELL_NS, COLUMN_BOTH },
	{ "Proj StdDev (ns)", "stddev_ns", CELL_NS, COLUMN_BOTH },
	{ "Total Range Time (ns)", "range_ns", CELL_NS, COLUMN_BOTH },
	{ "Total GPU Ops", "gpu_ops", CELL_COUNT, COLUMN_BOTH },
	NAME_COLUMN("Range"),
};

static const struct column thread_columns[] = {
	{ "API Time (ns)", "api_ns", CELL_NS, COLUMN_BOTH },
	{ "API Calls", "api_calls", CELL_COUNT, COLUMN_BOTH },
	{ "Ranges", "ranges", CELL_COUNT, COLUMN_BOTH },
	{ "PID", "pid", CELL_TEXT, COLUMN_BOTH },
	{ "TID", "tid", CELL_TEXT, COLUMN_BOTH },
	{ "Thread", "name", CELL_TEXT, COLUMN_BOTH },
};

/* What a table needs besides its numbers. */
enum extra { EXTRA_NONE, EXTRA_BYTES, EXTRA_SIZES, EXTRA_SELF, EXTRA_PROJ };

static const struct group_table {
	const char *key, *title;
	size_t groups;          /* offset in struct report */
	const struct column *columns;
	size_t nr_columns;
	enum extra extra;
	enum column_use use;
} group_tables[] = {
#define COLUMNS(c) c, sizeof(c) / sizeof(*(c))
	{ "kernels", "Kernels", offsetof(struct report, kernels),
		COLUMNS(kernel_columns), EXTRA_NONE, COLUMN_BOTH },
	{ "api", "CUDA API calls", offsetof(struct report, api),
		COLUMNS(api_columns), EXTRA_NONE, COLUMN_BOTH },
	{ "copies", "Copies and sets by time", offsetof(struct report, copies),
		COLUMNS(copy_columns), EXTRA_BYTES, COLUMN_BOTH },
	{ "copy_sizes", "Copies and sets by size",
		offsetof(struct report, copies), COLUMNS(size_columns),
		EXTRA_SIZES, COLUMN_TEXT },
	{ "nvtx", "NVTX ranges on the CPU", offsetof(struct report, ranges),
		COLUMNS(range_columns), EXTRA_SELF, COLUMN_BOTH },
	{ "nvtx_gpu", "NVTX ranges projected on the GPU",
		offsetof(struct report, projected),
		COLUMNS(projected_columns), EXTRA_PROJ, COLUMN_BOTH },
	{ "graphs", "CUDA graphs recorded as a whole",
		offsetof(struct report, graphs), COLUMNS(kernel_columns),
		EXTRA_NONE, COLUMN_BOTH },
};

enum { NR_GROUP_TABLES = sizeof(group_tables) / sizeof(*group_tables) };

/* A row before it is printed. */
struct row {
	const struct group *group;
	const char *name;
	struct stats time, bytes;
	int64_t key;            /* sorted by it, the largest first */
};

bool report_has_table(const char *name, size_t len)
{
	static const char *const others[] = { "summary", "devices", "threads" };

	for (int i = 0; i < NR_GROUP_TABLES; i++)
		if (strlen(group_tables[i].key) == len &&
		    !memcmp(group_tables[i].key, name, len))
			return true;
	for (int i = 0; i < 3; i++)
		if (strlen(others[i]) == len && !memcmp(others[i], name, len))
			return true;
	return false;
}

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

static int by_key_then_name(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->key != y->key)
		return x->key > y->key ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void fill_times(union cell *cell, const struct row *row, int64_t total)
{
	cell[C_SHARE].n = report_share(row->time.total, total);
	cell[C_TOTAL].n = row->time.total;
	cell[C_COUNT].n = row->time.count;
	cell[C_AVG].n = row->time.avg;
	cell[C_MEDIAN].n = row->time.median;
	cell[C_MIN].n = row->time.min;
	cell[C_MAX].n = row->time.max;
	cell[C_STDDEV].n = row->time.stddev;
}

static union cell *fill_sizes(union cell *cell, const struct row *row,
			      bool with_count)
{
	(cell++)->n = row->bytes.total;
	if (with_count)
		(cell++)->n = row->bytes.count;
	(cell++)->n = row->bytes.avg;
	(cell++)->n = row->bytes.median;
	(cell++)->n = row->bytes.min;
	(cell++)->n = row->bytes.max;
	(cell++)->n = row->bytes.stddev;
	return cell;
}

static void fill_row(union cell *cell, const struct group_table *gt,
		     const struct row *row, int64_t total)
{
	union cell *more = cell + C_MORE;

	if (gt->extra == EXTRA_SIZES)
		more = fill_sizes(cell, row, true);
	else
		fill_times(cell, row, total);
	if (gt->extra == EXTRA_BYTES)
		more = fill_sizes(more, row, false);
	if (gt->extra == EXTRA_SELF)
		(more++)->n = row->group->self_ns;
	if (gt->extra == EXTRA_PROJ) {
		(more++)->n = row->group->range_ns;
		(more++)->n = row->group->gpu_ops;
	}
	more->text = row->name;
}

/* The rows that pass the filter, sorted; *total is over all of them. */
static size_t make_rows(const struct report_view *s, struct report *r,
			const struct group_table *gt, struct row *rows,
			int64_t *total)
{
	const struct groups *g = (void *)((char *)r + gt->groups);
	size_t nr = 0;

	*total = 0;
	for (size_t i = 0; i < g->nr; i++) {
		struct row *row = &rows[nr];

		row->group = &g->group[i];
		row->name = intern_get(&r->names, row->group->name);
		stats_compute(&row->group->time, &row->time);
		stats_compute(&row->group->bytes, &row->bytes);
		report_sum(total, row->time.total);
		row->key = sort_key(s->sort, gt->extra == EXTRA_SIZES ?
				    &row->bytes : &row->time);
		nr += !s->filter || !fnmatch(s->filter, row->name, 0);
	}
	if (nr)
		qsort(rows, nr, sizeof(*rows), by_key_then_name);
	return nr;
}

static int print_groups(struct report_view *s, struct report *r,
			const struct group_table *gt)
{
	const struct groups *g = (void *)((char *)r + gt->groups);
	struct row *rows = calloc(g->nr + 1, sizeof(*rows));
	struct table t = {
		.title = gt->title, .key = gt->key, .columns = gt->columns,
		.nr_columns = gt->nr_columns, .use = gt->use,
	};
	int64_t total;

	if (!rows)
		return -1;
	t.nr_rows = make_rows(s, r, gt, rows, &total);
	if (s->top && t.nr_rows > s->top) {
		t.nr_hidden = t.nr_rows - s->top;
		t.nr_rows = s->top;
	}
	t.cells = calloc(t.nr_rows * t.nr_columns + 1, sizeof(*t.cells));
	for (size_t i = 0; t.cells && i < t.nr_rows; i++)
		fill_row(t.cells + i * t.nr_columns, gt, &rows[i], total);
	if (t.cells && (t.nr_rows || s->out.format != FORMAT_TABLE ||
			s->tables))
		table_rows(&s->out, &t);
	free(rows);
	free(t.cells);
	return t.cells ? 0 : -1;
}

const char *report_lane_text(struct report *r, uint64_t n)
{
	char text[24];
	uint32_t id = n;

	if (!(n & REPORT_TEXT)) {
		/* number_or_name() has taken the sign bit away */
		snprintf(text, sizeof(text), "%" PRId64,
			 (int64_t)(n << 1) >> 1);
		id = intern_text(&r->names, n == REPORT_TEXT - 1 ? "-" : text,
				 n == REPORT_TEXT - 1 ? 1 : strlen(text));
	}
	return id == INTERN_NONE ? "" : intern_get(&r->names, id);
}

static int print_threads(struct report_view *s, struct report *r)
{
	enum { NR = sizeof(thread_columns) / sizeof(*thread_columns) };
	struct table t = {
		.title = "Threads", .key = "threads", .use = COLUMN_BOTH,
		.columns = thread_columns, .nr_columns = NR,
	};

	t.cells = calloc(r->nr_lanes * NR + 1, sizeof(*t.cells));
	if (!t.cells)
		return -1;
	for (size_t i = 0; i < r->nr_lanes; i++) {
		const struct lane *lane = &r->lane[i];
		union cell *cell = t.cells + t.nr_rows * NR;

		if (!lane->nr_calls && !lane->nr_ranges)
			continue;
		cell[0].n = lane->calls_ns;
		cell[1].n = lane->nr_calls;
		cell[2].n = lane->nr_ranges;
		cell[3].text = report_lane_text(r, lane->pid);
		cell[4].text = report_lane_text(r, lane->tid);
		cell[5].text = lane->name == INTERN_NONE ? "" :
			intern_get(&r->names, lane->name);
		t.nr_rows++;
	}
	if (t.nr_rows || s->out.format != FORMAT_TABLE || s->tables)
		table_rows(&s->out, &t);
	free(t.cells);
	return 0;
}

int report_print(struct report_view *s, struct report *r)
{
	int64_t wall = r->last_ns > r->first_ns ? r->last_ns - r->first_ns : 0;
	int err = 0;

	table_begin(&s->out);
	if (wants(s, "summary"))
		err |= report_print_summary(s, r, wall);
	if (wants(s, "devices"))
		err |= report_print_devices(s, r, wall);
	for (int i = 0; i < NR_GROUP_TABLES; i++)
		if (wants(s, group_tables[i].key))
			err |= print_groups(s, r, &group_tables[i]);
	if (wants(s, "threads"))
		err |= print_threads(s, r);
	return err ? -ENOMEM : table_end(&s->out);
}
