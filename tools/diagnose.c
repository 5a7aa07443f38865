/* SPDX-License-Identifier: MIT */
#include "tools/diagnose.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stats.h"

/* Runs the checks: each on every GPU that works, the worst of each stays. */

const struct limits default_limits = {
	.idle = 100000, .launch = 50000, .sync = 50000, .copy = 20000,
	.overlap = 50000, .dominant = 400000, .tiny_saving = 30000,
	.imbalance = 100000, .host_wait_ns = 500000, .tiny_ns = 10000,
};

/*
 * Steps at the beginning that take more than twice the median, and more than
 * any of the second half by half: compilation, caches, the allocator.  They
 * are said and left out.
 */
static size_t count_warmup(const struct steps *s)
{
	enum { FEWEST = 5 };
	int64_t *length = malloc((s->nr + 1) * sizeof(*length)), median, most;
	size_t nr = 0;

	if (!length || s->nr < FEWEST) {
		free(length);
		return 0;
	}
	for (size_t i = 0; i < s->nr; i++)
		length[i] = s->step[i].end - s->step[i].start;
	most = 0;
	for (size_t i = s->nr / 2; i < s->nr; i++)
		most = length[i] > most ? length[i] : most;
	qsort(length, s->nr, sizeof(*length), stats_order);
	median = length[s->nr / 2];
	free(length);
	while (nr < s->nr / 2) {
		int64_t ns = s->step[nr].end - s->step[nr].start;

		if (ns / 2 <= median || ns - ns / 3 <= most)
			break;
		nr++;
	}
	return nr;
}

static void find_warmup(struct subject *d, struct found *f)
{
	const struct steps *s = d->steps;
	size_t nr = count_warmup(s);
	int64_t total = s->window_end - s->window_start, warm, rest;

	if (!nr)
		return;
	warm = s->step[nr].start - s->step[0].start;
	rest = (total - warm) / (int64_t)(s->nr - nr);
	found_title(f, SEVERITY_INFO, "warm-up inside the window: the first "
		    "steps (%zu of %zu) take %s each, the others %s", nr,
		    s->nr, ns_text(warm / (int64_t)nr).text,
		    ns_text(rest).text);
	found_say(f, "left out of all other numbers here");
	found_number(f, "steps", nr);
	found_number(f, "warmup_ns", warm);
	found_number(f, "other_step_ns", rest);
	found_place(f, d, s->step[0].start, s->step[nr].start,
		    "the first steps");
	found_advise(f, "begin the window later (GPUTRACE_START, gputrace "
		     "start PID) or warm up longer");
	found_saves(f, -1, "nothing later: it is over by then");
}

static void drop_warmup(struct steps *s)
{
	size_t nr = count_warmup(s);

	if (!nr)
		return;
	s->nr -= nr;
	memmove(s->step, s->step + nr, s->nr * sizeof(*s->step));
	s->window_start = s->step[0].start;
}

/* Where the GPUs' own work differs, the others wait for the slowest. */
static void find_imbalance(const struct subject *d, size_t nr, struct found *f)
{
	const struct subject *most = d, *least = d;
	double mean = 0, hi, lo, saving;
	const struct model *m = d->m;

	for (size_t i = 0; i < nr; i++) {
		double a = (double)d[i].compute / subject_steps(&d[i]);

		mean += a / nr;
		if (a > (double)most->compute / subject_steps(most))
			most = &d[i];
		if (a < (double)least->compute / subject_steps(least))
			least = &d[i];
	}
	hi = (double)most->compute / subject_steps(most);
	lo = (double)least->compute / subject_steps(least);
	if (nr < 2 || hi <= 0 || (hi - lo) / hi * 1e6 < d->limits->imbalance)
		return;
	saving = (hi - mean) * subject_steps(most);
	found_title(f, found_severity(most, saving), "imbalance: the busiest "
		    "GPU computes %s%s, the least busy %s", ns_text(hi).text,
		    subject_per(most), ns_text(lo).text);
	for (size_t i = 0; i < nr; i++) {
		const struct model_file *file = &m->file[d[i].steps->file];

		if (nr > 16 && &d[i] != most && &d[i] != least)
			continue;
		found_say(f, "%s GPU %lld (rank %lld): %s%s%s", file->path,
			  (long long)m->device[d[i].device].id,
			  (long long)file->rank,
			  ns_text(subject_a_step(&d[i], d[i].compute)).text,
			  subject_per(&d[i]), &d[i] == most ? "  <- most" :
			  &d[i] == least ? "  <- least" : "");
	}
	found_number(f, "gpus", nr);
	found_number(f, "most_ns", hi);
	found_number(f, "least_ns", lo);
	found_number(f, "mean_ns", mean);
	found_text(f, "most_file", m->file[most->steps->file].path);
	found_number(f, "most_rank", m->file[most->steps->file].rank);
	found_number(f, "most_device", m->device[most->device].id);
	found_place(f, most, most->start, most->end, "the busiest GPU");
	found_advise(f, "split the work evenly (batch, sequence lengths, "
		     "experts, layers of a pipeline stage)");
	found_saves(f, saving, "all GPUs as busy as they are on average");
}

