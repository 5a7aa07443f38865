/* SPDX-License-Identifier: MIT */
#include "collector/window.h"

#include <stdatomic.h>

#include "collector/clock.h"

#define NR_KEPT WINDOWS_REMEMBERED

_Atomic uint32_t window_count;
static _Atomic uint32_t nr_settled;
static struct {
	_Atomic uint64_t open_ns;
	_Atomic uint64_t close_ns;
} times[NR_KEPT];

uint32_t window_open(void)
{
	uint32_t now = window_epoch();
	uint32_t slot = (now / 2 + 1) % NR_KEPT;

	if (window_is_open(now))
		return now;
	/* The times are there before the epoch that names them is seen. */
	atomic_store_explicit(&times[slot].close_ns, UINT64_MAX,
			      memory_order_relaxed);
	atomic_store_explicit(&times[slot].open_ns, clock_now_ns(),
			      memory_order_relaxed);
	atomic_compare_exchange_strong_explicit(&window_count, &now, now + 1,
		memory_order_release, memory_order_relaxed);
	return window_epoch();
}

uint32_t window_close(void)
{
	uint32_t now = window_epoch();
	uint32_t slot = ((now + 1) / 2) % NR_KEPT;

	if (!window_is_open(now))
		return now;
	atomic_store_explicit(&times[slot].close_ns, clock_now_ns(),
			      memory_order_relaxed);
	atomic_compare_exchange_strong_explicit(&window_count, &now, now + 1,
		memory_order_release, memory_order_relaxed);
	return window_epoch();
}

bool window_get(uint32_t n, struct window *window)
{
	uint32_t newest = (window_epoch() + 1) / 2;

	if (n == 0 || n > newest || newest - n >= NR_KEPT)
		return false;
	window->open_ns = atomic_load_explicit(&times[n % NR_KEPT].open_ns,
					       memory_order_relaxed);
	window->close_ns = atomic_load_explicit(&times[n % NR_KEPT].close_ns,
						memory_order_relaxed);
	return true;
}

uint32_t window_settled(void)
{
	return atomic_load_explicit(&nr_settled, memory_order_acquire);
}

void window_settle(void)
{
	atomic_store_explicit(&nr_settled, window_epoch() / 2,
			      memory_order_release);
}

uint64_t window_opened_ns(uint32_t epoch)
{
	struct window window;

	return window_get((epoch + 1) / 2, &window) ? window.open_ns : 0;
}
