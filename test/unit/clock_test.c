/* SPDX-License-Identifier: MIT */
/*
 * The clock: epoch time, never backwards on any thread, and within 50 us of
 * BOOTTIME whatever clock_adjust() does meanwhile.
 */
#include "collector/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "test/check.h"

static _Atomic int stop;
static _Atomic uint64_t backwards;

static uint64_t read_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Time on one thread never steps back. */
static void *watch(void *arg)
{
	uint64_t last = 0;

	(void)arg;
	while (!atomic_load(&stop)) {
		uint64_t now = clock_now_ns();

		if (now < last)
			atomic_fetch_add(&backwards, 1);
		last = now;
	}
	return NULL;
}

int main(void)
{
	struct timespec pause = { .tv_nsec = 20000000 };
	pthread_t threads[2];
	uint64_t offset;
	int64_t error, worst = 0;

	clock_init();
	error = (int64_t)(clock_now_ns() - read_ns(CLOCK_REALTIME));
	CHECK(error < 1000000 && error > -1000000);
	offset = clock_now_ns() - read_ns(CLOCK_BOOTTIME);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, watch, NULL);
	for (int i = 0; i < 60; i++) {
		uint64_t before = read_ns(CLOCK_BOOTTIME);
		uint64_t now = clock_now_ns() - offset;
		uint64_t after = read_ns(CLOCK_BOOTTIME);

		error = now < before ? (int64_t)(before - now) :
			now > after ? (int64_t)(now - after) : 0;
		worst = error > worst ? error : worst;
		if (i % 5 == 0)
			clock_adjust();
		nanosleep(&pause, NULL);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(atomic_load(&backwards), 0);
	fprintf(stderr, "worst error %lld ns\n", (long long)worst);
	CHECK(worst < 50000);
	return check_result();
}
