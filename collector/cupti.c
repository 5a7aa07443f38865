/* SPDX-License-Identifier: MIT */
#include "collector/cupti.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "collector/activity.h"
#include "collector/activity_buffer.h"
#include "collector/api_calls.h"
#include "collector/client.h"
#include "collector/client_clock.h"
#include "collector/clock.h"
#include "collector/cupti_api.h"
#include "collector/cupti_buffers.h"
#include "collector/cupti_demand.h"
#include "collector/cupti_kinds.h"
#include "collector/cupti_subscriber.h"
#include "collector/guard.h"
#include "collector/log.h"
#include "collector/loss.h"
#include "collector/own_thread.h"
#include "collector/pause.h"
#include "collector/pool.h"
#include "collector/settle.h"
#include "collector/wait.h"
#include "collector/watch.h"
#include "collector/window.h"

#define STOP_WAIT_NS 1000000000u        /* for work in flight to end */

/*
 * With a kernel in flight a plain flush returns nothing of the thread that
 * launched it; a forced one returns the rest, but ends that kernel's record
 * without its times.  5 s: no single kernel of a healthy program runs so
 * long, a persistent or hung one does.
 */
#define FORCE_AFTER_NS 5000000000u

#define LOOK_NS 2000000u                /* between two looks for buffers */
#define ADJUST_NS 1000000000u

/* Another client that wants CUPTI waits so long for our work in flight, and
 * so long in all for the flush thread, which the driver may hold up. */
#define ASIDE_FLUSH_NS 50000000u
#define ASIDE_WAIT_NS 300000000u
#define ASIDE_LOOK_NS 200000000u        /* to see whether it has it still */

enum request { NOTHING, STOP, FINISH };

/* HERE: CUPTI is ours.  ASIDE: none of our kinds is on, whoever may have it;
 * LEAVING: on the way there. */
enum place { HERE, LEAVING, ASIDE };

static struct cupti_options options;
static pthread_mutex_t control = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t request, wake, finished, is_on, is_dead, place;
static uint32_t nr_windows;
static bool is_discarded;       /* GPUTRACE_FLOOR */

/* ---- The flush thread ---- */

/* Buffers can arrive a little after the flush that sent them. */
static void wait_for_buffers(uint64_t until_ns)
{
	while (pool_outstanding() && clock_now_ns() < until_ns)
		wait_change(&wake, atomic_load(&wake), LOOK_NS);
}

static void flush_forced(uint64_t wait_ns)
{
	uint64_t start_ns = clock_now_ns();

	pool_forcing(true);
	cupti_buffers_flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	wait_for_buffers(clock_now_ns() + wait_ns);
	pool_forcing(false);
	watch_forced(start_ns);
}

/* All that there is now; a forced flush only where no gap comes soon. */
static void flush_on_demand(void)
{
	uint64_t begin_ns = clock_now_ns();
	uint32_t asked;

	if (!cupti_demand_is_there(&asked))
		return;
	if (cupti_is_ours()) {
		do {
			cupti_buffers_flush(0);
			wait_for_buffers(clock_now_ns() + LOOK_NS);
		} while (pool_oldest_ns() < begin_ns &&
			 clock_now_ns() < begin_ns + ASIDE_FLUSH_NS);
		if (pool_oldest_ns() < begin_ns)
			flush_forced(50 * LOOK_NS);
		activity_flushed();
	}
	cupti_demand_answer(asked);
}

static void settle_overtaken(uint64_t flushed_ns)
{
	sigset_t before;

	guard_take(&control, &before);
	if (atomic_load(&request) == NOTHING &&
	    settle_is_due(flushed_ns, STOP_WAIT_NS))
		window_settle();
	guard_give(&control, &before);
}

/* Every flush_ns.  Where a buffer stays away for long (it holds a record of
 * work in flight), or too many do, a flush is forced. */
static void flush_periodically(void)
{
	uint64_t oldest_ns, begin_ns = clock_now_ns();

	cupti_buffers_flush(0);
	settle_overtaken(begin_ns);
	oldest_ns = pool_oldest_ns();
	if (atomic_load(&place) == HERE && ((oldest_ns != UINT64_MAX &&
	     clock_now_ns() > oldest_ns + FORCE_AFTER_NS) || pool_use() > 75))
		flush_forced(50 * LOOK_NS);
	activity_flushed();
	if (watch_look(cupti_api_version()))
		cupti_stop();
}

/* A period from the start of the last flush; half of one behind a slow one. */
static uint64_t next_flush_ns(uint64_t last_ns)
{
	uint64_t next_ns = last_ns + options.flush_ns;
	uint64_t least_ns = clock_now_ns() + options.flush_ns / 2;

	return next_ns > least_ns ? next_ns : least_ns;
}

/* ---- Another client of CUPTI ---- */

static void leave(void)
{
	sigset_t before;

	guard_take(&control, &before);
	if (atomic_load(&place) == LEAVING) {
		if (atomic_load(&is_on)) {
			cupti_kinds_disable();
			pause_begin();
			log_line(LOG_INFO, "another profiler of the program "
				 "uses CUPTI: standing aside until it is done");
		}
		cupti_buffers_release();
		atomic_store(&place, ASIDE);
	}
	guard_give(&control, &before);
	wait_wake(&wake);
}

