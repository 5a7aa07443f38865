/* SPDX-License-Identifier: MIT */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report_print.h"

/* Rates are in hundredths: CELL_MEAN. */
static const struct column work_columns[] = {
	{ "GPU Time (ns)", "total_ns", CELL_NS, COLUMN_BOTH },
	{ "Calls", "count", CELL_COUNT, COLUMN_BOTH },
	{ "Kernels", "kernel_count", CELL_COUNT, COLUMN_BOTH },
	{ "TFLOP/s", "tflops", CELL_MEAN, COLUMN_BOTH },
	{ "Name", "name", CELL_TEXT, COLUMN_BOTH },
	{ "Shape", "shape", CELL_TEXT, COLUMN_BOTH },
};

static const struct column nccl_columns[] = {
	{ "GPU Time (ns)", "total_ns", CELL_NS, COLUMN_BOTH },
	{ "Calls", "count", CELL_COUNT, COLUMN_BOTH },
	{ "Kernels", "kernel_count", CELL_COUNT, COLUMN_BOTH },
	{ "Size (MB)", "bytes", CELL_BYTES, COLUMN_BOTH },
	{ "Alg. (GB/s)", "algbw", CELL_MEAN, COLUMN_BOTH },
	{ "Bus (GB/s)", "busbw", CELL_MEAN, COLUMN_BOTH },
	{ "Channels", "channels", CELL_COUNT, COLUMN_BOTH },
	{ "Algorithm", "algorithm", CELL_TEXT, COLUMN_BOTH },
	{ "Name", "name", CELL_TEXT, COLUMN_BOTH },
	{ "Of", "shape", CELL_TEXT, COLUMN_BOTH },
};
enum { NR_WORK = sizeof(work_columns) / sizeof(*work_columns),
	NR_NCCL = sizeof(nccl_columns) / sizeof(*nccl_columns) };

struct row {
	const char *name, *shape, *algorithm;
	int64_t ns;             /* of kernels; NCCL: from first to last */
	int64_t nr_calls, nr_kernels, channels;
	double amount, bus;
};

struct rows {
	struct row *row;
	size_t nr, cap;
	struct pairs by_key;
};

static const char *text_of(const struct report *r, uint32_t id)
{
	return id == INTERN_NONE ? "" : intern_get(&r->names, id);
}

static bool add_unit(struct rows *rows, const struct report *r,
		     const struct library_unit *u)
{
	uint64_t key = (uint64_t)u->name << 32 | u->shape;
	int nr_devices;
	bool is_new;
	uint32_t i;
	struct row *row;

	if (!VEC_ROOM(rows->row, rows->nr, rows->cap))
		return false;
	i = pairs_put(&rows->by_key, key, u->algorithm, rows->nr, &is_new);
	if (i == UINT32_MAX)
		return false;
	row = &rows->row[i];
	if (is_new) {
		*row = (struct row){
			.name = text_of(r, u->name),
			.shape = text_of(r, u->shape),
			.algorithm = text_of(r, u->algorithm),
		};
		rows->nr++;
	}
	report_sum(&row->ns, u->is_collective ? u->last_ns - u->first_ns :
		   u->busy_ns);
	row->nr_calls += u->nr_calls;
	row->nr_kernels += u->nr_kernels;
	if (u->channels > row->channels)
		row->channels = u->channels;
	/* Ranks of one process in a group work side by side: of one each. */
	nr_devices = u->is_collective ? __builtin_popcountll(u->devices) : 1;
	row->amount += u->amount / nr_devices;
	row->bus += u->bus / nr_devices;
	return true;
}

static int row_order(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int order;

	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	order = strcmp(x->name, y->name);
	if (!order)
		order = strcmp(x->shape, y->shape);
	return order ? order : strcmp(x->algorithm, y->algorithm);
}

/* Hundredths of `amount` a ns, by `unit`. */
static int64_t rate(double amount, int64_t ns, double unit)
{
	double n = ns > 0 ? amount / ns / unit * 100 + 0.5 : 0;

	return n < 9e18 ? (int64_t)n : INT64_MAX;
}

static void fill_row(union cell *cell, const struct row *row, bool is_nccl)
{
	cell[0].n = row->ns;
	cell[1].n = row->nr_calls;
	cell[2].n = row->nr_kernels;
	if (!is_nccl) {
		cell[3].n = rate(row->amount, row->ns, 1000);
		cell[4].text = row->name;
		cell[5].text = row->shape;
		return;
	}
	cell[3].n = row->amount < 9e18 ? (int64_t)row->amount : INT64_MAX;
	cell[4].n = rate(row->amount, row->ns, 1);
	cell[5].n = rate(row->bus, row->ns, 1);
	cell[6].n = row->channels;
	cell[7].text = row->algorithm;
	cell[8].text = row->name;
	cell[9].text = row->shape;
}

static bool make_rows(struct report_view *s, struct report *r, bool is_nccl,
		      struct rows *rows)
{
	for (size_t i = 0; i < r->library.nr_units; i++) {
		const struct library_unit *u = &r->library.unit[i];

		if (u->is_collective != is_nccl || !u->nr_kernels ||
		    !u->nr_calls || (s->filter &&
		    fnmatch(s->filter, text_of(r, u->name), 0)))
			continue;
		if (!add_unit(rows, r, u))
			return false;
	}
	if (rows->nr)
		qsort(rows->row, rows->nr, sizeof(*rows->row), row_order);
	return true;
}

static int print_rows(struct report_view *s, const struct rows *rows,
		      bool is_nccl)
{
	struct table t = {
		.title = is_nccl ? "Collectives of NCCL" :
			"Calls of cuBLAS and cuDNN by shape",
		.key = is_nccl ? "nccl" : "library_calls",
		.columns = is_nccl ? nccl_columns : work_columns,
		.nr_columns = is_nccl ? NR_NCCL : NR_WORK,
		.use = COLUMN_BOTH, .nr_rows = rows->nr,
	};

	report_table_cut(s, &t);
	t.cells = calloc(t.nr_rows * t.nr_columns + 1, sizeof(*t.cells));
	if (!t.cells)
		return -1;
	for (size_t i = 0; i < t.nr_rows; i++)
		fill_row(t.cells + i * t.nr_columns, &rows->row[i], is_nccl);
	report_table_print(s, &t);
	return 0;
}

static int print_library(struct report_view *s, struct report *r, bool is_nccl)
{
	struct rows rows = { .nr = 0 };
	int err = -1;

	if (make_rows(s, r, is_nccl, &rows))
		err = print_rows(s, &rows, is_nccl);
	pairs_fini(&rows.by_key);
	free(rows.row);
	return err;
}

int report_print_library_calls(struct report_view *s, struct report *r)
{
	return print_library(s, r, false);
}

int report_print_nccl(struct report_view *s, struct report *r)
{
	return print_library(s, r, true);
}
