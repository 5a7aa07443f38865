/* SPDX-License-Identifier: MIT */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "tools/big.h"
#include "tools/order.h"
#include "tools/report.h"

/*
 * From the files' events to those that are wanted:
 *
 *      time    a slice counts if it touches the window [from, to)
 *      range   a call or range counts if it begins inside a range of that
 *              name on its thread, GPU work if its call does
 *      device, stream          GPU work only
 */
static uint16_t call_file(const struct report *r, const struct call *c)
{
	return r->process[r->lane[c->lane].process].file;
}

static int by_correlation(const void *a, const void *b, void *arg)
{
	const struct call *x = a, *y = b;
	const struct report *r = arg;
	uint16_t fx = call_file(r, x), fy = call_file(r, y);

	if (fx != fy)
		return fx < fy ? -1 : 1;
	if (x->correlation != y->correlation)
		return x->correlation < y->correlation ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	/* cudaX is around cuX */
	return strcmp(intern_get(&r->names, y->name),
		      intern_get(&r->names, x->name));
}

/* Order of a call and what is looked for. */
static bool is_before(const struct report *r, const struct call *c,
		      uint16_t file, uint64_t correlation)
{
	uint16_t its = call_file(r, c);

	return its < file || (its == file && c->correlation < correlation);
}

/* The first call of a correlation, as its number + 1; 0: none.  Calls are
 * sorted; the one behind the last that was found is tried first. */
static size_t find_call(const struct report *r, const struct work *w,
			size_t hint)
{
	uint16_t file = r->device[report_work_device(r, w)].file;
	size_t lo = 0, hi = r->nr_calls;

	if (hint && hint < hi &&
	    is_before(r, &r->calls[hint - 1], file, w->correlation)) {
		lo = hint;
		if (!is_before(r, &r->calls[hint], file, w->correlation))
			hi = hint;
	}
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (is_before(r, &r->calls[mid], file, w->correlation))
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == r->nr_calls || call_file(r, &r->calls[lo]) != file ||
	    r->calls[lo].correlation != w->correlation)
		return 0;
	return lo + 1;
}

void report_link(struct report *r)
{
	size_t last = 0;

	order_sort_by(r->calls, r->nr_calls, sizeof(*r->calls), by_correlation,
		      r);
	for (size_t i = 0; i < r->nr_work; i++) {
		struct work *w = &r->work[i];

		if (!w->correlation)
			continue;
		w->correlation = find_call(r, w, last);
		last = w->correlation;
	}
}

/* Disjoint stretches of time of lanes, sorted: where the wanted ranges are. */
struct stretches {
	struct range *range;    /* name is not used */
	size_t nr;
};

/* Whether a name is wanted, asked once: 0 unknown, 1 no, 2 yes. */
static bool is_wanted(const struct report *r, uint8_t *known, uint32_t name,
		      const char *glob)
{
	if (!known[name])
		known[name] = fnmatch(glob, intern_get(&r->names, name), 0) ?
			1 : 2;
	return known[name] == 2;
}

static void find_stretches(struct report *r, const char *glob,
			   struct stretches *s)
{
	uint8_t *known = calloc(r->names.nr + 1, 1);
	size_t nr = 0;

	s->range = big_alloc((r->nr_ranges + 1) * sizeof(*s->range));
	r->no_memory |= !known || !s->range;
	for (size_t i = 0; !r->no_memory && i < r->nr_ranges; i++)
		if (is_wanted(r, known, r->range[i].name, glob))
			s->range[s->nr++] = r->range[i];
	free(known);
	if (!s->nr)
		return;
	order_sort(s->range, s->nr, sizeof(*s->range), report_range_order);
	for (size_t i = 1; i < s->nr; i++) {
		struct range *last = &s->range[nr], *next = &s->range[i];

		if (next->lane != last->lane || next->start > last->end)
			s->range[++nr] = *next;
		else if (next->end > last->end)
			last->end = next->end;
	}
	s->nr = nr + 1;
}

