// SPDX-License-Identifier: MIT
/* CUPTI's clock: the client's callback, or CLOCK_REALTIME. */
#include "test/sim/cupti_sim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define DRIFT_NS 200		/* the rate was not quite right */
#define JUMP_NS 20000		/* the clock was set */
#define QUICK_NS 1000		/* a reading that nothing came between */
#define RATE_NS 1000000		/* a first idea of the clock's rate */

/*
 * The client's clock against CLOCK_MONOTONIC, as a line.  It need not count
 * nanoseconds: PyTorch's counts the CPU's clock.
 */
struct line {
	uint64_t monotonic, client;
	double rate;
	bool is_sure;
};

static _Atomic(CUpti_TimestampCallbackFunc) client_clock;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct line first, now_line;

static uint64_t read_realtime(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t sim_cupti_now(void)
{
	CUpti_TimestampCallbackFunc f = atomic_load(&client_clock);

	return f ? f() : read_realtime();
}

/* Both clocks at one moment. */
static struct line read_both(void)
{
	struct line l = { .rate = 1 };
	uint64_t before, after;

	for (int i = 0; i < 10; i++) {
		before = sim_now();
		l.client = sim_cupti_now();
		after = sim_now();
		l.monotonic = before / 2 + after / 2;
		l.is_sure = after - before < QUICK_NS;
		if (l.is_sure)
			break;
	}
	return l;
}

static uint64_t on_line(const struct line *l, uint64_t monotonic)
{
	return l->client + (uint64_t)(int64_t)
		((double)(int64_t)(monotonic - l->monotonic) * l->rate);
}

static double rate_between(const struct line *a, const struct line *b)
{
	return (double)(int64_t)(b->client - a->client) /
		(double)(int64_t)(b->monotonic - a->monotonic);
}

static void start_line(void)
{
	struct line second;

	first = read_both();
	while (sim_now() < first.monotonic + RATE_NS)
		;
	second = read_both();
	first.rate = rate_between(&first, &second);
	/* A clock of nanoseconds: to the nanosecond, then. */
	if (first.rate > 0.99 && first.rate < 1.01)
		first.rate = 1;
	now_line = first;
}

/* With the lock held.  A small difference is the rate's; a step is a step. */
static void follow_clock(void)
{
	struct line found = read_both();
	int64_t off = (int64_t)(found.client -
				on_line(&now_line, found.monotonic));
	double off_ns = (double)(off < 0 ? -off : off) / first.rate;

	if (off_ns < (found.is_sure && first.rate != 1 ? DRIFT_NS : JUMP_NS))
		return;
	found.rate = first.rate;
	if (off_ns < JUMP_NS)
		found.rate = rate_between(&first, &found);
	else
		first = found;
	now_line = found;
}

void sim_cupti_clock_check(void)
{
	pthread_mutex_lock(&lock);
	if (first.monotonic)
		follow_clock();
	else
		start_line();
	pthread_mutex_unlock(&lock);
}

uint64_t sim_cupti_time(uint64_t monotonic)
{
	uint64_t time;

	pthread_mutex_lock(&lock);
	time = on_line(&now_line, monotonic);
	pthread_mutex_unlock(&lock);
	return time;
}

SIM_EXPORT CUptiResult CUPTIAPI cuptiGetTimestamp(uint64_t *out)
{
	if (!out)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*out = sim_cupti_now();
	return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult CUPTIAPI
cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc f)
{
	CUptiResult r = sim_refusal(__func__);

	if (r)
		return r;
	if (!f)
		return CUPTI_ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&lock);
	atomic_store(&client_clock, f);
	start_line();
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}
