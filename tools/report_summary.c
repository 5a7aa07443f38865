/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>

#include "tools/report_print.h"

/*
 * The first block: what the GPUs did in the whole time, and the classical
 * verdict with the numbers that it rests on.
 */
static const struct column device_columns[] = {
	{ "Busy (%)", "share", CELL_SHARE, COLUMN_BOTH },
	{ "Busy (ns)", "busy_ns", CELL_NS, COLUMN_BOTH },
	{ "Idle (ns)", "idle_ns", CELL_NS, COLUMN_BOTH },
	{ "Compute (ns)", "compute_ns", CELL_NS, COLUMN_BOTH },
	{ "Comm (ns)", "comm_ns", CELL_NS, COLUMN_BOTH },
	{ "Copy (ns)", "copy_ns", CELL_NS, COLUMN_BOTH },
	{ "Overlap (ns)", "overlap_ns", CELL_NS, COLUMN_BOTH },
	{ "File", "file", CELL_COUNT, COLUMN_BOTH },
	{ "Device", "device", CELL_COUNT, COLUMN_BOTH },
};

int64_t report_share(int64_t part, int64_t whole)
{
	return whole > 0 ? (int64_t)(((__int128)part * CELL_SHARE_ONE +
				      whole / 2) / whole) : 0;
}

static int by_file_and_id(const void *a, const void *b, void *arg)
{
	const struct process *process = arg;
	const struct device *const *x = a, *const *y = b;

	if ((*x)->file != (*y)->file)
		return (*x)->file < (*y)->file ? -1 : 1;
	if ((*x)->id != (*y)->id)
		return (*x)->id < (*y)->id ? -1 : 1;
	return process[(*x)->process].pid < process[(*y)->process].pid ? -1 :
		process[(*x)->process].pid > process[(*y)->process].pid;
}

static void fill_device(union cell *cell, const struct device *d, int64_t wall)
{
	cell[0].n = report_share(d->busy_ns, wall);
	cell[1].n = d->busy_ns;
	cell[2].n = wall - d->busy_ns;
	cell[3].n = d->class_ns[WORK_COMPUTE];
	cell[4].n = d->class_ns[WORK_COMM];
	cell[5].n = d->class_ns[WORK_COPY];
	cell[6].n = d->overlap_ns;
	cell[7].n = d->file;
	cell[8].n = d->id;
}

int report_print_devices(struct report_view *s, struct report *r)
{
	enum { NR = sizeof(device_columns) / sizeof(*device_columns) };
	const struct device **sorted = calloc(r->nr_devices + 1,
					      sizeof(*sorted));
	struct table t = {
		.title = "GPUs", .key = "devices", .use = COLUMN_BOTH,
		.columns = device_columns, .nr_columns = NR,
	};

	t.cells = calloc(r->nr_devices * NR + 1, sizeof(*t.cells));
	if (!t.cells || !sorted) {
		free(t.cells);
		free(sorted);
		return -1;
	}
	for (size_t i = 0; i < r->nr_devices; i++)
		if (!r->device[i].out)
			sorted[t.nr_rows++] = &r->device[i];
	qsort_r(sorted, t.nr_rows, sizeof(*sorted), by_file_and_id,
		r->process);
	for (size_t i = 0; i < t.nr_rows; i++)
		fill_device(t.cells + i * NR, sorted[i], report_wall(r));
	report_table_print(s, &t);
	free(sorted);
	return 0;
}

struct sums {
	struct device gpu;      /* over all GPUs */
	size_t nr_gpus;
	int64_t whole;          /* wall time times GPUs */
	int64_t api_ns, busiest_ns;     /* all threads, and the busiest one */
	int64_t nr_api, nr_kernels, kernel_ns;
};

static int64_t group_sum(const struct groups *g, int64_t *count)
{
	int64_t total = 0;

	*count = 0;
	for (size_t i = 0; i < g->nr; i++) {
		report_sum(&total, g->group[i].stats[SET_TIME].total);
		*count += g->group[i].stats[SET_TIME].count;
	}
	return total;
}

/* Without a GPU, the time of one that did nothing. */
static void add_up(const struct report *r, int64_t wall, struct sums *sum)
{
	for (size_t i = 0; i < r->nr_devices; i++) {
		const struct device *d = &r->device[i];

		if (d->out)
			continue;
		sum->nr_gpus++;
		report_sum(&sum->whole, wall);
		report_sum(&sum->gpu.busy_ns, d->busy_ns);
		report_sum(&sum->gpu.overlap_ns, d->overlap_ns);
		report_sum(&sum->gpu.comm_hidden_ns, d->comm_hidden_ns);
		for (int c = 0; c < WORK_CLASSES; c++)
			report_sum(&sum->gpu.class_ns[c], d->class_ns[c]);
	}
	sum->whole = sum->nr_gpus ? sum->whole : wall;
	for (size_t i = 0; i < r->nr_lanes; i++) {
		int64_t ns = r->lane[i].calls_ns;

		sum->nr_api += r->lane[i].nr_calls;
		report_sum(&sum->api_ns, ns);
		sum->busiest_ns = ns > sum->busiest_ns ? ns : sum->busiest_ns;
	}
	sum->kernel_ns = group_sum(&r->kernels, &sum->nr_kernels);
}

