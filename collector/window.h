/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_WINDOW_H
#define GPUTRACE_COLLECTOR_WINDOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A window is a stretch of time that is recorded.  The epoch counts openings
 * and closings: 0 before the first window, odd while one is open, even
 * between two.  Sources look at the epoch and at nothing else.
 */
static inline bool window_is_open(uint32_t epoch)
{
	return epoch & 1;
}

/* (Visible here because the hot path is inlined.) */
extern _Atomic uint32_t window_count __attribute__((visibility("hidden")));

/* Context: any thread, signal-safe. */
static inline uint32_t window_epoch(void)
{
	return atomic_load_explicit(&window_count, memory_order_acquire);
}

/* Both return the new epoch, and change nothing where there is nothing to
 * change.  Context: any thread. */
uint32_t window_open(void);
uint32_t window_close(void);

/* The times of window number `n` (1, 2, ...; epoch 2n - 1 is inside it).
 * close_ns is UINT64_MAX while it is open.  False for one that has not opened
 * or is older than the last 1024, which the writer looks at every 10 ms.
 * Context: any thread. */
#define WINDOWS_REMEMBERED 1024
struct window {
	uint64_t open_ns;
	uint64_t close_ns;
};
bool window_get(uint32_t n, struct window *window);

/* The newest window of which all that CUPTI had is handed over, or counted as
 * lost; window_settle() says it of all that are closed.
 * Context: any thread; the flush thread. */
uint32_t window_settled(void);
void window_settle(void);

/* When the window opened that `epoch` is inside of; 0 if it is not known any
 * more.  Context: any thread, signal-safe. */
uint64_t window_opened_ns(uint32_t epoch);

#endif
