/* SPDX-License-Identifier: MIT */
/* Times of another client's clock, in ours. */
#include <time.h>
#include <unistd.h>

#include "collector/client_clock.h"
#include "collector/clock.h"
#include "test/check.h"

/* Two readings are some 100 ns apart on a quiet machine; a busy one may come
 * between them. */
#define NEAR_NS 50000

static uint64_t ticks(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return ((uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec) * 5 / 2;
}

static void check_now(void)
{
	uint64_t before = clock_now_ns(), theirs = ticks();
	uint64_t after = clock_now_ns(), ns = client_clock_to_ns(theirs);

	CHECK(ns + NEAR_NS > before && ns < after + NEAR_NS);
}

static void test_before_and_after_the_change(void)
{
	uint64_t now = clock_now_ns();

	CHECK(!client_clock_is_set());
	CHECK(client_clock_to_ns(12345) == 12345);
	client_clock_set(ticks);
	CHECK(client_clock_is_set() && client_clock_is(ticks));
	/* Activities from before the change; and no time. */
	CHECK(client_clock_to_ns(now) == now);
	CHECK(client_clock_to_ns(0) == 0);
}

static void test_between_and_beyond_the_pairs(void)
{
	uint64_t early_ns = clock_now_ns(), early = ticks();
	int i;

	usleep(50000);
	client_clock_sample();
	check_now();
	for (i = 0; i < 20; i++) {
		usleep(2000);
		client_clock_sample();
		check_now();
	}
	/* In the first stretch. */
	CHECK(client_clock_to_ns(early) + NEAR_NS > early_ns);
	CHECK(client_clock_to_ns(early) < early_ns + NEAR_NS);
}

static void test_too_often(void)
{
	int i;

	for (i = 0; i < 10000; i++)
		client_clock_sample();
	check_now();
}

int main(void)
{
	clock_init();
	test_before_and_after_the_change();
	test_between_and_beyond_the_pairs();
	test_too_often();
	return check_result();
}
