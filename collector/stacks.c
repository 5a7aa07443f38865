/* SPDX-License-Identifier: MIT */
#include "collector/stacks.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "collector/clock.h"
#include "collector/cupti_calls.h"
#include "collector/log.h"
#include "collector/loss.h"
#include "collector/modules.h"
#include "collector/peek.h"
#include "collector/python.h"
#include "collector/stack_sampler.h"
#include "collector/stack_fill.h"
#include "collector/stack_of_call.h"
#include "collector/thread.h"

static atomic_bool is_on;
static bool sees_calls;
static uint64_t min_ns;

static void put(struct thread *thread, enum stack_of of, uint32_t correlation,
		struct unwind_frame *frame)
{
	struct ring *ring = thread_ring(thread);
	struct stack_record *record = NULL;
	uint32_t size;

	/* The last half is for ranges, which are smaller and more dear. */
	if (ring_room(ring) >= thread->ring_size / 2)
		record = ring_reserve(ring, STACK_RECORD_MAX);
	if (!record) {
		loss_add(LOSS_STACKS, 1);
		return;
	}
	size = stack_fill(record, frame);
	record->head.t_ns = clock_now_ns();
	record->tid = thread_tid(thread);
	record->correlation = correlation;
	record->of = of;
	ring_shorten(ring, STACK_RECORD_MAX - size);
	ring_commit(ring);
}

static void take(enum stack_of of, uint32_t correlation,
		 struct unwind_frame *frame)
{
	struct thread *thread = thread_enter();

	if (!thread)
		return;
	put(thread, of, correlation, frame);
	thread_leave(thread);
}

static void long_call(uint32_t correlation)
{
	struct unwind_frame frame;

	if (!atomic_load_explicit(&is_on, memory_order_relaxed))
		return;
	unwind_here(&frame);
	take(STACK_OF_CALL, correlation, &frame);
}

static void long_blocking_call(uint64_t took_ns)
{
	struct unwind_frame frame;

	if (took_ns < min_ns)
		return;
	unwind_here(&frame);
	take(STACK_OF_NEXT, 0, &frame);
}

/* ---- The source ---- */

static int arm(const struct source_options *options)
{
	int error = peek_works() ? modules_refresh() : -ENOSYS;

	if (error < 0) {
		log_line(LOG_WARN, "no call stacks: %s", error == -ENOSYS ?
			 "this system does not tell which memory is there" :
			 "/proc/self/maps cannot be read");
		return error;
	}
	(void)python_prepare();
	min_ns = options->stack_min_ns;
	/* Without it there are samples still, and that was said. */
	sees_calls = !cupti_calls_prepare(options->stack_min_ns, long_call);
	return stack_sampler_prepare(options->sample_hz);
}

static void open_window(void)
{
	atomic_store(&is_on, true);
	atomic_store(&stack_of_call_taker, long_blocking_call);
	stack_sampler_start();
	if (!sees_calls || cupti_calls_enable(true))
		return;
	sees_calls = false;
	log_line(LOG_INFO, "no call stacks of CUDA calls from here on: "
		 "another client has CUPTI's subscriber");
}

static void close_window(void)
{
	atomic_store(&is_on, false);
	atomic_store(&stack_of_call_taker, NULL);
	stack_sampler_stop();
	if (sees_calls)
		(void)cupti_calls_enable(false);
}

static void forget(void)
{
	atomic_store(&is_on, false);
	atomic_store(&stack_of_call_taker, NULL);
	sees_calls = false;
	stack_sampler_forget();
	modules_forget();
}

const struct source stacks_source = {
	.name = "stacks", .arm = arm, .open = open_window,
	.close = close_window, .forget = forget,
};
