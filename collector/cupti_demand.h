/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CUPTI_DEMAND_H
#define GPUTRACE_COLLECTOR_CUPTI_DEMAND_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Forced flushes that somebody waits for: asked for by any of our threads,
 * answered by the flush thread, one for all who have asked by then.
 */

/* Asks; `wake` is the flush thread's.  0, or -ETIMEDOUT.
 * Context: our own threads. */
int cupti_demand(_Atomic uint32_t *wake, uint64_t deadline_ns);

/* True if there is something to answer: *asked is for cupti_demand_answer().
 * Context: flush thread. */
bool cupti_demand_is_there(uint32_t *asked);
void cupti_demand_answer(uint32_t asked);

#endif
