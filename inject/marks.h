/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_MARKS_H
#define GPUTRACE_INJECT_MARKS_H

#include <stdbool.h>

#include "inject/configuration.h"

/*
 * NVTX ranges and marks that open and close windows, or write the flight
 * recorder: GPUTRACE_START=nvtx:, GPUTRACE_SCHEDULE, GPUTRACE_DUMP_ON.
 */

/* Tells NVTX which names are of interest.  True if there are any.
 * Context: attach, once, before the first nvtx_attach(). */
bool marks_prepare(const struct configuration *configuration);

/* Windows can be opened from now on: opens that of a range which is open
 * already.  Context: attach, once. */
void marks_catch_up(void);

#endif
