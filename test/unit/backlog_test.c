/* SPDX-License-Identifier: MIT */
/*
 * What was read of the rings: all of it, in the order of each ring, while one
 * thread writes and the reader reads beside us; not more than the bound.
 */
#include "writer/backlog.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "collector/loss.h"
#include "collector/thread.h"
#include "collector/window.h"
#include "test/check.h"

enum { SIZE = 1024, NR_WRITTEN = 100000 };

static _Atomic int is_done;

static bool put(uint64_t number)
{
	struct record *record = ring_reserve(thread_ring(thread_self()), SIZE);

	if (!record)
		return false;
	*record = (struct record){ .kind = RECORD_MARK, .size = SIZE,
				   .t_ns = number };
	ring_commit(thread_ring(thread_self()));
	return true;
}

/* Marks in what is there now; -1: not the ones that come after `before`. */
static long take(struct backlog *backlog, uint64_t before)
{
	const struct backlog_run *run;
	long nr = 0, bad = 0;

	while ((run = backlog_next(backlog))) {
		const struct record *record = NULL;

		while ((record = backlog_record(run, record)))
			if (record->kind == RECORD_MARK)
				bad += record->t_ns != before + (uint64_t)++nr;
	}
	return bad ? -1 : nr;
}

/* A ring of 128 KiB, into 512 KiB. */
static void test_bound(void)
{
	struct backlog *backlog = backlog_create(0);
	uint64_t number = 0, nr_kept;

	CHECK(backlog_read(backlog));   /* the thread's BEGIN */
	CHECK_EQ(take(backlog, 0), 0);
	while (backlog_read(backlog))
		for (int i = 0; i < 50; i++)
			CHECK(put(++number));
	CHECK(number * SIZE > 400 << 10);
	while (put(number + 1))
		number++;
	nr_kept = number;
	CHECK(!put(0) && !backlog_read(backlog));
	CHECK_EQ(loss_get(LOSS_RING_FULL), 2);
	number = (uint64_t)take(backlog, 0);
	CHECK(number > 400);
	CHECK(backlog_read(backlog));
	CHECK_EQ(take(backlog, number), (long)(nr_kept - number));
	backlog_destroy(backlog);
}

static void *produce(void *argument)
{
	for (uint64_t i = 1; i <= NR_WRITTEN;)
		if (put(i))
			i++;
		else
			usleep(100);
	atomic_store(&is_done, 1);
	return argument;
}

/* Nobody but the reader looks for longer than the ring holds. */
static void test_reader(void)
{
	struct backlog *backlog = backlog_create(NR_WRITTEN * (SIZE + 64ull));
	pthread_t producer;
	long nr;

	window_open();
	CHECK_EQ(backlog_start(backlog), 0);
	backlog_wake(backlog);
	pthread_create(&producer, NULL, produce, NULL);
	pthread_join(producer, NULL);
	CHECK(backlog_read(backlog));
	nr = take(backlog, 0);
	CHECK_EQ(nr, NR_WRITTEN);
	CHECK_EQ(take(backlog, 0), 0);
	backlog_destroy(backlog);
	window_close();
}

/* Taken by turns. */
static void test_both(void)
{
	struct backlog *backlog = backlog_create(1 << 20);
	pthread_t producer;
	uint64_t all = 0;
	int done;

	window_open();
	CHECK_EQ(backlog_start(backlog), 0);
	atomic_store(&is_done, 0);
	pthread_create(&producer, NULL, produce, NULL);
	do {
		long nr;

		done = atomic_load(&is_done);
		backlog_wake(backlog);
		(void)backlog_read(backlog);
		nr = take(backlog, all);
		CHECK(nr >= 0);
		all += (uint64_t)nr;
	} while (!done);
	pthread_join(producer, NULL);
	CHECK_EQ(all, NR_WRITTEN);
	backlog_destroy(backlog);
	window_close();
}

int main(void)
{
	test_bound();
	test_reader();
	test_both();
	return check_result();
}
