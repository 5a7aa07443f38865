/* SPDX-License-Identifier: MIT */
#include "collector/client_clock.h"

#include <stdatomic.h>
#include <stddef.h>

#include "collector/clock.h"

/* Pairs in turn, and how far apart they are at least: two readings are off by
 * some 100 ns, which must not become a rate.  The writer may be 80 s behind. */
#define NR_PAIRS 4096
#define APART_NS 20000000u

/* 9 years: counters of a CPU start at its boot, and run at some GHz. */
#define NEAR_NS (UINT64_C(1) << 58)

struct pair {
	_Atomic uint64_t theirs, ours;
};

static struct pair pairs[NR_PAIRS];
static _Atomic uint32_t nr_made;
static uint64_t (*_Atomic read_theirs)(void);
static atomic_flag is_sampling = ATOMIC_FLAG_INIT;

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
static bool is_soon(uint32_t nr)
{
	return nr > 1 && clock_now_ns() <
		atomic_load(&pairs[(nr - 1) % NR_PAIRS].ours) + APART_NS;
}

static void add_pair(uint64_t (*now)(void), uint32_t nr)
{
	struct pair *pair = &pairs[nr % NR_PAIRS];
	uint64_t theirs = 0, ours = 0;

	read_both(now, &theirs, &ours);
	atomic_store(&pair->theirs, theirs);
	atomic_store(&pair->ours, ours);
	atomic_store(&nr_made, nr + 1);
}

void client_clock_sample(void)
{
	uint64_t (*now)(void) = atomic_load(&read_theirs);

	/* Another thread makes one in this moment: it does as well. */
	if (!now || atomic_flag_test_and_set(&is_sampling))
		return;
	if (!is_soon(atomic_load(&nr_made)))
		add_pair(now, atomic_load(&nr_made));
	atomic_flag_clear(&is_sampling);
}

void client_clock_set(uint64_t (*now)(void))
{
	atomic_store(&nr_made, 0);
	atomic_store(&read_theirs, now);
	client_clock_sample();
}

bool client_clock_is_set(void)
{
	return atomic_load(&read_theirs) != NULL;
}

bool client_clock_is(uint64_t (*now)(void))
{
	return atomic_load(&read_theirs) == now;
}

static bool is_near(uint64_t time)
{
	uint64_t now_ns = clock_now_ns();

	return (time < now_ns ? now_ns - time : time - now_ns) < NEAR_NS;
}

/* The pairs beside `time`: the last that is not after it and the next one;
 * the first or the last two where there is none. */
static uint32_t find(uint64_t time, uint32_t nr)
{
	uint32_t oldest = nr > NR_PAIRS - 1 ? nr - (NR_PAIRS - 1) : 0;
	uint32_t i = nr - 2;

	while (i > oldest &&
	       (int64_t)(time - atomic_load(&pairs[i % NR_PAIRS].theirs)) < 0)
		i--;
	return i;
}

uint64_t client_clock_to_ns(uint64_t time)
{
	uint32_t nr = atomic_load_explicit(&nr_made, memory_order_acquire), i;
	const struct pair *a, *b;
	double rate;

	if (!nr || !time || is_near(time))
		return time;
	if (nr < 2)
		return 0;
	i = find(time, nr);
	a = &pairs[i % NR_PAIRS];
	b = &pairs[(i + 1) % NR_PAIRS];
	if (b->theirs == a->theirs)
		return 0;
	rate = (double)(b->ours - a->ours) / (double)(b->theirs - a->theirs);
	return a->ours + (uint64_t)(int64_t)
		((double)(int64_t)(time - a->theirs) * rate);
}
