/* SPDX-License-Identifier: MIT */
/*
 * The ring: a million records of random lengths through 16 KiB, written by
 * one thread and read by another, arrive whole and in order, or are counted.
 */
#include "collector/ring.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "test/check.h"

#define NR_RECORDS 1000000u
#define RING_SIZE (16u << 10)

static struct ring *ring;
static _Atomic int producer_done;
static uint64_t nr_written, nr_refused;

static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	return *state ^= *state << 5;
}

static void *produce(void *arg)
{
	uint32_t random = 1;

	(void)arg;
	for (uint64_t i = 0; i < NR_RECORDS; i++) {
		uint32_t len = next_random(&random) % 512 / 8 * 8;
		uint32_t size = (uint32_t)sizeof(struct record) + len;
		struct record *record = ring_reserve(ring, size);

		if (!record) {
			nr_refused++;
			sched_yield();
			continue;
		}
		record->kind = RECORD_MARK;
		record->size = (uint16_t)size;
		record->len = len;
		record->t_ns = i;
		memset(record + 1, (int)(i & 0xff), len);
		ring_commit(ring);
		nr_written++;
	}
	atomic_store(&producer_done, 1);
	return NULL;
}

static int is_filled(const uint8_t *bytes, uint32_t len, uint8_t value)
{
	for (uint32_t i = 0; i < len; i++)
		if (bytes[i] != value)
			return 0;
	return 1;
}

/* Of what was read. */
static uint64_t nr_read, last, bad;

static void look_at(const struct record *record)
{
	bad += record->kind != RECORD_MARK;
	bad += nr_read && record->t_ns <= last;
	bad += !is_filled((const uint8_t *)(record + 1), record->len,
			  (uint8_t)(record->t_ns & 0xff));
	last = record->t_ns;
	nr_read++;
}

static bool read_one(void)
{
	const struct record *record = ring_peek(ring);

	if (!record)
		return false;
	look_at(record);
	ring_release(ring);
	return true;
}

/* Into room for more than one, and for less than all. */
static bool read_many(void)
{
	static _Alignas(8) uint8_t room[6000];
	size_t len = ring_move(ring, room, sizeof room), at = 0;

	while (at < len) {
		look_at((const void *)(room + at));
		at += ((const struct record *)(const void *)(room + at))->size;
	}
	bad += at != len;
	return len;
}

static void test_two_threads(bool (*read)(void))
{
	pthread_t producer;

	nr_read = last = bad = nr_written = nr_refused = 0;
	atomic_store(&producer_done, 0);
	ring = ring_create(RING_SIZE);
	pthread_create(&producer, NULL, produce, NULL);
	for (;;) {
		int done = atomic_load(&producer_done);

		if (!read() && done)
			break;
	}
	pthread_join(producer, NULL);
	CHECK_EQ(bad, 0);
	CHECK_EQ(nr_read, nr_written);
	CHECK_EQ(nr_written + nr_refused, NR_RECORDS);
	CHECK_EQ(ring_take_drops(ring), nr_refused);
	CHECK_EQ(ring_take_drops(ring), 0);
	ring_destroy(ring);
}

static void test_full(void)
{
	uint32_t nr = 0;
	struct record *record;

	ring = ring_create(RING_SIZE);
	while ((record = ring_reserve(ring, 64))) {
		record->kind = RECORD_MARK;
		record->size = 64;
		ring_commit(ring);
		nr++;
	}
	CHECK_EQ(nr, RING_SIZE / 64);
	CHECK(ring_peek(ring));
	ring_release(ring);
	CHECK(ring_reserve(ring, 64));
	CHECK(!ring_reserve(ring, 128));
	ring_destroy(ring);
}

/* What was reserved but not committed is not seen. */
static void test_uncommitted(void)
{
	ring = ring_create(RING_SIZE);
	CHECK(ring_reserve(ring, 64));
	CHECK(!ring_peek(ring));
	ring_destroy(ring);
}

int main(void)
{
	test_two_threads(read_one);
	test_two_threads(read_many);
	test_full();
	test_uncommitted();
	return check_result();
}
