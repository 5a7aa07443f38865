/* SPDX-License-Identifier: MIT */
#include "tools/big.h"
#include "tools/order.h"
#include "tools/report.h"

/*
 * The union over streams: with the work of a device sorted by start, one
 * moving end per class is enough.  Time is counted by the set of classes that
 * work, so that what lies over what is known as well.
 *
 *      compute    ====  ======
 *      copy          =====        ===
 *      set        11155455111     444     bit 0 compute, bit 2 copy
 */
static int by_device_and_start(const void *a, const void *b, void *arg)
{
	const struct work *x = a, *y = b;
	const struct stream *stream = arg;
	uint32_t dx = stream[x->stream].device, dy = stream[y->stream].device;

	if (dx != dy)
		return dx < dy ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* Lets time pass up to `to`: in each piece the same classes work. */
static void pass_time(struct device *d, int64_t *clock,
		      const int64_t until[WORK_CLASSES], int64_t to)
{
	while (*clock < to) {
		int64_t next = to;
		unsigned mask = 0;

		for (int c = 0; c < WORK_CLASSES; c++) {
			if (until[c] <= *clock)
				continue;
			mask |= 1u << c;
			next = until[c] < next ? until[c] : next;
		}
		if (!mask)
			break;
		d->mask_ns[mask] += next - *clock;
		*clock = next;
	}
	*clock = to;
}

static int64_t clip(const struct report *r, int64_t at)
{
	at = at < r->first_ns ? r->first_ns : at;
	return at > r->last_ns ? r->last_ns : at;
}

static void add_work_times(struct report *r)
{
	int64_t clock = INT64_MIN, until[WORK_CLASSES];
	struct device *d = NULL;

	for (size_t i = 0; i < r->nr_work; i++) {
		const struct work *w = &r->work[i];
		int64_t start = clip(r, w->start), end = clip(r, w->end);

		if (d != &r->device[report_work_device(r, w)]) {
			if (d)
				pass_time(d, &clock, until, INT64_MAX);
			d = &r->device[report_work_device(r, w)];
			clock = start;
			for (int c = 0; c < WORK_CLASSES; c++)
				until[c] = INT64_MIN;
		}
		pass_time(d, &clock, until, start);
		if (end > until[w->class])
			until[w->class] = end;
	}
	if (d)
		pass_time(d, &clock, until, INT64_MAX);
}

/* From the pieces: unions, and what lay over what. */
static void sum_pieces(struct device *d)
{
	const unsigned comm = 1u << WORK_COMM, compute = 1u << WORK_COMPUTE;

	for (unsigned mask = 1; mask < 1u << WORK_CLASSES; mask++) {
		d->busy_ns += d->mask_ns[mask];
		for (int c = 0; c < WORK_CLASSES; c++)
			if (mask & 1u << c)
				d->class_ns[c] += d->mask_ns[mask];
		if (mask & (mask - 1))
			d->overlap_ns += d->mask_ns[mask];
		if ((mask & comm) && (mask & compute))
			d->comm_hidden_ns += d->mask_ns[mask];
	}
}

static int by_call_lane_and_start(const void *a, const void *b)
{
	const struct call *x = *(const struct call *const *)a;
	const struct call *y = *(const struct call *const *)b;

	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* Of a runtime call and the driver call inside it one counts. */
static void add_call_times(struct report *r, const struct call **sorted)
{
	int64_t until = INT64_MIN;

	for (size_t i = 0; i < r->nr_calls; i++) {
		const struct call *c = sorted[i];
		int64_t from = clip(r, c->start), to = clip(r, c->end);

		if (!i || c->lane != sorted[i - 1]->lane)
			until = INT64_MIN;
		if (c->out)
			continue;
		r->lane[c->lane].nr_calls++;
		from = from > until ? from : until;
		if (to > from) {
			r->lane[c->lane].calls_ns += to - from;
			until = to;
		}
	}
}

static void sort_calls(struct report *r)
{
	const struct call **sorted = big_alloc((r->nr_calls + 1) *
					       sizeof(*sorted));

	if (!sorted) {
		r->no_memory = true;
		return;
	}
	for (size_t i = 0; i < r->nr_calls; i++)
		sorted[i] = &r->calls[i];
	order_sort(sorted, r->nr_calls, sizeof(*sorted),
		   by_call_lane_and_start);
	add_call_times(r, sorted);
	big_free(sorted);
}

void report_busy(struct report *r)
{
	order_sort_by(r->work, r->nr_work, sizeof(*r->work),
		      by_device_and_start, r->stream);
	add_work_times(r);
	for (size_t i = 0; i < r->nr_devices; i++)
		sum_pieces(&r->device[i]);
	sort_calls(r);
}
