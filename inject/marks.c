/* SPDX-License-Identifier: MIT */
#include "inject/marks.h"

#include <errno.h>

#include "collector/cancel.h"
#include "collector/nvtx_marks.h"
#include "inject/capture.h"
#include "inject/schedule.h"
#include "inject/timer.h"

static void start_window(void)
{
	const struct capture_request request = { .by = BY_NVTX };
	char why[1];    /* one is open already, or it was said */

	(void)capture_start(&request, why, sizeof why);
}

static bool window_opens(const struct nvtx_opened *opened)
{
	int saved = errno, cancel = cancel_hold();

	(void)opened;
	start_window();
	cancel_release(cancel);
	errno = saved;
	return true;
}

static void window_closes(void)
{
	int saved = errno, cancel = cancel_hold();

	(void)capture_stop(BY_NVTX);
	cancel_release(cancel);
	errno = saved;
}

static bool dump_is_wished(const struct nvtx_opened *opened)
{
	(void)opened;
	timer_ask(WISH_MARKED_DUMP);
	return true;
}

static void add(const char *value, bool (*opens)(const struct nvtx_opened *),
		void (*closes)(void))
{
	struct setting_mark mark;

	if (!value)
		return;
	setting_mark(value, &mark);
	nvtx_marks_add(&(struct nvtx_name){
		.name = mark.name, .len = mark.name_len,
		.domain = mark.domain, .domain_len = mark.domain_len,
		.opens = opens, .closes = closes,
	});
}

bool marks_prepare(const struct configuration *configuration)
{
	add(configuration->start_mark, window_opens, window_closes);
	add(configuration->dump_mark, dump_is_wished, NULL);
	schedule_prepare(&configuration->schedule, configuration->step);
	return configuration->start_mark || configuration->dump_mark ||
		configuration->schedule.active;
}

void marks_catch_up(void)
{
	if (!nvtx_marks_is_open(window_opens))
		return;
	start_window();
	/* It may have closed while nobody could open a window. */
	if (!nvtx_marks_is_open(window_opens))
		(void)capture_stop(BY_NVTX);
}
