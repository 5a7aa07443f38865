/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "tools/report.h"

/*
 * Self time: at each moment the range that began last and is still open on its
 * lane gets the time.  For ranges that nest it is the duration without the
 * children; ranges that cross are handled by the same words.
 *
 * Projection: from the first start to the last end of the GPU operations whose
 * API call began inside the range on the same lane.  The calls of a lane in the
 * order of time are a row; a range is a piece of it, and a tree of minima and
 * maxima answers each piece in logarithmic time:
 *
 *      launches   |  |  | | |   |  |     sorted by (lane, time)
 *      range         [------------]      lo .. hi by two binary searches
 */
struct launch {
	int64_t at;
	int64_t start, end;     /* of the GPU operation */
	uint32_t lane;
};

struct span {
	int64_t start, end;
};

static int by_lane_and_start(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return 0;
}

static int call_by_correlation(const void *a, const void *b)
{
	const struct call *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->correlation != y->correlation)
		return x->correlation < y->correlation ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

static int launch_by_time(const void *a, const void *b)
{
	const struct launch *x = a, *y = b;

	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* Open ranges of one lane, the innermost last; they may already have ended
 * if they cross. */
struct open_ranges {
	const struct range **range;
	size_t nr;
	int64_t clock;
};

/* Lets time pass up to `to`. */
static void pass_time(struct report *r, struct open_ranges *open, int64_t to)
{
	while (open->nr && open->clock < to) {
		const struct range *top = open->range[open->nr - 1];
		int64_t until = top->end < to ? top->end : to;

		if (until > open->clock) {
			struct group *g = report_group(r, &r->ranges,
						       top->name);

			report_sum(&g->self_ns, until - open->clock);
			open->clock = until;
		}
		if (top->end > to)
			return;
		open->nr--;
	}
	open->clock = to;
}

static void add_self_times(struct report *r)
{
	struct open_ranges open = { .clock = INT64_MIN };

	open.range = malloc((r->nr_ranges + 1) * sizeof(*open.range));
	if (!open.range) {
		r->no_memory = true;
		return;
	}
	for (size_t i = 0; i < r->nr_ranges; i++) {
		const struct range *range = &r->range[i];

		if (i && range->lane != range[-1].lane) {
			pass_time(r, &open, INT64_MAX);
			open.clock = INT64_MIN;
		}
		pass_time(r, &open, range->start);
		open.range[open.nr++] = range;
	}
	pass_time(r, &open, INT64_MAX);
	free(open.range);
}

/* The first call of a correlation; calls are sorted. */
static const struct call *find_call(const struct report *r,
				    const struct work *w)
{
	struct call key = {
		.file = w->file, .correlation = w->correlation,
		.start = INT64_MIN,
	};
	size_t lo = 0, hi = r->nr_calls;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (call_by_correlation(&r->calls[mid], &key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == r->nr_calls || r->calls[lo].file != w->file ||
	    r->calls[lo].correlation != w->correlation)
		return NULL;
	return &r->calls[lo];
}

static size_t collect_launches(struct report *r, struct launch *launch)
{
	size_t nr = 0;

	for (size_t i = 0; i < r->nr_work; i++) {
		const struct work *w = &r->work[i];
		const struct call *c = w->correlation ? find_call(r, w) : NULL;

		if (c)
			launch[nr++] = (struct launch){
				c->start, w->start, w->end, c->lane,
			};
	}
	if (nr)
		qsort(launch, nr, sizeof(*launch), launch_by_time);
	return nr;
}

static struct span join(struct span a, struct span b)
{
	return (struct span){
		a.start < b.start ? a.start : b.start,
		a.end > b.end ? a.end : b.end,
	};
}

static const struct span nothing = { INT64_MAX, INT64_MIN };

/* Leaves at tree[nr ..], inner nodes below. */
static void build_tree(struct span *tree, const struct launch *launch,
		       size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		tree[nr + i] = (struct span){ launch[i].start, launch[i].end };
	for (size_t i = nr; i-- > 1;)
		tree[i] = join(tree[2 * i], tree[2 * i + 1]);
}

static struct span ask_tree(const struct span *tree, size_t nr, size_t lo,
			    size_t hi)
{
	struct span found = nothing;

	for (lo += nr, hi += nr; lo < hi; lo /= 2, hi /= 2) {
		if (lo & 1)
			found = join(found, tree[lo++]);
		if (hi & 1)
			found = join(found, tree[--hi]);
	}
	return found;
}

/* The first launch at or after a time of a lane. */
static size_t first_launch(const struct launch *launch, size_t nr,
			   uint32_t lane, int64_t at)
{
	struct launch key = { .at = at, .lane = lane };
	size_t lo = 0, hi = nr;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (launch_by_time(&launch[mid], &key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void project(struct report *r, const struct range *range,
		    const struct launch *launch, const struct span *tree,
		    size_t nr)
{
	size_t lo = first_launch(launch, nr, range->lane, range->start);
	size_t hi = first_launch(launch, nr, range->lane, range->end + 1);
	struct span span;
	struct group *g;

	if (lo >= hi)
		return;
	span = ask_tree(tree, nr, lo, hi);
	g = report_group(r, &r->projected, range->name);
	if (!g || !stats_add(&g->time, span.end - span.start)) {
		r->no_memory = true;
		return;
	}
	report_sum(&g->range_ns, range->end - range->start);
	g->gpu_ops += hi - lo;
}

static void add_projections(struct report *r)
{
	struct launch *launch = calloc(r->nr_work + 1, sizeof(*launch));
	struct span *tree = calloc(2 * r->nr_work + 2, sizeof(*tree));
	size_t nr;

	if (!launch || !tree) {
		r->no_memory = true;
		goto out;
	}
	if (r->nr_calls)
		qsort(r->calls, r->nr_calls, sizeof(*r->calls),
		      call_by_correlation);
	nr = collect_launches(r, launch);
	build_tree(tree, launch, nr);
	for (size_t i = 0; i < r->nr_ranges; i++)
		project(r, &r->range[i], launch, tree, nr);
out:
	free(tree);
	free(launch);
}

static int64_t total_time(const struct groups *g, uint32_t name)
{
	const struct stats_set *set;
	int64_t total = 0;

	if (name >= g->nr_names || !g->by_name[name])
		return 0;
	set = &g->group[g->by_name[name] - 1].time;
	for (size_t i = 0; i < set->nr; i++)
		report_sum(&total, set->value[i]);
	return total;
}

/* Ranges that no thread's launches tell of (start/end ranges have lanes of
 * their own) come from the slices that the tracer put on the GPU's lanes. */
static void add_recorded_projections(struct report *r)
{
	for (size_t i = 0; i < r->gpu_ranges.nr; i++) {
		const struct group *from = &r->gpu_ranges.group[i];
		struct group *to = report_group(r, &r->projected, from->name);

		if (!to)
			return;
		if (to->gpu_ops)
			continue;
		to->gpu_ops = from->gpu_ops;
		for (size_t v = 0; v < from->time.nr; v++)
			r->no_memory |= !stats_add(&to->time,
						   from->time.value[v]);
		to->range_ns = total_time(&r->ranges, from->name);
	}
}

void report_ranges(struct report *r)
{
	if (r->nr_ranges) {
		qsort(r->range, r->nr_ranges, sizeof(*r->range),
		      by_lane_and_start);
		add_self_times(r);
		add_projections(r);
	}
	add_recorded_projections(r);
}
