/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_SETTLE_H
#define GPUTRACE_COLLECTOR_SETTLE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Behind the close of a window a busy program goes on taking buffers, so CUPTI
 * has some at any time: those from before the close are what is waited for.
 * Context: flush thread, as below.
 */
bool settle_is_fetched(void);

/*
 * Windows that follow one another without a pause: a start overtakes the stop
 * before it, whose work in flight nobody waits for then.  Such a window is
 * settled by the flushes of the next: when CUPTI has no buffer from before its
 * close, or after wait_ns.
 */
bool settle_is_due(uint64_t flushed_ns, uint64_t wait_ns);

#endif