/* On the flush thread: what is complete is fetched; what is not complete
 * after that time comes without its end, and is counted. */
static void complete_leaving(void)
{
	uint64_t begin_ns, took_ns, until_ns = clock_now_ns() + ASIDE_FLUSH_NS;

	do {
		begin_ns = clock_now_ns();
		cupti_buffers_flush(0);
		wait_for_buffers(clock_now_ns() + LOOK_NS);
		took_ns = clock_now_ns() - begin_ns;
	} while (pool_outstanding() && clock_now_ns() + took_ns < until_ns &&
		 atomic_load(&place) == LEAVING);
	if (pool_outstanding() && atomic_load(&place) == LEAVING)
		flush_forced(LOOK_NS);
	leave();
}

void cupti_stand_aside(void)
{
	uint64_t until_ns = clock_now_ns() + ASIDE_WAIT_NS, now_ns;
	sigset_t before;
	uint32_t seen;

	if (atomic_load(&is_dead))
		return;
	guard_take(&control, &before);
	if (atomic_load(&place) == HERE)
		atomic_store(&place, LEAVING);
	guard_give(&control, &before);
	wait_wake(&wake);
	/* Between windows there is nothing to fetch. */
	while (seen = atomic_load(&wake), atomic_load(&is_on) &&
	       atomic_load(&place) == LEAVING &&
	       (now_ns = clock_now_ns()) < until_ns)
		wait_change(&wake, seen, until_ns - now_ns);
	/* The flush may last as long as the driver likes: without it, then. */
	leave();
}

/* With `control` held. */
static int take_place(void)
{
	bool is_held = cupti_is_ours(); /* a start overtakes a stop */
	int error;

	atomic_store(&place, HERE);
	client_clock_sample();
	error = is_held ? 0 : cupti_buffers_claim();
	return error ? error : cupti_kinds_enable();
}

void cupti_take_up(void)
{
	sigset_t before;

	if (atomic_load(&is_dead) || atomic_load(&place) != ASIDE)
		return;
	/* What CUPTI still holds for it: ours must not get in there. */
	if (client_holds_buffers()) {
		cupti_buffers_flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
		client_was_flushed();
	}
	guard_take(&control, &before);
	if (atomic_load(&place) == ASIDE && client_may_be_left() &&
	    atomic_load(&request) == NOTHING) {
		if (atomic_load(&is_on) && take_place()) {
			window_close();
			atomic_store(&is_on, 0);
		}
		atomic_store(&place, HERE);
		pause_end();
	}
	guard_give(&control, &before);
	wait_wake(&wake);
}

/* True if one was asked for; the end of the process is not taken back. */
static bool end_stop(void)
{
	uint32_t stop = STOP;

	return atomic_compare_exchange_strong(&request, &stop, NOTHING);
}

/* No start in between, with a stop of its own, whose window is not fetched. */
static bool is_same_stop(uint32_t epoch)
{
	return atomic_load(&request) == STOP && window_epoch() == epoch;
}

/* The second half of cupti_stop(). */
static void complete_stop(void)
{
	uint64_t until_ns = clock_now_ns() + STOP_WAIT_NS;
	uint32_t epoch = window_epoch();
	sigset_t before;

	while (atomic_load(&place) == HERE) {
		cupti_buffers_flush(0);
		wait_for_buffers(clock_now_ns() + LOOK_NS);
		if (settle_is_fetched() || clock_now_ns() >= until_ns ||
		    !is_same_stop(epoch))
			break;
	}
	/* Outside the lock: it may hang as the GPU does, a start must not. */
	if (!settle_is_fetched() && is_same_stop(epoch) &&
	    atomic_load(&place) == HERE)
		flush_forced(50 * LOOK_NS);
	guard_take(&control, &before);
	if (is_same_stop(epoch)) {
		if (atomic_load(&place) != ASIDE) {
			cupti_kinds_disable();
			cupti_buffers_put_back();
		}
		atomic_store(&is_on, 0);
		end_stop();
		window_settle();
	}
	guard_give(&control, &before);
	activity_flushed();     /* the writer completes the window's file */
}

static void complete_finish(void)
{
	bool is_ours = atomic_load(&place) != ASIDE;

	/* A launch while a stop ended can have taken a buffer. */
	if (is_ours && (atomic_load(&is_on) || pool_outstanding()))
		flush_forced(50 * LOOK_NS);
	if (is_ours && atomic_load(&is_on))
		cupti_kinds_disable();
	atomic_store(&is_on, 0);
	cupti_give_way();
	loss_add(LOSS_BUFFERS_LOST, pool_outstanding());
	flush_on_demand();      /* nothing is on */
	atomic_store(&finished, 1);
	wait_wake(&finished);
}

/* Between windows there is nothing to do; inside one the clock wants to be
 * looked after every second. */
static uint64_t pause_ns(uint64_t to_flush_ns)
{
	if (atomic_load(&place) == ASIDE)
		return ASIDE_LOOK_NS;
	if (!atomic_load(&is_on))
		return UINT64_MAX >> 1;
	return to_flush_ns < ADJUST_NS ? to_flush_ns : ADJUST_NS;
}

