/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CUPTI_CALLS_H
#define GPUTRACE_COLLECTOR_CUPTI_CALLS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * CUDA calls that can hold up their thread: those that wait for the GPU,
 * copy, allocate, or launch.  One that took longer than a threshold is told
 * at its end, on its thread, by the correlation id under which CUPTI will
 * tell of it.  Both ends of such calls are seen through CUPTI's subscriber.
 */

/* Returns 0, or -errno after one line.  Context: attach, once. */
int cupti_calls_prepare(uint64_t min_ns, void (*on_long)(uint32_t correlation));

/* False: no call can be seen: another client has taken the subscriber.
 * Context: one at a time. */
bool cupti_calls_enable(bool on);

#endif
