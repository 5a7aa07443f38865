/* SPDX-License-Identifier: MIT */
#include "writer/gaps.h"

#include <stdlib.h>
#include <string.h>

static bool overlap(const struct gap *slot, uint64_t start_ns, uint64_t end_ns)
{
	bool is_point = start_ns == end_ns;

	if (slot->start_ns == slot->end_ns)
		return !is_point && start_ns <= slot->start_ns &&
		       slot->start_ns < end_ns;
	if (is_point)
		return slot->start_ns <= start_ns && start_ns < slot->end_ns;
	return start_ns < slot->end_ns && slot->start_ns < end_ns;
}

/* The oldest half goes; nothing may be placed there any more. */
static void forget_half(struct gaps *gaps)
{
	uint32_t half = gaps->nr / 2;

	gaps->floor_ns = gaps->slots[half - 1].end_ns;
	gaps->nr -= half;
	memmove(gaps->slots, gaps->slots + half,
		gaps->nr * sizeof(*gaps->slots));
}

static uint32_t limit_of(const struct gaps *gaps)
{
	return gaps->limit ? gaps->limit : GAPS_MAX;
}

static bool has_room(struct gaps *gaps)
{
	uint32_t size = gaps->size ? gaps->size * 2 : 16;
	struct gap *slots;

	if (gaps->nr < gaps->size)
		return true;
	slots = size <= limit_of(gaps) ?
		realloc(gaps->slots, size * sizeof(*slots)) : NULL;
	if (slots) {
		gaps->slots = slots;
		gaps->size = size;
		return true;
	}
	if (gaps->nr < 2)
		return false;
	forget_half(gaps);
	return true;
}

/* Where a slot of that start stands or would stand: the first that starts
 * later. */
static uint32_t place_of(const struct gaps *gaps, uint64_t start_ns)
{
	uint32_t low = 0, high = gaps->nr, middle;

	/* Nearly always the end: slices come in order. */
	if (!high || gaps->slots[high - 1].start_ns <= start_ns)
		return high;
	while (low < high) {
		middle = (low + high) / 2;
		if (gaps->slots[middle].start_ns <= start_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool insert(struct gaps *gaps, uint64_t start_ns, uint64_t end_ns)
{
	uint32_t at;

	if (!has_room(gaps))
		return false;
	at = place_of(gaps, start_ns);
	/* A point goes before what starts with its own end: [5,5] [5,9]
	 * cannot happen, overlap() refuses it. */
	memmove(gaps->slots + at + 1, gaps->slots + at,
		(gaps->nr - at) * sizeof(*gaps->slots));
	gaps->slots[at].start_ns = start_ns;
	gaps->slots[at].end_ns = end_ns;
	gaps->nr++;
	return true;
}

static bool fits(const struct gaps *gaps, uint64_t start_ns, uint64_t end_ns)
{
	uint32_t at = place_of(gaps, start_ns), i;

	if (start_ns < gaps->floor_ns)
		return false;
	/* Disjoint slots end in the order they start, so behind the first
	 * that ends before us there is none that reaches us. */
	for (i = at; i > 0 && gaps->slots[i - 1].end_ns >= start_ns; i--)
		if (overlap(&gaps->slots[i - 1], start_ns, end_ns))
			return false;
	return at == gaps->nr || !overlap(&gaps->slots[at], start_ns, end_ns);
}

bool gaps_place(struct gaps *gaps, uint64_t start_ns, uint64_t end_ns)
{
	return fits(gaps, start_ns, end_ns) && insert(gaps, start_ns, end_ns);
}

void gaps_fini(struct gaps *gaps)
{
	free(gaps->slots);
	memset(gaps, 0, sizeof(*gaps));
}

/* ---- Slices that nest ---- */

/* When the list is full neighbours in its older half are joined, with what
 * lies between them: what comes there later is refused. */
static void join_pairs(struct gaps *outer)
{
	uint32_t i, half = outer->nr / 4;

	for (i = 0; i < half; i++) {
		outer->slots[i].start_ns = outer->slots[2 * i].start_ns;
		outer->slots[i].end_ns = outer->slots[2 * i + 1].end_ns;
	}
	memmove(outer->slots + half, outer->slots + 2 * half,
		(outer->nr - 2 * half) * sizeof(*outer->slots));
	outer->nr -= half;
}

/* The first slot that ends behind start. */
static uint32_t first_behind(const struct gaps *outer, uint64_t start_ns)
{
	uint32_t at = place_of(outer, start_ns);

	while (at > 0 && outer->slots[at - 1].end_ns > start_ns)
		at--;
	return at;
}

/* An outermost slice takes the place of those that it encloses. */
static void fold(struct gaps *outer, uint64_t start_ns, uint64_t end_ns)
{
	uint32_t first = first_behind(outer, start_ns), last = first;

	while (last < outer->nr && outer->slots[last].start_ns < end_ns)
		last++;
	if (last > first)
		memmove(outer->slots + first, outer->slots + last,
			(outer->nr - last) * sizeof(*outer->slots));
	outer->nr -= last - first;
	if (outer->nr >= limit_of(outer))
		join_pairs(outer);
	(void)insert(outer, start_ns, end_ns);  /* no memory: forgotten */
}

static void close_batch(struct nest *nest)
{
	if (nest->depth)
		fold(&nest->outer, nest->stack[0].start_ns,
		     nest->stack[0].end_ns);
	nest->depth = 0;
}

/* True unless it crosses, or lies inside, a slice of an earlier batch. */
static bool is_clear(const struct gaps *outer, uint64_t start_ns,
		     uint64_t end_ns)
{
	uint32_t i;

	for (i = first_behind(outer, start_ns);
	     i < outer->nr && outer->slots[i].start_ns < end_ns; i++)
		if (outer->slots[i].start_ns < start_ns ||
		    outer->slots[i].end_ns > end_ns)
			return false;
	return true;
}

bool nest_place(struct nest *nest, uint32_t batch, uint64_t start_ns,
		uint64_t end_ns)
{
	struct gap *top;

	if (!nest->stack)
		nest->stack = malloc(NEST_DEPTH * sizeof(*nest->stack));
	if (!nest->stack)
		return false;
	if (batch != nest->batch || start_ns < nest->last_start_ns)
		close_batch(nest);
	nest->batch = batch;
	nest->last_start_ns = start_ns;
	while (nest->depth && nest->stack[nest->depth - 1].end_ns <= start_ns)
		if (!--nest->depth)
			fold(&nest->outer, nest->stack[0].start_ns,
			     nest->stack[0].end_ns);
	if (nest->depth == NEST_DEPTH ||
	    !is_clear(&nest->outer, start_ns, end_ns))
		return false;
	top = nest->stack + nest->depth;
	if (nest->depth && end_ns > top[-1].end_ns)
		return false;
	if (start_ns == end_ns)
		return true;    /* a point crosses nothing */
	top->start_ns = start_ns;
	top->end_ns = end_ns;
	nest->depth++;
	return true;
}

bool nest_place_whole(struct nest *nest, uint64_t start_ns, uint64_t end_ns)
{
	struct gaps *outer = &nest->outer;

	if (!is_clear(outer, start_ns, end_ns))
		return false;
	if (start_ns < end_ns)
		fold(outer, start_ns, end_ns);
	return true;
}

void nest_fini(struct nest *nest)
{
	gaps_fini(&nest->outer);
	free(nest->stack);
	memset(nest, 0, sizeof(*nest));
}
