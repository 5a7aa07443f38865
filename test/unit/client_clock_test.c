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
	uint64_t after = clock_now_ns(), ns = client_clock_to_ns(1, theirs);

	CHECK(ns + NEAR_NS > before && ns < after + NEAR_NS);
}

static void test_before_and_after_the_change(void)
{
	uint64_t now = clock_now_ns();

	CHECK_EQ(client_clock_number(), 0);
	client_clock_set(ticks);
	CHECK(client_clock_number() == 1 && client_clock_is(ticks));
	/* Activities from before the change; and no time. */
	CHECK(client_clock_to_ns(0, now) == now);
	CHECK(client_clock_to_ns(1, 0) == 0);
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
	CHECK(client_clock_to_ns(1, early) + NEAR_NS > early_ns);
	CHECK(client_clock_to_ns(1, early) < early_ns + NEAR_NS);
}

static void test_too_often(void)
{
	int i;

	for (i = 0; i < 10000; i++)
		client_clock_sample();
	check_now();
}

static uint64_t shifted(void)
{
	return clock_now_ns() + 37000000000;
}

/* What was fetched by the clock before is converted by that one. */
static void test_another_clock(void)
{
	uint64_t ns = clock_now_ns(), old = ticks(), new, got;

	client_clock_sample();
	client_clock_set(shifted);
	CHECK(client_clock_number() == 2 && !client_clock_is(ticks));
	usleep(30000);
	client_clock_sample();
	new = shifted();
	got = client_clock_to_ns(1, old);
	CHECK(got + NEAR_NS > ns && got < ns + NEAR_NS);
	got = client_clock_to_ns(2, new);
	CHECK(got < clock_now_ns() && got + 1000000000 > clock_now_ns());
}

int main(void)
{
	clock_init();
	test_before_and_after_the_change();
	test_between_and_beyond_the_pairs();
	test_too_often();
	test_another_clock();
	return check_result();
}