/* Half and four fifths are where practice draws the lines. */
static const char *judge(const struct sums *s)
{
	const int64_t *class = s->gpu.class_ns;
	int64_t idle = s->whole - s->gpu.busy_ns;

	if (!s->gpu.busy_ns)
		return "no GPU work";
	if (idle >= s->whole - idle)
		return "CPU-bound";
	if (class[WORK_COMM] - s->gpu.comm_hidden_ns > class[WORK_COMPUTE])
		return "communication-bound";
	if (class[WORK_COPY] > s->gpu.busy_ns - class[WORK_COPY])
		return "copy-bound";
	return s->gpu.busy_ns >= s->whole / 5 * 4 ? "GPU-bound" : "mixed";
}

static void say_verdict(char *to, size_t size, const struct sums *s,
			const char *verdict, int64_t wall)
{
	int64_t idle = report_share(s->whole - s->gpu.busy_ns, s->whole);
	int64_t api = report_share(s->busiest_ns, wall);

	idle = (idle + 500) / 1000;
	api = (api + 500) / 1000;
	snprintf(to, size, "the GPU was idle %" PRId64 ".%" PRId64 " %% of "
		 "the time: %s (busiest thread: %" PRId64 ".%" PRId64
		 " %% in CUDA calls)", idle / 10, idle % 10, verdict, api / 10,
		 api % 10);
}

static void print_facts(struct report_view *s, const struct report *r,
			const struct named_count *losses)
{
	struct sums sum = { .whole = 0 };
	const int64_t *class = sum.gpu.class_ns, *whole = &sum.whole;
	int64_t wall = report_wall(r);
	const char *verdict;
	char text[160];

	add_up(r, wall, &sum);
	verdict = judge(&sum);
	say_verdict(text, sizeof(text), &sum, verdict, wall);
#define FACT(title, key, kind, n, of) \
	{ title, key, kind, n, of, NULL, 0, NULL, NULL }
#define NS(title, key, n, of) FACT(title, key, CELL_NS, n, of)
#define COUNT(title, key, n) FACT(title, key, CELL_COUNT, n, 0)
	const struct fact facts[] = {
		NS("Wall time", "wall_ns", wall, 0),
		NS("GPU busy", "gpu_busy_ns", sum.gpu.busy_ns, *whole),
		NS("GPU idle", "gpu_idle_ns", *whole - sum.gpu.busy_ns, *whole),
		NS("  compute", "compute_ns", class[WORK_COMPUTE], *whole),
		NS("  communication", "comm_ns", class[WORK_COMM], *whole),
		NS("  copies and sets", "copy_ns", class[WORK_COPY], *whole),
		NS("  of these at once", "overlap_ns", sum.gpu.overlap_ns,
		   *whole),
		NS("  comm. hidden", "comm_hidden_ns", sum.gpu.comm_hidden_ns,
		   *whole),
		COUNT("Kernels", "kernel_count", sum.nr_kernels),
		NS("Kernel time, summed", "kernel_time_ns", sum.kernel_ns, 0),
		COUNT("CUDA calls", "api_count", sum.nr_api),
		NS("CPU in CUDA calls", "api_ns", sum.api_ns, 0),
		NS("  busiest thread", "api_busiest_ns", sum.busiest_ns, wall),
		NS("Tracer's CPU time", "own_ns", r->own_ns, 0),
		NS("Overhead slices", "overhead_ns", r->overhead_ns, 0),
		{ "Verdict", "verdict", CELL_TEXT, 0, 0, NULL, 0, verdict,
			text },
		{ "Losses", "losses", CELL_TEXT, 0, 0, losses, r->nr_losses,
			NULL, NULL },
	};

	table_facts(&s->out, sum.nr_gpus > 1 ?
		    "Summary (GPU times are sums over the GPUs)" : "Summary",
		    "summary", facts, sizeof(facts) / sizeof(*facts));
}

int report_print_ops(struct report_view *s, struct report *r)
{
	const struct fact facts[] = {
		NS("Self CPU time total", "self_cpu_ns",
		   r->ops_of.self_cpu_ns, 0),
		NS("Self CUDA time total", "self_gpu_ns",
		   r->ops_of.self_gpu_ns, 0),
	};

	if (r->ops_of.nr)
		table_facts(&s->out, "Operators, in all", "ops_total", facts,
			    sizeof(facts) / sizeof(*facts));
	return 0;
}

int report_print_summary(struct report_view *s, struct report *r)
{
	struct named_count *list = calloc(r->nr_losses + 1, sizeof(*list));

	if (!list)
		return -1;
	for (size_t i = 0; i < r->nr_losses; i++)
		list[i] = (struct named_count){
			intern_get(&r->names, r->loss[i].cause), r->loss[i].n,
		};
	print_facts(s, r, list);
	free(list);
	return 0;
}
