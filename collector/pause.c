/* SPDX-License-Identifier: MIT */
#include "collector/pause.h"

#include <stdatomic.h>

#include "collector/clock.h"

#define NR_KEPT PAUSES_KEPT

static _Atomic uint32_t nr_begun;
static bool is_open;
static struct {
	_Atomic uint64_t begin_ns, end_ns;
} times[NR_KEPT];

void pause_begin(void)
{
	uint32_t n = atomic_load(&nr_begun) + 1;

	if (is_open)
		return;
	is_open = true;
	/* The times are there before the number that names them. */
	atomic_store(&times[n % NR_KEPT].end_ns, UINT64_MAX);
	atomic_store(&times[n % NR_KEPT].begin_ns, clock_now_ns());
	atomic_store(&nr_begun, n);
}

void pause_end(void)
{
	if (is_open)
		atomic_store(&times[atomic_load(&nr_begun) % NR_KEPT].end_ns,
			     clock_now_ns());
	is_open = false;
}

uint32_t pause_count(void)
{
	return atomic_load(&nr_begun);
}

bool pause_get(uint32_t n, struct pause *pause)
{
	uint32_t newest = atomic_load(&nr_begun);

	if (n == 0 || n > newest || newest - n >= NR_KEPT)
		return false;
	pause->begin_ns = atomic_load(&times[n % NR_KEPT].begin_ns);
	pause->end_ns = atomic_load(&times[n % NR_KEPT].end_ns);
	return true;
}