static bool is_inside(const struct stretches *s, uint32_t lane, int64_t at)
{
	struct range key = { .lane = lane, .start = at, .end = INT64_MIN };
	size_t lo = 0, hi = s->nr;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (report_range_order(&s->range[mid], &key) <= 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && s->range[lo - 1].lane == lane &&
		s->range[lo - 1].end >= at;
}

/* first_ns .. last_ns is the window already. */
static bool is_in_time(const struct report *r,
		       const struct report_select *want, int64_t start,
		       int64_t end)
{
	if (want->has_from && end <= r->first_ns && start < r->first_ns)
		return false;
	return !want->has_to || start < r->last_ns;
}

static bool wants_work(const struct report *r,
		       const struct report_select *want,
		       const struct stretches *s, const struct work *w)
{
	const struct stream *stream = &r->stream[w->stream];
	const struct call *c = report_work_call(r, w);

	return is_in_time(r, want, w->start, w->end) &&
		(!want->has_device ||
		 r->device[stream->device].id == want->device) &&
		(!want->has_stream || stream->id == want->stream) &&
		(!want->range || (c && is_inside(s, c->lane, c->start)));
}

/* Those that are wanted come first, in the order that they had. */
static size_t select_ranges(struct report *r, const struct report_select *want,
			    const struct stretches *s, struct range *range,
			    size_t nr)
{
	size_t wanted = 0;

	for (size_t i = 0; i < nr; i++) {
		const struct range a = range[i];

		if (!is_in_time(r, want, a.start, a.end) ||
		    (want->range && !is_inside(s, a.lane, a.start)))
			continue;
		range[i] = range[wanted];
		range[wanted++] = a;
	}
	return wanted;
}

static void select_slices(struct report *r, const struct report_select *want,
			  const struct stretches *s)
{
	const struct around_slices *ops = &r->around.of[AROUND_OP];
	size_t nr = 0;

	for (size_t i = 0; i < r->nr_work; i++)
		if (wants_work(r, want, s, &r->work[i]))
			r->work[nr++] = r->work[i];
	r->nr_work = nr;
	for (size_t i = 0; i < r->nr_calls; i++) {
		struct call *c = &r->calls[i];

		c->out = !is_in_time(r, want, c->start, c->end) ||
			(want->range && !is_inside(s, c->lane, c->start));
	}
	r->nr_ranges = select_ranges(r, want, s, r->range, r->nr_ranges);
	r->ops_of.nr = select_ranges(r, want, s, ops->slice, ops->nr);
	r->osrt.nr = select_ranges(r, want, s, r->osrt.call, r->osrt.nr);
}

static void select_gpu_ranges(struct report *r,
			      const struct report_select *want)
{
	size_t nr = 0;

	for (size_t i = 0; i < r->nr_gpu_ranges; i++) {
		const struct gpu_range *g = &r->gpu_range[i];
		const struct stream *stream = &r->stream[g->stream];

		if (is_in_time(r, want, g->start, g->end) &&
		    (!want->has_device ||
		     r->device[stream->device].id == want->device) &&
		    (!want->has_stream || stream->id == want->stream) &&
		    (!want->range || !fnmatch(want->range, intern_get(
					      &r->names, g->name), 0)))
			r->gpu_range[nr++] = *g;
	}
	r->nr_gpu_ranges = nr;
}

static void set_window(struct report *r, const struct report_select *want)
{
	int64_t first = r->first_ns, last = r->last_ns;

	if (first > last)
		return;
	if (want->has_from && want->from_ns < last - first)
		r->first_ns = first + want->from_ns;
	else if (want->has_from)
		r->first_ns = last;
	if (want->has_to && want->to_ns < last - first)
		r->last_ns = first + want->to_ns;
	if (r->last_ns < r->first_ns)
		r->last_ns = r->first_ns;
}

/* GPUs that a number leaves out are not idle ones. */
static void select_devices(struct report *r, const struct report_select *want)
{
	for (size_t i = 0; i < r->nr_devices; i++)
		r->device[i].out = !r->device[i].has_work ||
			want->has_device || want->has_stream;
	for (size_t i = 0; i < r->nr_streams; i++) {
		struct device *d = &r->device[r->stream[i].device];

		if (d->has_work &&
		    (!want->has_device || d->id == want->device) &&
		    (!want->has_stream || r->stream[i].id == want->stream))
			d->out = false;
	}
}

static void find_twins(struct report *r)
{
	struct pairs known = { .nr = 0 };

	for (size_t i = 0; i < r->nr_devices; i++) {
		struct device *d = &r->device[i];
		bool is_new;
		uint32_t first = pairs_put(&known, d->file, d->id, i, &is_new);

		if (first == UINT32_MAX) {
			r->no_memory = true;
			break;
		}
		if (!is_new)
			d->has_twin = r->device[first].has_twin = true;
	}
	pairs_fini(&known);
}

static void widen(int64_t *first, int64_t *last, int64_t start, int64_t end)
{
	*first = start < *first ? start : *first;
	*last = end > *last ? end : *last;
}

/* The whole time is that of what is left, inside the window. */
static void shrink_window(struct report *r)
{
	int64_t first = INT64_MAX, last = INT64_MIN;

	for (size_t i = 0; i < r->nr_work; i++)
		widen(&first, &last, r->work[i].start, r->work[i].end);
	for (size_t i = 0; i < r->nr_calls; i++)
		if (!r->calls[i].out)
			widen(&first, &last, r->calls[i].start,
			      r->calls[i].end);
	for (size_t i = 0; i < r->nr_ranges; i++)
		widen(&first, &last, r->range[i].start, r->range[i].end);
	r->first_ns = first > r->first_ns ? first : r->first_ns;
	r->last_ns = last < r->last_ns ? last : r->last_ns;
}

void report_select(struct report *r, const struct report_select *want)
{
	struct stretches s = { .nr = 0 };

	set_window(r, want);
	if (want->range)
		find_stretches(r, want->range, &s);
	if (!r->no_memory) {
		select_slices(r, want, &s);
		select_gpu_ranges(r, want);
		select_devices(r, want);
		find_twins(r);
	}
	if (want->range)
		shrink_window(r);
	big_free(s.range);
}

void report_finish(struct report *r, const struct report_select *want)
{
	r->style[0] = intern_text(&r->names, "PushPop", 7);
	r->style[1] = intern_text(&r->names, "StartEnd", 8);
	report_link(r);
	report_select(r, want);
	report_ops(r);
	if (r->by >= BY_RANGE)
		report_around(r);
	report_busy(r);
	report_group(r);
	report_ranges(r);
	report_graphs(r);
	report_memory(r, want);
	report_library(r);
	report_stacks(r);
}
