/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "tools/report.h"

/*
 * The union over streams: with the work of a device sorted by start, one
 * moving end per class and one for all of them are enough.
 *
 *      stream 7   ====  ======
 *      stream 13     =====        ===
 *      busy       ===========     ===
 */
static int by_device_and_start(const void *a, const void *b)
{
	const struct work *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* Most files are in order already. */
static void sort_work(struct report *r)
{
	for (size_t i = 1; i < r->nr_work; i++) {
		if (by_device_and_start(&r->work[i - 1], &r->work[i]) <= 0)
			continue;
		qsort(r->work, r->nr_work, sizeof(*r->work),
		      by_device_and_start);
		return;
	}
}

/* The part of [start, end] behind *until, which moves to the end. */
static int64_t uncovered(int64_t *until, int64_t start, int64_t end)
{
	int64_t from = start > *until ? start : *until;

	if (end <= from)
		return 0;
	*until = end;
	return end - from;
}

void report_busy(struct report *r)
{
	int64_t until = INT64_MIN, class_until[WORK_CLASSES];
	struct device *d = NULL;

	sort_work(r);
	for (size_t i = 0; i < r->nr_work; i++) {
		const struct work *w = &r->work[i];

		if (d != &r->device[w->device]) {
			d = &r->device[w->device];
			until = INT64_MIN;
			for (int c = 0; c < WORK_CLASSES; c++)
				class_until[c] = INT64_MIN;
		}
		d->busy_ns += uncovered(&until, w->start, w->end);
		d->class_ns[w->class] +=
			uncovered(&class_until[w->class], w->start, w->end);
	}
}
