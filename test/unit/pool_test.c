/* SPDX-License-Identifier: MIT */
/*
 * The buffer pool: every buffer is given once, comes back zeroed, in the order
 * of completion; when all are out, spare ones take over and what they held is
 * counted; foreign memory is refused.
 */
#include "collector/pool.h"

#include <pthread.h>
#include <string.h>

#include "collector/clock.h"
#include "collector/loss.h"
#include "test/check.h"

#define POOL_BYTES (8u << 20)

static size_t size;

enum { MANY = 8192 };

static uint8_t *taken[MANY];

static int is_zero(const uint8_t *data, size_t len)
{
	return data[0] == 0 && !memcmp(data, data + 1, len - 1);
}

static void test_round(void)
{
	struct activity_buffer *list;
	uint8_t *a = pool_take(0, &size), *b = pool_take(0, &size);

	CHECK(a && b && a != b && (uintptr_t)a % 8 == 0);
	CHECK_EQ(size, POOL_BUFFER_SIZE);
	CHECK_EQ(pool_outstanding(), 2);
	memset(a, 1, POOL_BUFFER_SIZE);
	memset(b, 2, 100);
	pool_complete(b, 100);
	pool_complete(a, POOL_BUFFER_SIZE);
	CHECK_EQ(pool_outstanding(), 0);
	list = activity_take();
	CHECK(list && list->data == b && list->valid == 100);
	CHECK(list->next && list->next->data == a && !list->next->next);
	CHECK(!activity_take());
	activity_recycle(list->next);
	activity_recycle(list);
	CHECK(is_zero(a, POOL_BUFFER_SIZE) && is_zero(b, POOL_BUFFER_SIZE));
}

static void test_empty_and_foreign(void)
{
	static uint8_t foreign[64];
	uint8_t *a = pool_take(0, &size);

	pool_complete(a, 0);
	CHECK(!activity_take());
	pool_complete(foreign, 64);
	pool_complete(NULL, 0);
	CHECK(!activity_take());
}

static void test_small(void)
{
	uint8_t *a = pool_take(1, &size);

	CHECK_EQ(size, POOL_SMALL_SIZE);
	memset(a, 1, POOL_SMALL_SIZE);
	pool_complete(a, POOL_SMALL_SIZE);
	activity_recycle(activity_take());
	CHECK(is_zero(a, POOL_SMALL_SIZE));
}

static void test_discard(void)
{
	uint8_t *a = pool_take(0, &size);

	pool_discard(1);
	memset(a, 1, 64);
	pool_complete(a, 64);
	CHECK(!activity_take());
	CHECK(is_zero(a, POOL_BUFFER_SIZE));
	pool_discard(0);
}

/* More than all: the last ones are refused, and nothing is given twice. */
static void test_exhaustion(void)
{
	size_t nr = 0;

	while (nr < MANY && (taken[nr] = pool_take(0, &size)))
		nr++;
	CHECK(nr > 4096 && nr < MANY);
	for (size_t i = 0; i < nr; i++)
		for (size_t k = i + 1; k < nr; k++)
			CHECK(taken[i] != taken[k]);
	for (size_t i = 0; i < nr; i++)
		pool_complete(taken[i], 0);
	CHECK_EQ(pool_outstanding(), 0);
}

static void *exchange(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20000; i++) {
		size_t got;
		uint8_t *data = pool_take(i & 1, &got);

		if (!data)
			continue;
		if (!is_zero(data, 64))
			check_failures++;
		memset(data, 1, 64);
		pool_complete(data, 64);
		for (struct activity_buffer *b = activity_take(), *next; b;
		     b = next) {
			next = b->next;
			activity_recycle(b);
		}
	}
	return NULL;
}

static void test_threads(void)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, exchange, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(pool_outstanding(), 0);
}

/* One that stays away is counted once, and no more when it comes after all. */
static void test_give_up(void)
{
	uint64_t lost = loss_get(LOSS_BUFFERS_LOST), before_ns;
	uint8_t *old = pool_take(0, &size), *young;
	struct activity_buffer *list;

	before_ns = clock_now_ns();
	while (clock_now_ns() == before_ns)
		;
	before_ns = clock_now_ns();
	young = pool_take(0, &size);
	pool_give_up(before_ns);
	pool_give_up(before_ns);
	CHECK_EQ(pool_lost(), 1);
	CHECK_EQ(pool_outstanding(), 1);
	CHECK_EQ(loss_get(LOSS_BUFFERS_LOST), lost + 1);
	CHECK(pool_oldest_ns() >= before_ns && pool_oldest_ns() != UINT64_MAX);
	old[0] = 1;
	pool_complete(old, 8);
	pool_complete(young, 0);
	CHECK_EQ(pool_lost(), 0);
	CHECK_EQ(pool_outstanding(), 0);
	CHECK_EQ(loss_get(LOSS_BUFFERS_LOST), lost);
	list = activity_take();
	CHECK(list && list->data == old && !list->next);
	activity_recycle(list);
}

static bool comes_forced(void)
{
	struct activity_buffer *list;
	bool is_forced;

	pool_complete(pool_take(0, &size), 8);
	list = activity_take();
	is_forced = list->is_forced;
	activity_recycle(list);
	return is_forced;
}

static void test_forced(void)
{
	CHECK(!comes_forced());
	pool_forcing(true);
	CHECK(comes_forced());
	pool_forcing(false);
	CHECK(comes_forced());          /* on their way, for a second */
}

int main(void)
{
	CHECK_EQ(pool_init(POOL_BYTES), 0);
	test_round();
	test_empty_and_foreign();
	test_small();
	test_discard();
	test_give_up();
	test_forced();
	test_exhaustion();
	test_threads();
	return check_result();
}
