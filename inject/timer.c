/* SPDX-License-Identifier: MIT */
#include "inject/timer.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "collector/clock.h"
#include "collector/log.h"
#include "collector/own_thread.h"
#include "collector/wait.h"
#include "inject/capture.h"

/* A dump that nobody waits for may take so long. */
#define DUMP_WAIT_NS UINT64_C(10000000000)

#define FOR_EVER (UINT64_MAX >> 1)

static _Atomic uint32_t is_there, turn, wished;
static _Atomic uint64_t due_ns[TIMER_NR];
static uint64_t dumps_apart_ns, next_dump_ns;

static void start_window(enum capture_by by)
{
	const struct capture_request request = { .by = by };
	char why[CAPTURE_WHY];

	if (capture_start(&request, why, sizeof why))
		log_line(LOG_WARN, "no window: %s", why);
}

static void toggle(void)
{
	if (capture_stop(BY_SIGNAL) < 0)
		start_window(BY_SIGNAL);
}

static void say_dump(const struct writer_result *result)
{
	if (result->unfinished)
		log_line(LOG_WARN, "%s: dumped, %llu kernels; %u never "
			 "finished", result->path,
			 (unsigned long long)result->kernels,
			 result->unfinished);
	else
		log_line(LOG_WARN, "%s: dumped, %llu kernels", result->path,
			 (unsigned long long)result->kernels);
}

static void dump(void)
{
	static const struct writer_target target = { .fd = -1 };
	static struct writer_result result;
	char why[CAPTURE_WHY];

	next_dump_ns = clock_now_ns() + dumps_apart_ns;
	if (capture_dump(&target, clock_now_ns() + DUMP_WAIT_NS, &result, why,
			 sizeof why))
		log_line(LOG_WARN, "%s", why);
	else
		say_dump(&result);
}

/* True once for each time that is set. */
static bool is_due(enum timer_event event)
{
	uint64_t at_ns = atomic_load(&due_ns[event]);

	return at_ns && clock_now_ns() >= at_ns &&
		atomic_compare_exchange_strong(&due_ns[event], &at_ns, 0);
}

static void work(void)
{
	uint32_t wishes = atomic_exchange(&wished, 0);

	if (is_due(TIMER_STOP))
		capture_expire();
	if (is_due(TIMER_START))
		start_window(BY_SETTING);
	if (wishes & WISH_TOGGLE)
		toggle();
	if (wishes & WISH_MARKED_DUMP)
		timer_set(TIMER_DUMP, next_dump_ns ? next_dump_ns : 1);
	if (wishes & WISH_DUMP || is_due(TIMER_DUMP))
		dump();
}

static uint64_t pause_ns(void)
{
	uint64_t now_ns = clock_now_ns(), next_ns = UINT64_MAX, at_ns;

	for (int i = 0; i < TIMER_NR; i++) {
		at_ns = atomic_load(&due_ns[i]);
		if (at_ns && at_ns < next_ns)
			next_ns = at_ns;
	}
	if (next_ns == UINT64_MAX)
		return FOR_EVER;
	return next_ns > now_ns ? next_ns - now_ns : 0;
}

static void *run(void *argument)
{
	uint32_t seen;
	uint64_t wait_ns;

	(void)argument;
	for (;;) {
		seen = atomic_load(&turn);
		work();
		wait_ns = pause_ns();
		if (wait_ns)
			wait_change(&turn, seen, wait_ns);
	}
	return NULL;
}

int timer_need(void)
{
	uint32_t no = 0;
	int error = 0;

	if (!atomic_compare_exchange_strong(&is_there, &no, 1))
		return 0;
	error = own_thread_start("gputrace-timer", run, NULL);
	if (error)
		atomic_store(&is_there, 0);
	return error;
}

void timer_set(enum timer_event event, uint64_t at_ns)
{
	atomic_store(&due_ns[event], at_ns);
	if (at_ns)
		wait_wake(&turn);
}

void timer_ask(uint32_t wishes)
{
	atomic_fetch_or(&wished, wishes);
	wait_wake(&turn);
}

void timer_space_dumps(uint64_t least_ns)
{
	dumps_apart_ns = least_ns;
}

void timer_forget(void)
{
	atomic_store(&is_there, 0);
	atomic_store(&wished, 0);
	for (int i = 0; i < TIMER_NR; i++)
		atomic_store(&due_ns[i], 0);
}
