/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "tools/big.h"
#include "tools/order.h"
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
	uint32_t kernel;        /* its name; INTERN_NONE: no kernel */
};

struct span {
	int64_t start, end;
};

static int by_nesting_and_name(const void *a, const void *b, void *arg)
{
	const struct range *x = a, *y = b;
	const struct report *r = arg;
	int order = ORDER_NESTED(x, y);

	return order ? order : strcmp(intern_get(&r->names, x->name),
				      intern_get(&r->names, y->name));
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

static struct group *range_group(struct report *r, struct groups *groups,
				 const struct range *range)
{
	return report_group_get(r, groups, report_range_key(r, range));
}

/* Lets time pass up to `to`. */
static void pass_time(struct report *r, struct open_ranges *open, int64_t to)
{
	while (open->nr && open->clock < to) {
		const struct range *top = open->range[open->nr - 1];
		int64_t until = top->end < to ? top->end : to;

		if (until > open->clock) {
			struct group *g = range_group(r, &r->ranges, top);

			if (g)
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

	open.range = big_alloc((r->nr_ranges + 1) * sizeof(*open.range));
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
	big_free(open.range);
}

static size_t collect_launches(struct report *r, struct launch *launch)
{
	size_t nr = 0;

	for (size_t i = 0; i < r->nr_work; i++) {
		const struct work *w = &r->work[i];
		const struct call *c = report_work_call(r, w);

		if (c)
			launch[nr++] = (struct launch){
				c->start, w->start, w->end, c->lane,
				w->cat == CAT_KERNEL ? w->name : INTERN_NONE,
			};
	}
	order_sort(launch, nr, sizeof(*launch), launch_by_time);
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

static struct group *project(struct report *r, const struct range *range,
			     struct span span, size_t nr)
{
	struct group *g = range_group(r, &r->projected, range);

	if (!g)
		return NULL;
	report_group_add(r, g, span.end - span.start);
	report_sum(&g->range_ns, range->end - range->start);
	g->gpu_ops += nr;
	return g;
}

/* A kernel counts in each range around its launch. */
static void add_kernels(struct report *r, size_t i, const struct launch *at,
			size_t nr)
{
	const struct range *range = &r->range[i];

	for (; nr--; at++) {
		struct group *g;

		if (at->kernel == INTERN_NONE)
			continue;
		g = report_group_get(r, &r->range_kernels, (struct group_key){
			at->kernel, range->name, range->lane, INTERN_NONE,
		});
		if (!g)
			return;
		report_group_add(r, g, at->end - at->start);
		g->instances += g->last != i + 1;
		g->last = i + 1;
	}
}

/* The ranges of a lane that are open, at most DEEP.  What begins inside that
 * many is not looked into, so that no file makes work without end: a launch is
 * looked at by at most DEEP ranges. */
enum { DEEP = 64 };

struct depth {
	struct outer {
		int64_t end;
		size_t group;   /* in report.projected, SIZE_MAX: not there */
	} open[DEEP];
	size_t nr;
	uint32_t lane;
};

/* Closes what ended before the range.  Returns how many are around it;
 * *parent is the innermost of them, or DEEP. */
static size_t pass_to(struct depth *d, const struct range *range,
		      size_t *parent)
{
	size_t nr = 0, around = 0;

	if (d->lane != range->lane)
		d->nr = 0;
	d->lane = range->lane;
	*parent = DEEP;
	for (size_t i = 0; i < d->nr; i++) {
		if (d->open[i].end < range->start)
			continue;
		if (d->open[i].end >= range->end) {
			around++;
			*parent = nr;
		}
		d->open[nr++] = d->open[i];
	}
	d->nr = nr;
	return around;
}

/* The range with its `nr` launches, and as a child of what is around it. */
static void look_into_one(struct report *r, struct depth *d, size_t i,
			  const struct span *span, const struct launch *launch,
			  size_t nr)
{
	const struct range *range = &r->range[i];
	size_t parent, level = pass_to(d, range, &parent);
	struct group *g = nr ? project(r, range, *span, nr) : NULL;

	if (g)
		g->levels += level;
	if (parent < DEEP && d->open[parent].group != SIZE_MAX)
		r->projected.group[d->open[parent].group].children++;
	if (d->nr == DEEP)
		return;
	d->open[d->nr++] = (struct outer){
		range->end, g ? (size_t)(g - r->projected.group) : SIZE_MAX,
	};
	add_kernels(r, i, launch, nr);
}

static void look_into(struct report *r, const struct launch *launch,
		      const struct span *tree, size_t nr)
{
	struct depth depth = { .nr = 0 };

	for (size_t i = 0; i < r->nr_ranges; i++) {
		const struct range *range = &r->range[i];
		size_t lo = first_launch(launch, nr, range->lane,
					 range->start);
		size_t hi = first_launch(launch, nr, range->lane,
					 range->end + 1);
		struct span span = lo < hi ? ask_tree(tree, nr, lo, hi) :
			nothing;

		look_into_one(r, &depth, i, &span, launch + lo,
			      lo < hi ? hi - lo : 0);
	}
}

static void add_projections(struct report *r)
{
	struct launch *launch = big_alloc((r->nr_work + 1) *
					  sizeof(*launch));
	struct span *tree = big_alloc((2 * r->nr_work + 2) * sizeof(*tree));
	size_t nr;

	if (!launch || !tree) {
		r->no_memory = true;
		goto out;
	}
	nr = collect_launches(r, launch);
	build_tree(tree, launch, nr);
	look_into(r, launch, tree, nr);
out:
	big_free(tree);
	big_free(launch);
}

/* By name: whether a projection was found, and the time of the ranges. */
struct by_name {
	int64_t range_ns;
	bool found;
};

static void take_recorded(struct report *r, const struct gpu_range *from,
			  struct by_name *of)
{
	uint32_t place = INTERN_NONE;
	struct group *to;

	if (of->found)
		return;
	if (r->by == BY_PROCESS)
		place = r->device[r->stream[from->stream].device].process;
	to = report_group_get(r, &r->projected, (struct group_key){
		from->name, r->style[1], INTERN_NONE, place,
	});
	if (!to)
		return;
	report_group_add(r, to, from->end - from->start);
	report_sum(&to->gpu_ops, from->gpu_ops);
	report_sum(&to->range_ns, of->range_ns);
	of->range_ns = 0;
}

/* Ranges that no thread's launches tell of (start/end ranges have lanes of
 * their own) come from the slices that the tracer put on the GPU's lanes. */
static void add_recorded_projections(struct report *r)
{
	struct by_name *of = calloc(r->names.nr + 1, sizeof(*of));

	if (!of) {
		r->no_memory = true;
		return;
	}
	for (size_t i = 0; i < r->projected.nr; i++)
		of[r->projected.group[i].key.name].found = true;
	for (size_t i = 0; i < r->nr_ranges; i++)
		report_sum(&of[r->range[i].name].range_ns,
			   r->range[i].end - r->range[i].start);
	for (size_t i = 0; i < r->nr_gpu_ranges; i++)
		take_recorded(r, &r->gpu_range[i], &of[r->gpu_range[i].name]);
	free(of);
}

void report_ranges(struct report *r)
{
	if (r->nr_ranges) {
		order_sort_by(r->range, r->nr_ranges, sizeof(*r->range),
			      by_nesting_and_name, r);
		add_self_times(r);
		add_projections(r);
	}
	add_recorded_projections(r);
	report_group_close(&r->projected);
	report_group_close(&r->range_kernels);
}
