/* SPDX-License-Identifier: MIT */
#include "tools/series.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/steps.h"
#include "tools/table.h"

static const char *const source_names[] = {
	[STEPS_NONE] = "none", [STEPS_NAMED] = "named",
	[STEPS_PROFILER] = "ProfilerStep", [STEPS_RANGE] = "step",
	[STEPS_KERNELS] = "kernels",
};

/* The time of the trace, cut up. */
struct bins {
	int64_t start, end, width;
	unsigned nr;
};

static struct bins make_bins(const struct model *m)
{
	struct bins b = { m->first_ns, m->last_ns, 1, 0 };
	int64_t wall = b.end > b.start ? b.end - b.start : 0;

	b.width = wall / SERIES_BINS + (wall % SERIES_BINS != 0);
	b.width = b.width ? b.width : 1;
	b.nr = wall / b.width + (wall % b.width != 0);
	return b;
}

void series_count(struct series_histogram *h, int64_t ns)
{
	int power = ns > 0 ? 63 - __builtin_clzll(ns) : 0;

	h->count[power]++;
	model_sum(&h->total_ns[power], ns);
}

static void print_numbers(FILE *to, const char *key, const int64_t *n,
			  size_t nr)
{
	fprintf(to, "\"%s\":[", key);
	for (size_t i = 0; i < nr; i++)
		fprintf(to, "%s%" PRId64, i ? "," : "", n[i]);
	putc(']', to);
}

/* As far as there is something. */
static void print_histogram(FILE *to, const char *key,
			    const struct series_histogram *h)
{
	size_t nr = SERIES_POWERS;

	while (nr && !h->count[nr - 1])
		nr--;
	fprintf(to, ",\"%s\":{", key);
	print_numbers(to, "count", (const int64_t *)h->count, nr);
	putc(',', to);
	print_numbers(to, "total_ns", h->total_ns, nr);
	putc('}', to);
}

static void add_busy(const struct bins *b, int64_t *busy, int64_t start,
		     int64_t end)
{
	start = start > b->start ? start : b->start;
	end = end < b->end ? end : b->end;
	while (start < end) {
		int64_t i = (start - b->start) / b->width;
		int64_t edge = b->start + (i + 1) * b->width;

		edge = edge < end ? edge : end;
		busy[i] += edge - start;
		start = edge;
	}
}

/* Work is sorted by start: what lies behind all ends so far begins a new
 * stretch. */
static void print_gpu(const struct model *m, const struct model_device *d,
		      const struct bins *b, FILE *to)
{
	const struct model_work *w = m->work + d->first, *last = w + d->nr;
	struct series_histogram gaps = { .count = { 0 } };
	int64_t busy[SERIES_BINS] = { 0 }, until = w->start;

	for (; w < last; w++) {
		if (w->start > until)
			series_count(&gaps, w->start - until);
		if (w->start > until)
			until = w->start;
		if (w->end > until) {
			add_busy(b, busy, until, w->end);
			until = w->end;
		}
	}
	fprintf(to, "{\"file\":%u,\"device\":%" PRId64 ",", d->file, d->id);
	print_numbers(to, "busy_ns", busy, b->nr);
	print_histogram(to, "gaps", &gaps);
	putc('}', to);
}

static void print_gpus(const struct model *m, const struct bins *b, FILE *to)
{
	const char *comma = "";

	fputs(",\n\"gpus\":[", to);
	for (size_t i = 0; i < m->nr_devices; i++) {
		if (!m->device[i].nr)
			continue;
		fprintf(to, "%s\n", comma);
		print_gpu(m, &m->device[i], b, to);
		comma = ",";
	}
	putc(']', to);
}

static void print_delays(const struct model *m, FILE *to)
{
	struct series_histogram delays = { .count = { 0 } };
	uint64_t nr_inside = 0;

	for (size_t i = 0; i < m->nr_calls; i++) {
		const struct model_call *c = &m->call[i];
		int64_t start;

		if (c->work == MODEL_NONE)
			continue;
		start = m->work[c->work].start;
		if (start > c->end)
			series_count(&delays, start - c->end);
		else
			nr_inside++;
	}
	fprintf(to, ",\n\"launch_delays\":{\"inside\":%" PRIu64, nr_inside);
	print_histogram(to, "after", &delays);
	putc('}', to);
}

static int print_file(const struct model *m, uint32_t file, FILE *to)
{
	const struct model_file *f = &m->file[file];
	struct steps s;

	if (steps_find(m, file, NULL, &s))
		return -ENOMEM;
	fputs("{\"path\":", to);
	table_json_text(to, f->path);
	fprintf(to, ",\"rank\":%" PRId64 ",\"shift_ns\":%" PRId64
		",\"step_source\":\"%s\",\"step\":", f->rank, f->shift_ns,
		source_names[s.source]);
	if (s.name == MODEL_NONE)
		fputs("null", to);
	else
		table_json_text(to, model_name(m, s.name));
	fputs(",\"steps\":[", to);
	for (size_t i = 0; i < s.nr; i++)
		fprintf(to, "%s{\"ts_ns\":%" PRId64 ",\"dur_ns\":%" PRId64 "}",
			i ? "," : "", s.step[i].start - f->shift_ns,
			s.step[i].end - s.step[i].start);
	fputs("]}", to);
	steps_fini(&s);
	return 0;
}

static int print_files(const struct model *m, FILE *to)
{
	fputs(",\n\"files\":[", to);
	for (size_t i = 0; i < m->nr_files; i++) {
		fputs(i ? ",\n" : "\n", to);
		if (print_file(m, i, to))
			return -ENOMEM;
	}
	putc(']', to);
	return 0;
}

int series_print(const struct model *m, FILE *to)
{
	const struct bins b = make_bins(m);

	fprintf(to, "{\"start_ns\":%" PRId64 ",\"bin_ns\":%" PRId64
		",\"bins\":%u", b.start, b.width, b.nr);
	if (print_files(m, to))
		return -ENOMEM;
	print_gpus(m, &b, to);
	print_delays(m, to);
	if (series_print_ranges(m, to))
		return -ENOMEM;
	fputs("}\n", to);
	return 0;
}
