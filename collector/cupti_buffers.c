/* SPDX-License-Identifier: MIT */
#include "collector/cupti_buffers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "collector/client.h"
#include "collector/client_clock.h"
#include "collector/clock.h"
#include "collector/cupti_api.h"
#include "collector/cupti_kinds.h"
#include "collector/log.h"
#include "collector/loss.h"
#include "collector/pool.h"
#include "collector/thread.h"

#define CUPTI_12_3 21u
#define CUPTI_13_0 130000u

#define SLOW_MS 500

static pthread_mutex_t flush_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t are_clients, are_routed;
static bool clock_is_refused, ids_are_refused;

static void CUPTIAPI buffer_requested(uint8_t **buffer, size_t *size,
				      size_t *max_records)
{
	/* A thread that launches gets a state at its first buffer, so that its
	 * name is known when it has ended. */
	bool is_first = !thread_current;

	if (atomic_load_explicit(&are_clients, memory_order_acquire) &&
	    client_request(buffer, size, max_records))
		return;
	(void)thread_self();
	*size = 0;
	*buffer = pool_take(is_first, size);
	*max_records = 0;
}

static void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream,
				      uint8_t *buffer, size_t size,
				      size_t valid)
{
	if (pool_owns(buffer))
		pool_complete(buffer, valid);
	else
		client_complete(context, stream, buffer, size, valid);
}

static uint64_t CUPTIAPI timestamp(void)
{
	return clock_now_ns();
}

void cupti_buffers_set_clock(void)
{
	if (client_clock_number())
		return;
	clock_is_refused = !cupti_api()->ActivityRegisterTimestampCallback ||
		cupti_api()->ActivityRegisterTimestampCallback(timestamp);
}

/* ---- Attributes ---- */

static void set(CUpti_ActivityAttribute attribute, uint8_t value)
{
	size_t size = sizeof value;

	/* Not fatal: an old version lacks it. */
	(void)cupti_api()->ActivitySetAttribute(attribute, &size, &value);
}

static void set_per_thread(uint8_t value)
{
	if (cupti_api_version() >= CUPTI_12_3)
		set(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, value);
}

static bool set_thread_ids(CUpti_ActivityThreadIdType type)
{
	return cupti_api()->SetThreadIdType &&
		!cupti_api()->SetThreadIdType(type);
}

/* What goes on, but not as well; once, and not where nothing goes on. */
static void tell_refusals(void)
{
	static bool is_said;

	if (is_said)
		return;
	is_said = true;
	if (ids_are_refused)
		log_line(LOG_WARN, "CUPTI does not tell the system's thread "
			 "ids: calls are on lanes of their own, apart from the "
			 "ranges of their threads");
	if (clock_is_refused)
		log_line(LOG_WARN, "CUPTI does not take our clock: its times "
			 "and those of the ranges can be apart");
}

/* The default was 0 in 12.4 and is 1 in 13.0 (test/sim/facts.txt). */
bool cupti_buffers_stay(CUpti_ActivityAttribute attribute)
{
	return attribute == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER &&
		atomic_load(&are_routed) && cupti_api_version() >= CUPTI_13_0;
}

int cupti_buffers_claim(void)
{
	CUptiResult result;

	atomic_store(&are_clients, 0);
	/* Our buffers are zeroed when they are free: no memset in the
	 * program's thread. */
	set(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, 1);
	/* With shared buffers a busy program's come back only when full. */
	set_per_thread(1);
	ids_are_refused = !set_thread_ids(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
	/* Each time: a client that we did not see (it found CUPTI by dlsym)
	 * has put its own in their place. */
	result = cupti_api()->ActivityRegisterCallbacks(buffer_requested,
							buffer_completed);
	atomic_store(&are_routed, result == CUPTI_SUCCESS);
	if (result == CUPTI_SUCCESS)
		tell_refusals();
	return cupti_kinds_explain(result, "no activities");
}

void cupti_buffers_put_back(void)
{
	if (!atomic_load(&are_routed))
		return;
	set(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, client_attribute(
		CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, 0));
	if (!cupti_buffers_stay(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER))
		set_per_thread(client_attribute(
			CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, 0));
	(void)set_thread_ids(CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT);
}

void cupti_buffers_release(void)
{
	if (!atomic_load(&are_routed))
		return;
	cupti_buffers_put_back();
	if (cupti_api()->ActivityEnableAllSyncRecords)
		cupti_api()->ActivityEnableAllSyncRecords(1);
	atomic_store(&are_clients, 1);
}

void cupti_buffers_forget(void)
{
	atomic_store(&are_routed, 0);
}

void cupti_buffers_in_child(void)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	/* A thread that is not here may hold it. */
	flush_lock = fresh;
	atomic_store(&are_routed, 0);
}

bool cupti_buffers_are_routed(void)
{
	return atomic_load(&are_routed);
}

/* ---- Flushes ---- */

static void count_drops(void)
{
	size_t dropped = 0;

	if (cupti_api()->ActivityGetNumDroppedRecords(NULL, 0, &dropped) ==
	    CUPTI_SUCCESS && dropped)
		loss_add(LOSS_CUPTI_DROPPED, dropped);
}

void cupti_buffers_lock_flush(void)
{
	pthread_mutex_lock(&flush_lock);
}

void cupti_buffers_unlock_flush(void)
{
	pthread_mutex_unlock(&flush_lock);
}

/* Behind a busy program's captures one took 20 s (test/gpu/RESULTS.md). */
static void tell_if_slow(unsigned int flag, uint64_t begin_ns)
{
	uint64_t took_ms = (clock_now_ns() - begin_ns) / 1000000;

	if (took_ms >= SLOW_MS)
		log_line(LOG_INFO, "CUPTI took %llu ms for a %s flush",
			 (unsigned long long)took_ms,
			 flag ? "forced" : "plain");
}

void cupti_buffers_flush(unsigned int flag)
{
	uint64_t begin_ns = clock_now_ns();

	cupti_buffers_lock_flush();
	cupti_api()->ActivityFlushAll(flag);
	cupti_buffers_unlock_flush();
	tell_if_slow(flag, begin_ns);
	count_drops();
}
