/* SPDX-License-Identifier: MIT */
#include "inject/schedule.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "collector/cancel.h"
#include "collector/nvtx_marks.h"
#include "inject/capture.h"

/* Threads with one step that are remembered until one shows a second. */
enum { NR_SEEN = 16 };

/* The steps so far; only one range at a time is told of (nvtx_marks.h). */
static struct {
	struct setting_schedule schedule;
	uint64_t thread;                /* whose steps count; 0: not known */
	uint64_t nr;                    /* of its steps so far */
	uint64_t seen[NR_SEEN];
	uint32_t nr_seen;
	bool is_profiler_step;          /* ProfilerStep#N, which are better */
	bool has_opened;
	int is_last;                    /* of a window: the step that is open */
} steps;

static bool step_opens(const struct nvtx_opened *opened);

enum phase schedule_phase(const struct setting_schedule *schedule,
			  uint64_t step, int *is_last)
{
	uint64_t before = (uint64_t)schedule->wait + schedule->warmup;
	uint64_t length = before + schedule->active, at = step % length;

	*is_last = at == length - 1;
	if (schedule->repeat && step / length >= schedule->repeat)
		*is_last = 0;
	else if (at == before)
		return PHASE_FIRST;
	else if (at > before)
		return PHASE_ACTIVE;
	else if (at >= schedule->wait)
		return PHASE_WARM_UP;
	return PHASE_OFF;
}

static bool was_seen(uint64_t thread)
{
	for (uint32_t i = 0; i < steps.nr_seen; i++)
		if (steps.seen[i] == thread)
			return true;
	if (steps.nr_seen < NR_SEEN)
		steps.seen[steps.nr_seen++] = thread;
	return false;
}

static void begin_anew(bool is_profiler_step)
{
	steps.thread = steps.nr = steps.nr_seen = 0;
	steps.is_profiler_step = is_profiler_step;
	nvtx_marks_keep_to(step_opens, 0);
}

/* The number of a step that opens on that thread, or -1: it does not count. */
static int64_t count(const struct nvtx_opened *opened)
{
	if (opened->is_profiler_step != steps.is_profiler_step) {
		if (!opened->is_profiler_step || steps.has_opened)
			return -1;
		begin_anew(true);
	}
	if (steps.thread)
		return (int64_t)steps.nr++;
	if (!was_seen(opened->thread))
		return steps.nr_seen == 1 ? 0 : -1;
	/* Its second. */
	steps.thread = opened->thread;
	steps.nr = 2;
	nvtx_marks_keep_to(step_opens, opened->thread);
	return 1;
}

static void begin(enum phase phase)
{
	const struct capture_request request = { .by = BY_SCHEDULE };
	char why[1];    /* a window of somebody else, or it was said */

	if (phase == PHASE_WARM_UP)
		(void)capture_warm_up();
	else if (phase == PHASE_FIRST &&
		 !capture_start(&request, why, sizeof why))
		steps.has_opened = true;
}

static bool step_opens(const struct nvtx_opened *opened)
{
	int saved = errno, cancel = cancel_hold();
	int64_t step = count(opened);

	if (step >= 0)
		begin(schedule_phase(&steps.schedule, (uint64_t)step,
				     &steps.is_last));
	cancel_release(cancel);
	errno = saved;
	return step >= 0;
}

static void step_closes(void)
{
	int saved = errno, cancel = cancel_hold();

	if (steps.is_last)
		(void)capture_stop(BY_SCHEDULE);
	cancel_release(cancel);
	errno = saved;
}

void schedule_prepare(const struct setting_schedule *schedule,
		      const char *step)
{
	struct nvtx_name name = {
		.kind = step ? NAME_NUMBERED : NAME_STEP, .name = step,
		.len = step ? strlen(step) : 0,
		.opens = step_opens, .closes = step_closes,
	};

	if (!schedule->active)
		return;
	steps.schedule = *schedule;
	nvtx_marks_add(&name);
}

void schedule_forget(void)
{
	begin_anew(false);
	steps.has_opened = false;
	steps.is_last = 0;
}
