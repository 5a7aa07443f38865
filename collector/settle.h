/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_SETTLE_H
#define GPUTRACE_COLLECTOR_SETTLE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Windows that follow one another without a pause: a start overtakes the stop
 * before it, whose work in flight nobody waits for then.  Such a window is
 * settled by the flushes of the next: when CUPTI has no buffer from before its
 * close, or after wait_ns.
 */
bool settle_is_due(uint64_t flushed_ns, uint64_t wait_ns);

#endif
