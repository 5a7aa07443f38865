/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/big.h"
#include "tools/steps.h"

/*
 * Steps without ranges: the kernels of the busiest stream, as a sequence of
 * names.
 *
 *      w w w w  a b b b b c  a b b b b c  a b b b b c
 *      warm-up  [   step  ]  [   step  ]  [   step  ]
 *
 * Candidates for the period are distances between equal pieces of the
 * sequence, for pieces of some lengths: short ones tell the layers inside a
 * step (b b), longer ones the step.
 */
enum {
	MIN_REPEATS = 3,
	MAX_SEQUENCE = 1 << 17, /* the last of them tell the period: 0.2 s */
	NR_PIECES = 7,
};
static const size_t piece_length[NR_PIECES] = {
	1, 4, 16, 64, 256, 1024, 4096,
};

struct piece {
	uint64_t hash;
	uint32_t at;
};

static int by_hash_and_place(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static int by_number(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* A polynomial hash that rolls: of each piece of a length. */
static size_t hash_pieces(const uint32_t *seq, size_t nr, size_t len,
			  struct piece *piece)
{
	const uint64_t factor = 0x9e3779b97f4a7c15u;
	uint64_t hash = 0, out = 1;

	for (size_t i = 0; i < len; i++)
		out *= factor;
	for (size_t i = 0; i < nr; i++) {
		hash = hash * factor + seq[i] + 1;
		if (i >= len)
			hash -= out * (seq[i - len] + 1);
		if (i + 1 >= len)
			piece[i + 1 - len] = (struct piece){
				hash, i + 1 - len,
			};
	}
	return nr - len + 1;
}

/* The distance that is seen most between a piece and its next equal. */
static size_t common_distance(struct piece *piece, size_t nr,
			      uint32_t *distance)
{
	size_t n = 0, best = 0, most = 0, run = 0;

	qsort(piece, nr, sizeof(*piece), by_hash_and_place);
	for (size_t i = 1; i < nr; i++)
		if (piece[i].hash == piece[i - 1].hash)
			distance[n++] = piece[i].at - piece[i - 1].at;
	if (n)
		qsort(distance, n, sizeof(*distance), by_number);
	for (size_t i = 0; i < n; i++) {
		run = i && distance[i] == distance[i - 1] ? run + 1 : 1;
		if (run > most) {
			most = run;
			best = distance[i];
		}
	}
	return best;
}

/* Half of the elements that would differ from the one a distance before if
 * chance gave the order: more is no period.  `sorted` is room for nr. */
static size_t half_of_chance(const uint32_t *seq, size_t nr, uint32_t *sorted)
{
	double alike = 0;
	size_t run = 0;

	memcpy(sorted, seq, nr * sizeof(*seq));
	qsort(sorted, nr, sizeof(*sorted), by_number);
	for (size_t i = 0; i < nr; i++) {
		run = i && sorted[i] == sorted[i - 1] ? run + 1 : 1;
		alike += 2 * run - 1;           /* run squared, by its steps */
	}
	return nr ? (nr - alike / nr) / 2 : 0;
}

/* How many elements of the second half differ from the one a period before. */
static size_t mismatches(const uint32_t *seq, size_t nr, size_t period,
			 size_t most)
{
	size_t bad = 0, from = nr / 2 > period ? nr / 2 : period;

	for (size_t i = from; i < nr; i++)
		bad += seq[i] != seq[i - period];
	return bad * nr > most * (nr - from) ? SIZE_MAX : bad;
}

size_t steps_period(const uint32_t *seq, size_t nr)
{
	struct piece *piece = big_alloc((nr + 1) * sizeof(*piece));
	uint32_t *distance = big_alloc((nr + 1) * sizeof(*distance));
	size_t period[NR_PIECES] = { 0 }, bad[NR_PIECES], best = SIZE_MAX;
	size_t found = 0, most;

	if (!piece || !distance) {
		found = SIZE_MAX;
		goto out;
	}
	most = half_of_chance(seq, nr, distance);
	for (int i = 0; i < NR_PIECES; i++) {
		if (piece_length[i] * MIN_REPEATS > nr)
			break;
		period[i] = common_distance(piece,
			hash_pieces(seq, nr, piece_length[i], piece),
			distance);
		if (!period[i] || period[i] > nr / MIN_REPEATS) {
			period[i] = 0;
			continue;
		}
		bad[i] = mismatches(seq, nr, period[i], most);
		best = bad[i] < best ? bad[i] : best;
	}
	for (int i = 0; i < NR_PIECES && best != SIZE_MAX; i++)
		if (period[i] && bad[i] <= best + best / 2 &&
		    (!found || period[i] < found))
			found = period[i];
	if (found == 1)         /* one kernel over and over says nothing */
		found = 0;
out:
	big_free(piece);
	big_free(distance);
	return found;
}

static uint32_t busiest_stream(const struct model *m, uint32_t file)
{
	int64_t *busy = calloc(m->nr_streams + 1, sizeof(*busy)), most = -1;
	uint32_t best = MODEL_NONE;

	for (size_t i = 0; busy && i < m->nr_work; i++) {
		const struct model_work *w = &m->work[i];

		if (m->device[w->device].file != file ||
		    w->kind != WORK_KERNEL)
			continue;
		model_sum(&busy[w->stream], w->end - w->start);
		if (busy[w->stream] > most) {
			most = busy[w->stream];
			best = w->stream;
		}
	}
	free(busy);
	return best;
}

/* The kernels of a stream: their names, and where they are in m->work. */
static size_t collect(const struct model *m, uint32_t stream,
		      uint32_t *name, uint32_t *at)
{
	size_t nr = 0;

	for (size_t i = 0; i < m->nr_work; i++) {
		const struct model_work *w = &m->work[i];

		if (w->stream != stream || w->kind != WORK_KERNEL)
			continue;
		name[nr] = w->name;
		at[nr++] = i;
	}
	return nr;
}

/* Does the piece from i on look like the one at `model`?  One in ten may
 * differ, but not at its ends: a piece that is off by a layer differs there.
 * *work bounds what a hostile sequence can cost. */
static bool is_alike(const uint32_t *name, size_t i, size_t model,
		     size_t period, size_t *work)
{
	size_t bad = 0;

	if (name[i] != name[model] ||
	    name[i + period - 1] != name[model + period - 1])
		return false;
	for (size_t k = 0; k < period; k++) {
		bad += name[i + k] != name[model + k];
		if (bad * 10 > period || !*work)
			return false;
		--*work;
	}
	return true;
}

/* The idle time before a kernel, added up over the periods around. */
static int64_t gap_before(const struct model *m, const uint32_t *at, size_t nr,
			  size_t period, size_t i)
{
	int64_t gap = 0;

	for (size_t k = i - period; k <= i + period && k < nr; k += period)
		if (k)
			gap += m->work[at[k]].start / 4 -
			       m->work[at[k - 1]].end / 4;
	return gap;
}

/* Where a step starts, in the last period but one: beside a kernel that comes
 * once in a period (a layer's come many times), and there where the GPU idles
 * most.  SIZE_MAX: out of memory. */
static size_t find_phase(const struct model *m, const uint32_t *name,
			 const uint32_t *at, size_t nr, size_t period)
{
	uint32_t *count = calloc(m->names.nr, sizeof(*count));
	size_t first = nr - 2 * period, best = SIZE_MAX;
	int64_t most = INT64_MIN;

	if (!count)
		return SIZE_MAX;
	for (size_t i = first; i < first + period; i++)
		count[name[i]]++;
	for (int once = 1; once >= 0 && best == SIZE_MAX; once--)
		for (size_t i = first; i < first + period; i++) {
			int64_t gap = gap_before(m, at, nr, period, i);

			if (gap <= most || (once && count[name[i]] != 1 &&
					    count[name[i - 1]] != 1))
				continue;
			most = gap;
			best = i;
		}
	free(count);
	return best;
}

/* Adds the piece from i on; the one before it ends where this one begins,
 * unless other kernels lie between them. */
static int put(struct steps *s, size_t *cap, const struct model *m,
	       const uint32_t *at, size_t i, bool follows)
{
	int64_t start = m->work[at[i]].start;
	int64_t end = m->work[at[i + s->period - 1]].end;

	if (!VEC_ROOM(s->step, s->nr, *cap))
		return -ENOMEM;
	if (follows && s->nr)
		s->step[s->nr - 1].end = start;
	s->step[s->nr++] = (struct step){ start, end };
	return 0;
}

static int cut(const struct model *m, struct steps *s, const uint32_t *name,
	       const uint32_t *at, size_t nr)
{
	size_t model = find_phase(m, name, at, nr, s->period);
	size_t i = 0, cap = 0, work = 64 * nr;
	bool follows = false;

	if (model == SIZE_MAX)
		return -ENOMEM;
	while (i + s->period <= nr) {
		if (!is_alike(name, i, model, s->period, &work)) {
			follows = false;
			i++;
			continue;
		}
		if (put(s, &cap, m, at, i, follows))
			return -ENOMEM;
		follows = true;
		i += s->period;
	}
	if (s->nr < MIN_REPEATS)
		s->nr = 0;
	return 0;
}

int steps_from_kernels(const struct model *m, struct steps *s)
{
	uint32_t stream = busiest_stream(m, s->file), *name, *at;
	size_t nr, skip;
	int err = -ENOMEM;

	if (stream == MODEL_NONE)
		return 0;
	name = big_alloc(m->nr_work * sizeof(*name));
	at = big_alloc(m->nr_work * sizeof(*at));
	if (!name || !at)
		goto out;
	nr = collect(m, stream, name, at);
	skip = nr > MAX_SEQUENCE ? nr - MAX_SEQUENCE : 0;
	s->period = steps_period(name + skip, nr - skip);
	if (s->period == SIZE_MAX)
		goto out;
	err = s->period ? cut(m, s, name, at, nr) : 0;
	if (s->nr) {
		s->source = STEPS_KERNELS;
		s->stream = stream;
	}
out:
	big_free(name);
	big_free(at);
	return err;
}
