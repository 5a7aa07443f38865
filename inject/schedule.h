/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_SCHEDULE_H
#define GPUTRACE_INJECT_SCHEDULE_H

#include <stdint.h>

#include "inject/settings.h"

/*
 * GPUTRACE_SCHEDULE: windows counted in steps, as torch.profiler counts them.
 *
 *	wait=1,warmup=1,active=3
 *
 *	step     0     1     2     3     4     5     6     7
 *	       | off | warm| window          | off | warm| window
 */
enum phase { PHASE_OFF, PHASE_WARM_UP, PHASE_FIRST, PHASE_ACTIVE };

/* Of step number `step` (0, 1, ...).  FIRST: a window begins with it.
 * *is_last: it ends with it.  Context: any. */
enum phase schedule_phase(const struct setting_schedule *schedule,
			  uint64_t step, int *is_last);

/* Counts the ranges that are steps, if there is a schedule.
 * Context: attach, once, before the first nvtx_attach(). */
void schedule_prepare(const struct setting_schedule *schedule,
		      const char *step);

/* In the child of a fork: no step was seen.  Context: atfork child. */
void schedule_forget(void);

#endif
