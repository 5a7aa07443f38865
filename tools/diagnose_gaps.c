/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "tools/diagnose.h"

/*
 * A gap is the time between two stretches of work of a GPU, over all of its
 * streams.  What ends it was launched by a call; what the thread of that call
 * did during the gap is the cause, part by part:
 *
 *      GPU      ====                                  =======
 *      gap          |<------------------------------->|
 *      thread     [sync ]   between   [launch] between [launch]
 *      cause        |sync| sync |launch|launch|launch | launch|
 */

/* A launch needs some us to reach the GPU; what takes longer waited there. */
static const int64_t launch_latency_ns = 20000;

static bool waits(const struct model_call *c)
{
	return c->kind == CALL_SYNC || c->kind == CALL_ALLOCATE;
}

static enum cause cause_of_call(const struct model *m,
				const struct model_call *c)
{
	if (waits(c))
		return CAUSE_SYNC;
	if (c->kind == CALL_COPY && (c->flags & CALL_BLOCKING ||
	    (c->work != MODEL_NONE && m->work[c->work].flags & WORK_PAGEABLE)))
		return CAUSE_COPY;
	return CAUSE_LAUNCH;
}

/* The time between the end of a call and call i, which may be behind the
 * lane's last. */
static enum cause cause_of_pause(const struct subject *d, uint32_t lane,
				 size_t i, int64_t end)
{
	const struct model *m = d->m;
	size_t first = m->lane[lane].first_call;
	bool is_last = i >= first + m->lane[lane].nr_calls;

	if (i == first)
		return CAUSE_HOST;
	if (subject_is_wait(d, is_last ? MODEL_NONE : i,
			    end - m->call[i - 1].end))
		return CAUSE_HOST;
	return waits(&m->call[i - 1]) ? CAUSE_SYNC : CAUSE_LAUNCH;
}

/* The first call of the lane that matters at a time: the last one that began
 * before, or one that it is nested in. */
static size_t first_call(const struct model *m, uint32_t lane, int64_t at)
{
	uint32_t i = model_call_at(m, lane, at);

	if (i == MODEL_NONE)
		return m->lane[lane].first_call;
	while (i > m->lane[lane].first_call && m->call[i - 1].end > at)
		i--;
	return i;
}

static void follow_thread(struct subject *d, struct gap *g, size_t last)
{
	const struct model *m = d->m;
	const struct model_lane *lane = &m->lane[g->lane];
	size_t i = first_call(m, g->lane, g->start);
	size_t end = lane->first_call + lane->nr_calls;
	int64_t at = g->start, to;

	for (; i < end && i <= last && at < g->end; i++) {
		const struct model_call *c = &m->call[i];

		to = c->start < g->end ? c->start : g->end;
		if (to > at) {
			g->part[cause_of_pause(d, g->lane, i, c->start)] +=
				to - at;
			at = to;
		}
		to = c->end < g->end ? c->end : g->end;
		if (to > at) {
			enum cause cause = cause_of_call(m, c);

			g->part[cause] += to - at;
			d->in_calls += cause == CAUSE_LAUNCH ? to - at : 0;
			at = to;
		}
	}
	if (at >= g->end)
		return;
	if (g->next == MODEL_NONE)
		g->part[cause_of_pause(d, g->lane, i, g->end)] += g->end - at;
	else
		g->part[g->end - at <= launch_latency_ns ? CAUSE_LAUNCH :
			CAUSE_QUEUED] += g->end - at;
}

/* The second node of a graph was there when the first one began. */
static void find_cause(struct subject *d, struct gap *g)
{
	const struct model *m = d->m;
	uint32_t call = MODEL_NONE;

	g->lane = d->steps->lane;
	if (g->next != MODEL_NONE) {
		call = m->work[g->next].call;
		g->lane = call == MODEL_NONE ? MODEL_NONE :
			m->call[call].lane;
	}
	if (g->lane == MODEL_NONE)
		g->part[CAUSE_UNKNOWN] = g->end - g->start;
	else if (call != MODEL_NONE && (m->call[call].end <= g->start ||
		 m->call[call].work != g->next))
		g->part[CAUSE_QUEUED] = g->end - g->start;
	else
		follow_thread(d, g, call == MODEL_NONE ? SIZE_MAX : call);
}

static enum cause main_cause(const struct gap *g)
{
	enum cause best = 0;

	for (int c = 1; c < CAUSES; c++)
		if (g->part[c] > g->part[best])
			best = c;
	return best;
}

static void keep_longest(struct gap *top, const struct gap *g)
{
	int i = TOP_GAPS;

	while (i > 0 && g->end - g->start > top[i - 1].end - top[i - 1].start)
		i--;
	if (i == TOP_GAPS)
		return;
	memmove(&top[i + 1], &top[i], (TOP_GAPS - 1 - i) * sizeof(*top));
	top[i] = *g;
}

static void add_gap(struct subject *d, int64_t start, int64_t end,
		    uint32_t next)
{
	struct gap g = { .start = start, .end = end, .next = next };
	enum cause cause;

	if (end <= start)
		return;
	find_cause(d, &g);
	cause = main_cause(&g);
	for (int c = 0; c < CAUSES; c++)
		d->idle[c] += g.part[c];
	keep_longest(d->longest[cause], &g);
	subject_add_doing(d, &g);
	if (next == MODEL_NONE)
		return;
	d->gap_before[next - d->m->device[d->device].first] = end - start;
	d->gap_cause[next - d->m->device[d->device].first] = cause;
}

void subject_gaps(struct subject *d)
{
	const struct model *m = d->m;
	const struct model_device *device = &m->device[d->device];
	int64_t until = d->start;

	d->gap_before = calloc(device->nr + 1, sizeof(*d->gap_before));
	d->gap_cause = calloc(device->nr + 1, sizeof(*d->gap_cause));
	subject_pauses(d);
	d->no_memory |= !d->gap_before || !d->gap_cause;
	if (d->no_memory)
		return;
	for (size_t i = device->first; i < device->first + device->nr; i++) {
		const struct model_work *w = &m->work[i];
		int64_t end = w->end < d->end ? w->end : d->end;

		if (w->start >= d->end)
			break;
		if (w->start > until)
			add_gap(d, until, w->start, i);
		if (w->start > until)
			until = w->start;
		if (end > until) {
			d->busy += end - until;
			until = end;
		}
	}
	add_gap(d, until, d->end, MODEL_NONE);
}

void subject_fini(struct subject *d)
{
	free(d->gap_before);
	free(d->gap_cause);
	free(d->pause_median);
	free(d->pause_count);
	free(d->pause_kind);
	free(d->doing);
	pairs_fini(&d->doing_by);
}
