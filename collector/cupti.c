/* SPDX-License-Identifier: MIT */
#include "collector/cupti.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "collector/activity.h"
#include "collector/api_calls.h"
#include "collector/clock.h"
#include "collector/cupti_api.h"
#include "collector/cupti_kinds.h"
#include "collector/log.h"
#include "collector/loss.h"
#include "collector/own_thread.h"
#include "collector/pool.h"
#include "collector/thread.h"
#include "collector/wait.h"
#include "collector/window.h"

/* A stop waits so long for work in flight to end (design: a stop). */
#define STOP_WAIT_NS 1000000000u

/*
 * With a kernel in flight a plain flush returns nothing of the thread that
 * launched it; a forced one returns the rest, but ends that kernel's record
 * without its times.  5 s: no single kernel of a healthy program runs so
 * long, a persistent or hung one does.
 */
#define FORCE_AFTER_NS 5000000000u

/* While waiting for buffers: how often to look. */
#define LOOK_NS 2000000u

#define ADJUST_NS 1000000000u

enum request { NOTHING, STOP, FINISH };

static struct cupti_options options;
static pthread_mutex_t control = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t request, wake, finished, is_on, is_dead;
static CUpti_SubscriberHandle _Atomic subscriber;
static uint32_t nr_windows;

/* ---- CUPTI's callbacks ---- */

static void CUPTIAPI buffer_requested(uint8_t **buffer, size_t *size,
				      size_t *max_records)
{
	/* A thread that launches gets a state at its first buffer, so that its
	 * name is known when it has ended. */
	bool is_first = !thread_current;

	(void)thread_self();
	*size = 0;
	*buffer = pool_take(is_first, size);
	*max_records = 0;
}

static void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream,
				      uint8_t *buffer, size_t size,
				      size_t valid)
{
	(void)context;
	(void)stream;
	(void)size;
	pool_complete(buffer, valid);
}

static uint64_t CUPTIAPI timestamp(void)
{
	return clock_now_ns();
}

/* Only cuProfilerStart and cuProfilerStop are enabled; cudart's calls end in
 * these (seen with 13.0). */
static void CUPTIAPI driver_call(void *argument, CUpti_CallbackDomain domain,
				 CUpti_CallbackId cbid, const void *call)
{
	const CUpti_CallbackData *data = call;
	int saved = errno;

	(void)argument;
	if (domain != CUPTI_CB_DOMAIN_DRIVER_API)
		return;
	if (cbid == CUPTI_DRIVER_TRACE_CBID_cuProfilerStart &&
	    data->callbackSite == CUPTI_API_EXIT)
		cupti_start();
	else if (cbid == CUPTI_DRIVER_TRACE_CBID_cuProfilerStop &&
		 data->callbackSite == CUPTI_API_ENTER)
		cupti_stop();
	errno = saved;
}

/* ---- The flush thread ---- */

static void count_drops(void)
{
	size_t dropped = 0;

	if (cupti_api()->ActivityGetNumDroppedRecords(NULL, 0, &dropped) ==
	    CUPTI_SUCCESS && dropped)
		loss_add(LOSS_CUPTI_DROPPED, dropped);
}

static void flush(uint32_t flag)
{
	cupti_api()->ActivityFlushAll(flag);
	count_drops();
}

/* Buffers can arrive a little after the flush that sent them. */
static void wait_for_buffers(uint64_t until_ns)
{
	while (pool_outstanding() && clock_now_ns() < until_ns)
		wait_change(&wake, atomic_load(&wake), LOOK_NS);
}

static void flush_forced(void)
{
	flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	wait_for_buffers(clock_now_ns() + 50 * LOOK_NS);
}

/*
 * Every flush_ns.  A plain flush returns all buffers but those that hold a
 * record of work in flight (each thread has buffers of its own): one that
 * stays away for long, or too many of them, and a flush is forced.
 */
static void flush_periodically(void)
{
	uint64_t oldest_ns;

	flush(0);
	oldest_ns = pool_oldest_ns();
	if ((oldest_ns != UINT64_MAX &&
	     clock_now_ns() > oldest_ns + FORCE_AFTER_NS) || pool_use() > 75)
		flush_forced();
}

/* The second half of cupti_stop(): unless a new start came in between. */
static void complete_stop(void)
{
	uint64_t until_ns = clock_now_ns() + STOP_WAIT_NS;

	do {
		flush(0);
		wait_for_buffers(clock_now_ns() + LOOK_NS);
	} while (pool_outstanding() && clock_now_ns() < until_ns &&
		 atomic_load(&request) == STOP);
	/* Outside the lock: it may hang as long as the GPU does, and a start
	 * must not. */
	if (pool_outstanding() && atomic_load(&request) == STOP)
		flush_forced();
	pthread_mutex_lock(&control);
	if (atomic_load(&request) == STOP) {
		cupti_kinds_disable();
		atomic_store(&is_on, 0);
		atomic_store(&request, NOTHING);
	}
	pthread_mutex_unlock(&control);
}

static void complete_finish(void)
{
	if (atomic_load(&is_on)) {
		flush_forced();
		cupti_kinds_disable();
	}
	cupti_give_way();
	loss_add(LOSS_BUFFERS_LOST, pool_outstanding());
	atomic_store(&finished, 1);
	wait_wake(&finished);
}

/* Between windows there is nothing to do; inside one the clock wants to be
 * looked after every second. */