static const struct {
	enum found_id id;
	find_fn *find;
} checks[] = {
	{ FOUND_GAPS, find_gaps }, { FOUND_LAUNCH_BOUND, find_launch_bound },
	{ FOUND_SYNC, find_sync }, { FOUND_COPIES, find_copies },
	{ FOUND_SERIALISED, find_serialised },
	{ FOUND_DOMINANT, find_dominant }, { FOUND_TINY, find_tiny },
	{ FOUND_GRAPHS, find_graphs },
};

static bool is_worse(const struct found *a, const struct found *b)
{
	return a->severity != b->severity ? a->severity > b->severity :
		a->cost > b->cost;
}

static void keep_worst(struct found *kept, struct found *f)
{
	unsigned others = kept->nr_others + (kept->severity && f->severity);

	if (f->severity && is_worse(f, kept)) {
		struct found old = *kept;

		*kept = *f;
		*f = old;
	}
	kept->nr_others = others;
	kept->no_memory |= f->no_memory;
	found_fini(f);
}

static void run_check(struct diagnosis *d, struct subject *s,
		      enum found_id id, find_fn *find)
{
	struct found f = { .severity = SEVERITY_NONE };

	if (s->no_memory)
		return;
	find(s, &f);
	if (f.severity && d->nr_subjects > 1) {
		found_number(&f, "device", d->m.device[s->device].id);
		found_text(&f, "file", d->m.file[s->steps->file].path);
	}
	f.steps = s->steps->nr;
	d->checked[id] = true;
	keep_worst(&d->found[id], &f);
}

static int64_t sum_compute(const struct subject *s)
{
	const struct model_device *device = &s->m->device[s->device];
	int64_t sum = 0;

	for (size_t i = device->first; i < device->first + device->nr; i++) {
		const struct model_work *w = &s->m->work[i];

		if (w->start >= s->start && w->start < s->end &&
		    (w->kind == WORK_KERNEL || w->kind == WORK_GRAPH) &&
		    !(w->flags & WORK_COMMUNICATES))
			model_sum(&sum, w->end - w->start);
	}
	return sum;
}

static void add_subject(struct diagnosis *d, uint32_t device)
{
	struct steps *steps = &d->steps[d->m.device[device].file];
	struct subject *s = &d->subject[d->nr_subjects];

	*s = (struct subject){
		.m = &d->m, .limits = &d->limits, .steps = steps,
		.device = device, .start = steps->window_start,
		.end = steps->window_end,
	};
	s->compute = sum_compute(s);
	if (s->end > s->start)
		d->nr_subjects++;
}

static int find_steps(struct diagnosis *d, const char *name)
{
	d->steps = calloc(d->m.nr_files + 1, sizeof(*d->steps));
	d->subject = calloc(d->m.nr_devices + 1, sizeof(*d->subject));
	if (!d->steps || !d->subject)
		return -ENOMEM;
	for (size_t i = 0; i < d->m.nr_files; i++) {
		struct steps *s = &d->steps[i];
		struct subject whole = { .m = &d->m, .steps = s };
		struct found f = { .severity = SEVERITY_NONE };

		if (steps_find(&d->m, i, name, s))
			return -ENOMEM;
		d->checked[FOUND_WARMUP] |= s->nr >= 5;
		find_warmup(&whole, &f);
		keep_worst(&d->found[FOUND_WARMUP], &f);
		drop_warmup(s);
	}
	return 0;
}

int diagnose(struct diagnosis *d, const char *step)
{
	bool no_memory = find_steps(d, step);

	if (no_memory)
		return -ENOMEM;
	for (uint32_t i = 0; i < d->m.nr_devices; i++)
		add_subject(d, i);
	for (size_t i = 0; i < d->nr_subjects; i++) {
		struct subject *s = &d->subject[i];

		subject_gaps(s);
		for (size_t c = 0; c < sizeof(checks) / sizeof(*checks); c++)
			run_check(d, s, checks[c].id, checks[c].find);
		no_memory |= s->no_memory;
	}
	d->checked[FOUND_IMBALANCE] = d->nr_subjects > 1;
	if (d->nr_subjects > 1)
		find_imbalance(d->subject, d->nr_subjects,
				&d->found[FOUND_IMBALANCE]);
	if (d->nr_subjects > 1)
		d->found[FOUND_IMBALANCE].steps = d->steps[0].nr;
	for (int i = 0; i < FOUND_IDS; i++)
		no_memory |= d->found[i].no_memory;
	return no_memory ? -ENOMEM : 0;
}

void diagnose_fini(struct diagnosis *d)
{
	for (size_t i = 0; d->steps && i < d->m.nr_files; i++)
		steps_fini(&d->steps[i]);
	for (size_t i = 0; i < d->nr_subjects; i++)
		subject_fini(&d->subject[i]);
	for (int i = 0; i < FOUND_IDS; i++)
		found_fini(&d->found[i]);
	free(d->steps);
	free(d->subject);
	model_fini(&d->m);
}