static void wake_up(void)
{
	wait_wake(&wake);
}

static void *run_flushes(void *argument)
{
	uint64_t next_ns = clock_now_ns() + options.flush_ns;

	(void)argument;
	for (;;) {
		uint32_t seen = atomic_load(&wake);
		uint64_t now_ns = clock_now_ns();

		log_carry();
		switch (atomic_load(&request)) {
		case FINISH:
			complete_finish();
			return NULL;
		case STOP:
			complete_stop();
			continue;
		}
		if (atomic_load(&is_on))
			clock_adjust();
		flush_on_demand();
		switch (atomic_load(&place)) {
		case LEAVING:
			complete_leaving();
			continue;
		case ASIDE:
			if (client_is_idle())
				cupti_take_up();
			break;
		}
		if (activity_is_hurried() && cupti_is_ours())
			cupti_buffers_flush(0);
		if (now_ns < next_ns) {
			wait_change(&wake, seen, pause_ns(next_ns - now_ns));
			continue;
		}
		if (atomic_load(&is_on) && atomic_load(&place) == HERE)
			flush_periodically();
		next_ns = next_flush_ns(now_ns);
	}
}

/* ---- What the rest of the library calls ---- */

int cupti_attach(const struct cupti_options *given)
{
	int error;

	options = *given;
	error = cupti_api_load(options.path, options.driver_version);
	if (error)
		return error;
	activity_set_version(cupti_api_version());
	error = pool_init(options.buffer_bytes);
	if (error) {
		log_line(LOG_WARN, "not tracing: no memory for buffers; set "
			 "GPUTRACE_BUFFER to less");
		return error;
	}
	api_calls_init(options.api_all);
	cupti_kinds_select(&options);
	cupti_buffers_set_clock();
	if (options.on_profiler_api)
		error = cupti_subscribe(options.on_profiler_api);
	if (error)
		return error;
	error = own_thread_start("gputrace-flush", run_flushes, NULL);
	if (!error) {
		log_set_carrier(wake_up);
		activity_set_hurry(wake_up);
	} else {
		cupti_give_way();
		log_line(LOG_WARN, "not tracing: no thread could be started");
	}
	return error;
}

/* With `control` held. */
static int turn_on(const struct cupti_choice *choice)
{
	int error = 0;

	is_discarded = options.floor && nr_windows++ % 2 == 0;
	pool_discard(is_discarded);
	cupti_kinds_choose(choice);
	if (!client_is_done()) {
		atomic_store(&place, ASIDE);
		pause_begin();
	} else if (atomic_load(&place) != LEAVING) {
		error = take_place();
	}
	atomic_store(&is_on, !error);
	return error;
}

static int begin(const struct cupti_choice *choice, bool opens)
{
	bool is_new, has_own_file = choice && choice->has_own_file;
	sigset_t before;
	int error = 0;

	if (atomic_load(&is_dead) || !watch_begin(has_own_file))
		return -EPERM;
	guard_take(&control, &before);
	is_new = end_stop() || !atomic_load(&is_on);
	if (atomic_load(&request) != NOTHING)
		error = -ESHUTDOWN;
	else if (is_new)
		error = turn_on(choice);
	if (!error && opens && !is_discarded)
		window_open();
	guard_give(&control, &before);
	wait_wake(&wake);
	activity_wake();        /* the writer looks which ranges are open */
	return error;
}

int cupti_start(const struct cupti_choice *choice)
{
	return begin(choice, true);
}

int cupti_warm_up(void)
{
	return begin(NULL, false);
}

void cupti_stop(void)
{
	sigset_t before;

	if (atomic_load(&is_dead))
		return;
	guard_take(&control, &before);
	if (atomic_load(&is_on) && atomic_load(&request) == NOTHING) {
		window_close();
		pause_end();
		atomic_store(&request, STOP);
	}
	guard_give(&control, &before);
	wait_wake(&wake);
}

int cupti_flush_now(uint64_t deadline_ns)
{
	if (atomic_load(&is_dead) || !atomic_load(&is_on))
		return 0;
	return cupti_demand(&wake, deadline_ns);
}

int cupti_finish(uint64_t deadline_ns)
{
	uint64_t now_ns;

	if (atomic_load(&is_dead))
		return 0;
	window_close();
	atomic_store(&request, FINISH);
	wait_wake(&wake);
	while (!atomic_load(&finished)) {
		now_ns = clock_now_ns();
		if (now_ns >= deadline_ns) {
			loss_add(LOSS_BUFFERS_LOST, pool_outstanding());
			return -ETIMEDOUT;
		}
		wait_change(&finished, 0, deadline_ns - now_ns);
	}
	return 0;
}

bool cupti_is_ours(void)
{
	return atomic_load(&is_on) && atomic_load(&place) == HERE &&
		!atomic_load(&is_dead);
}

void cupti_forget(void)
{
	atomic_store(&is_dead, 1);
	cupti_buffers_in_child();
	cupti_subscriber_in_child();
	window_close();
}
