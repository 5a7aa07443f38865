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

static const struct column device_columns[] = {
	{ "Busy (%)", "share", CELL_SHARE, COLUMN_BOTH },
	{ "Busy (ns)", "busy_ns", CELL_NS, COLUMN_BOTH },
	{ "Idle (ns)", "idle_ns", CELL_NS, COLUMN_BOTH },
	{ "Compute (ns)", "compute_ns", CELL_NS, COLUMN_BOTH },
	{ "Comm (ns)", "comm_ns", CELL_NS, COLUMN_BOTH },
	{ "Copy (ns)", "copy_ns", CELL_NS, COLUMN_BOTH },
	{ "File", "file", CELL_COUNT, COLUMN_BOTH },
	{ "Device", "device", CELL_COUNT, COLUMN_BOTH },
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

static int64_t share(int64_t part, int64_t whole)
{
	return whole > 0 ? (int64_t)(((__int128)part * CELL_SHARE_ONE +
				      whole / 2) / whole) : 0;
}

static void fill_times(union cell *cell, const struct row *row, int64_t total)
{
	cell[C_SHARE].n = share(row->time.total, total);
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

/* A pid or tid as text, in memory that the report owns. */
static const char *lane_text(struct report *r, uint64_t n)
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
		cell[3].text = lane_text(r, lane->pid);
		cell[4].text = lane_text(r, lane->tid);
		cell[5].text = lane->name == INTERN_NONE ? "" :
			intern_get(&r->names, lane->name);
		t.nr_rows++;
	}
	if (t.nr_rows || s->out.format != FORMAT_TABLE || s->tables)
		table_rows(&s->out, &t);
	free(t.cells);
	return 0;
}

static int print_devices(struct report_view *s, const struct report *r,
			 int64_t wall)
{
	enum { NR = sizeof(device_columns) / sizeof(*device_columns) };
	struct table t = {
		.title = "GPUs", .key = "devices", .use = COLUMN_BOTH,
		.columns = device_columns, .nr_columns = NR,
		.nr_rows = r->nr_devices,
	};

	t.cells = calloc(r->nr_devices * NR + 1, sizeof(*t.cells));
	if (!t.cells)
		return -1;
	for (size_t i = 0; i < r->nr_devices; i++) {
		const struct device *d = &r->device[i];
		union cell *cell = t.cells + i * NR;

		cell[0].n = share(d->busy_ns, wall);
		cell[1].n = d->busy_ns;
		cell[2].n = wall - d->busy_ns;
		cell[3].n = d->class_ns[WORK_COMPUTE];
		cell[4].n = d->class_ns[WORK_COMM];
		cell[5].n = d->class_ns[WORK_COPY];
		cell[6].n = d->file;
		cell[7].n = d->id;
	}
	if (t.nr_rows || s->out.format != FORMAT_TABLE || s->tables)
		table_rows(&s->out, &t);
	free(t.cells);
	return 0;
}

static int64_t group_sum(const struct groups *g, int64_t *count)
{
	int64_t total = 0;
	struct stats st;

	*count = 0;
	for (size_t i = 0; i < g->nr; i++) {
		stats_compute(&g->group[i].time, &st);
		report_sum(&total, st.total);
		*count += st.count;
	}
	return total;
}

/* Sums over the GPUs; without any, the time of one that did nothing. */
static struct device sum_devices(const struct report *r, int64_t wall,
				 int64_t *whole)
{
	struct device sum = { .busy_ns = 0 };

	*whole = r->nr_devices ? 0 : wall;
	for (size_t i = 0; i < r->nr_devices; i++) {
		report_sum(whole, wall);
		report_sum(&sum.busy_ns, r->device[i].busy_ns);
		for (int c = 0; c < WORK_CLASSES; c++)
			report_sum(&sum.class_ns[c], r->device[i].class_ns[c]);
	}
	return sum;
}

static void print_facts(struct report_view *s, const struct report *r,
			int64_t wall, const struct named_count *losses)
{
	int64_t whole, kernels, kernel_ns = group_sum(&r->kernels, &kernels);
	struct device sum = sum_devices(r, wall, &whole);
	const struct fact facts[] = {
		{ "Wall time", "wall_ns", CELL_NS, wall, 0, NULL, 0 },
		{ "GPU busy", "gpu_busy_ns", CELL_NS, sum.busy_ns, whole,
			NULL, 0 },
		{ "GPU idle", "gpu_idle_ns", CELL_NS, whole - sum.busy_ns,
			whole, NULL, 0 },
		{ "  compute", "compute_ns", CELL_NS,
			sum.class_ns[WORK_COMPUTE], whole, NULL, 0 },
		{ "  communication", "comm_ns", CELL_NS,
			sum.class_ns[WORK_COMM], whole, NULL, 0 },
		{ "  copies and sets", "copy_ns", CELL_NS,
			sum.class_ns[WORK_COPY], whole, NULL, 0 },
		{ "Kernels", "kernel_count", CELL_COUNT, kernels, 0, NULL, 0 },
		{ "Kernel time, summed", "kernel_time_ns", CELL_NS, kernel_ns,
			0, NULL, 0 },
		{ "Losses", "losses", CELL_TEXT, 0, 0, losses, r->nr_losses },
	};

	table_facts(&s->out, r->nr_devices > 1 ?
		    "Summary (GPU times are sums over the GPUs)" : "Summary",
		    "summary", facts, sizeof(facts) / sizeof(*facts));
}

static int print_summary(struct report_view *s, const struct report *r,
			 int64_t wall)
{
	struct named_count *list = calloc(r->nr_losses + 1, sizeof(*list));

	if (!list)
		return -1;
	for (size_t i = 0; i < r->nr_losses; i++)
		list[i] = (struct named_count){
			intern_get(&r->names, r->loss[i].cause), r->loss[i].n,
		};
	print_facts(s, r, wall, list);
	free(list);
	return 0;
}

int report_print(struct report_view *s, struct report *r)
{
	int64_t wall = r->last_ns > r->first_ns ? r->last_ns - r->first_ns : 0;
	int err = 0;

	table_begin(&s->out);
	if (wants(s, "summary"))
		err |= print_summary(s, r, wall);
	if (wants(s, "devices"))
		err |= print_devices(s, r, wall);
	for (int i = 0; i < NR_GROUP_TABLES; i++)
		if (wants(s, group_tables[i].key))
			err |= print_groups(s, r, &group_tables[i]);
	if (wants(s, "threads"))
		err |= print_threads(s, r);
	return err ? -ENOMEM : table_end(&s->out);
}
