/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "tools/diagnose.h"

/*
 * Pauses: the time that a thread spends outside of CUDA before a call.
 *
 *      [launch a]   40 us   [launch b]        the loop that launches
 *      [launch a]   40 us   [launch b]
 *      [launch a]   9 ms    [launch b]        for once another program ran
 *      [sync]       30 ms   [launch a]        every time: it waits for data
 *
 * Which of them are waits is told by what is usual between two such calls.
 */
struct pause {
	uint32_t kind, call;
	int64_t ns;
};

static int by_kind_and_length(const void *a, const void *b)
{
	const struct pause *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->ns < y->ns ? -1 : x->ns > y->ns;
}

/* What a call is: the work it launches, or its own name. */
static uint32_t what(const struct model *m, const struct model_call *c)
{
	return c->work == MODEL_NONE ? c->name : m->work[c->work].name;
}

static size_t collect(struct subject *d, struct pause *pause,
		      struct pairs *kinds)
{
	const struct model *m = d->m;
	int64_t until = 0;
	size_t nr = 0;
	bool is_new;

	for (size_t i = 0; i < m->nr_calls; i++) {
		const struct model_call *c = &m->call[i];

		if (!i || c->lane != c[-1].lane) {
			until = c->end;
			continue;
		}
		if (c->start > until && c->start >= d->start &&
		    c->start < d->end) {
			uint32_t kind = pairs_put(kinds, what(m, c - 1),
						  what(m, c), kinds->nr,
						  &is_new);

			d->no_memory |= kind == MODEL_NONE;
			pause[nr++] = (struct pause){
				kind, i, c->start - until,
			};
		}
		until = c->end > until ? c->end : until;
	}
	return nr;
}

void subject_pauses(struct subject *d)
{
	size_t nr_calls = d->m->nr_calls + 1, nr = 0, end;
	struct pause *pause = malloc(nr_calls * sizeof(*pause));
	struct pairs kinds = { 0 };

	d->pause_kind = malloc(nr_calls * sizeof(*d->pause_kind));
	if (!pause || !d->pause_kind) {
		d->no_memory = true;
		goto out;
	}
	for (size_t i = 0; i < nr_calls; i++)
		d->pause_kind[i] = MODEL_NONE;
	nr = collect(d, pause, &kinds);
	d->pause_median = calloc(kinds.nr + 1, sizeof(*d->pause_median));
	d->pause_count = calloc(kinds.nr + 1, sizeof(*d->pause_count));
	d->no_memory |= !d->pause_median || !d->pause_count;
	if (d->no_memory)
		goto out;
	if (nr)
		qsort(pause, nr, sizeof(*pause), by_kind_and_length);
	for (size_t i = 0; i < nr; i = end) {
		uint32_t kind = pause[i].kind;

		for (end = i; end < nr && pause[end].kind == kind; end++)
			d->pause_kind[pause[end].call] = kind;
		d->pause_median[kind] = pause[i + (end - i) / 2].ns;
		d->pause_count[kind] = end - i;
	}
out:
	pairs_fini(&kinds);
	free(pause);
}

/* A pause that is a hundred times too long is a wait, whatever is usual. */
bool subject_is_wait(const struct subject *d, uint32_t call, int64_t pause)
{
	enum { FEW = 3, MUCH = 100 };
	int64_t limit = d->limits->host_wait_ns;
	uint32_t kind = call == MODEL_NONE ? MODEL_NONE : d->pause_kind[call];

	if (pause <= limit)
		return false;
	if (pause / MUCH > limit || kind == MODEL_NONE ||
	    d->pause_count[kind] < FEW)
		return true;
	return d->pause_median[kind] > limit;
}
