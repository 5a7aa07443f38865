/* SPDX-License-Identifier: MIT */
#include "collector/client_clock.h"

#include <stdatomic.h>
#include <stddef.h>

#include "collector/clock.h"

/* Pairs in turn, and how far apart they are at least: two readings are off by
 * some 100 ns, which must not become a rate.  The writer may be 80 s behind. */
#define NR_PAIRS 4096
#define APART_NS 20000000u

/* One for each client that brings its own; a ninth takes the first one's
 * place. */
#define NR_CLOCKS 8

struct pair {
	_Atomic uint64_t theirs, ours;
};

static struct foreign {
	uint64_t (*_Atomic now)(void);
	_Atomic uint32_t nr_made;
	struct pair pairs[NR_PAIRS];
} clocks[NR_CLOCKS];

static _Atomic uint32_t number, nr_known;
static atomic_flag is_sampling = ATOMIC_FLAG_INIT;

static struct foreign *clock_of(uint32_t n)
{
	return &clocks[n - 1];
}

/* Both at one moment: the tightest of a few tries. */
static void read_both(uint64_t (*now)(void), uint64_t *theirs, uint64_t *ours)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t before = clock_now_ns();
		uint64_t value = now();
		uint64_t took = clock_now_ns() - before;

		if (took < best) {
			best = took;
			*theirs = value;
			*ours = before + took / 2;
		}
	}
}

/* The first two make the first rate: a session lies between them. */
static bool is_soon(const struct foreign *clock, uint32_t nr)
{
	return nr > 1 && clock_now_ns() < APART_NS +
		atomic_load(&clock->pairs[(nr - 1) % NR_PAIRS].ours);
}

static void add_pair(struct foreign *clock)
{
	uint32_t nr = atomic_load(&clock->nr_made);
	struct pair *pair = &clock->pairs[nr % NR_PAIRS];
	uint64_t theirs = 0, ours = 0;

	if (is_soon(clock, nr))
		return;
	read_both(atomic_load(&clock->now), &theirs, &ours);
	atomic_store(&pair->theirs, theirs);
	atomic_store(&pair->ours, ours);
	atomic_store(&clock->nr_made, nr + 1);
}

void client_clock_sample(void)
{
	uint32_t n = client_clock_number();

	/* Another thread makes one in this moment: it does as well. */
	if (!n || atomic_flag_test_and_set(&is_sampling))
		return;
	add_pair(clock_of(n));
	atomic_flag_clear(&is_sampling);
}

static uint32_t find_clock(uint64_t (*now)(void))
{
	for (uint32_t n = 1; n <= NR_CLOCKS; n++)
		if (atomic_load(&clock_of(n)->now) == now)
			return n;
	return 0;
}

void client_clock_set(uint64_t (*now)(void))
{
	uint32_t n = find_clock(now);

	/* It may come before CUDA does, and we with it. */
	clock_init();
	if (!n) {
		n = atomic_fetch_add(&nr_known, 1) % NR_CLOCKS + 1;
		atomic_store(&clock_of(n)->nr_made, 0);
		atomic_store(&clock_of(n)->now, now);
	}
	atomic_store(&number, n);
	client_clock_sample();
}

uint32_t client_clock_number(void)
{
	return atomic_load_explicit(&number, memory_order_acquire);
}

bool client_clock_is(uint64_t (*now)(void))
{
	uint32_t n = client_clock_number();

	return n && atomic_load(&clock_of(n)->now) == now;
}

/* The pairs beside `time`: the last that is not after it and the next one;
 * the first or the last two where there is none. */
static uint32_t find(const struct foreign *clock, uint64_t time, uint32_t nr)
{
	uint32_t oldest = nr > NR_PAIRS - 1 ? nr - (NR_PAIRS - 1) : 0;
	uint32_t i = nr - 2;

	while (i > oldest && (int64_t)
	       (time - atomic_load(&clock->pairs[i % NR_PAIRS].theirs)) < 0)
		i--;
	return i;
}

static uint64_t convert(const struct foreign *clock, uint64_t time)
{
	uint32_t nr = atomic_load_explicit(&clock->nr_made,
					   memory_order_acquire), i;
	const struct pair *a, *b;
	double rate;

	if (nr < 2)
		return 0;
	i = find(clock, time, nr);
	a = &clock->pairs[i % NR_PAIRS];
	b = &clock->pairs[(i + 1) % NR_PAIRS];
	if (b->theirs == a->theirs)
		return 0;
	rate = (double)(b->ours - a->ours) / (double)(b->theirs - a->theirs);
	return a->ours + (uint64_t)(int64_t)
		((double)(int64_t)(time - a->theirs) * rate);
}

uint64_t client_clock_to_ns(uint32_t n, uint64_t time)
{
	return n && time ? convert(clock_of(n), time) : time;
}