static uint64_t pause_ns(uint64_t to_flush_ns)
{
	if (!atomic_load(&is_on))
		return UINT64_MAX >> 1;
	return to_flush_ns < ADJUST_NS ? to_flush_ns : ADJUST_NS;
}

static void *run_flushes(void *argument)
{
	uint64_t next_ns = clock_now_ns() + options.flush_ns;

	(void)argument;
	for (;;) {
		uint32_t seen = atomic_load(&wake);
		uint64_t now_ns = clock_now_ns();

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
		if (now_ns < next_ns) {
			wait_change(&wake, seen, pause_ns(next_ns - now_ns));
			continue;
		}
		if (atomic_load(&is_on))
			flush_periodically();
		next_ns = clock_now_ns() + options.flush_ns;
	}
}

/* ---- What the rest of the library calls ---- */

static int subscribe_profiler_api(void)
{
	const struct cupti_api *api = cupti_api();
	CUpti_SubscriberHandle ours;
	CUptiResult result = api->Subscribe(&ours, driver_call, NULL);

	if (result == CUPTI_SUCCESS) {
		api->EnableCallback(1, ours, CUPTI_CB_DOMAIN_DRIVER_API,
			CUPTI_DRIVER_TRACE_CBID_cuProfilerStart);
		api->EnableCallback(1, ours, CUPTI_CB_DOMAIN_DRIVER_API,
			CUPTI_DRIVER_TRACE_CBID_cuProfilerStop);
		atomic_store(&subscriber, ours);
	}
	return cupti_kinds_explain(result, "cudaProfilerStart cannot be seen");
}

void cupti_give_way(void)
{
	CUpti_SubscriberHandle ours = atomic_exchange(&subscriber, NULL);
	int saved = errno;

	if (ours && !atomic_load(&is_dead))
		cupti_api()->Unsubscribe(ours);
	errno = saved;
}

static void set_attribute(CUpti_ActivityAttribute attribute, uint8_t value)
{
	size_t size = sizeof value;

	/* Not fatal: an old version lacks it. */
	(void)cupti_api()->ActivitySetAttribute(attribute, &size, &value);
}

static void set_thread_ids(void)
{
	static bool is_said;

	if (is_said || (cupti_api()->SetThreadIdType &&
			!cupti_api()->SetThreadIdType(
				CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM)))
		return;
	is_said = true;
	log_line(LOG_WARN, "CUPTI does not tell the system's thread ids: calls "
		 "are on lanes of their own, apart from the ranges of their "
		 "threads");
}

/*
 * At each start anew: another client (torch.profiler) that came in between has
 * put its own callbacks and attributes in the place of ours.
 */
static int register_buffers(void)
{
	CUptiResult result;

	/* Our buffers are zeroed when they are free: no memset in the
	 * program's thread. */
	set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, 1);
	/* With shared buffers a busy program's come back only when full. */
	if (cupti_api_version() >= 21) /* 12.3 */
		set_attribute(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER,
			      1);
	set_thread_ids();
	result = cupti_api()->ActivityRegisterCallbacks(buffer_requested,
							buffer_completed);
	return cupti_kinds_explain(result, "no activities");
}

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
	/* Once for the life of the process, before any kind is on: a second
	 * time damages the first times of the next session. */
	if (!cupti_api()->ActivityRegisterTimestampCallback ||
	    cupti_api()->ActivityRegisterTimestampCallback(timestamp))
		log_line(LOG_WARN, "CUPTI does not take our clock: its times "
			 "and those of the ranges can be apart");
	if (options.on_profiler_api)
		error = subscribe_profiler_api();
	if (error)
		return error;
	error = own_thread_start("gputrace-flush", run_flushes, NULL);
	if (error) {
		cupti_give_way();
		log_line(LOG_WARN, "not tracing: no thread could be started");
	}
	return error;
}

int cupti_start(void)
{
	bool discard, is_new;
	int error = 0;

	if (atomic_load(&is_dead))
		return -EPERM;
	pthread_mutex_lock(&control);
	/* A program's cudaProfilerStart can be seen twice, by interposition
	 * and by CUPTI's callback: the second changes nothing. */
	is_new = !atomic_load(&is_on);
	if (atomic_load(&request) == STOP) {
		atomic_store(&request, NOTHING);
		is_new = true;
	}
	if (is_new && atomic_load(&request) == NOTHING) {
		discard = options.floor && nr_windows++ % 2 == 0;
		pool_discard(discard);
		error = register_buffers();
		if (!error)
			error = cupti_kinds_enable();
		atomic_store(&is_on, !error);
		if (!error && !discard)
			window_open();
	}
	pthread_mutex_unlock(&control);
	wait_wake(&wake);
	activity_wake();        /* the writer looks which ranges are open */
	return error;
}

void cupti_stop(void)
{
	if (atomic_load(&is_dead))
		return;
	pthread_mutex_lock(&control);
	if (atomic_load(&is_on) && atomic_load(&request) == NOTHING) {
		window_close();
		cupti_kinds_disable_api();
		atomic_store(&request, STOP);
	}
	pthread_mutex_unlock(&control);
	wait_wake(&wake);
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
		if (now_ns >= deadline_ns)
			return -ETIMEDOUT;
		wait_change(&finished, 0, deadline_ns - now_ns);
	}
	return 0;
}

void cupti_forget(void)
{
	atomic_store(&is_dead, 1);
	window_close();
}
