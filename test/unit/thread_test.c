/* SPDX-License-Identifier: MIT */
/*
 * Thread states: as many as there are threads alive at once; the next thread
 * takes an ended one's over, and the ring says whose records follow.
 */
#include "collector/thread.h"

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collector/loss.h"
#include "test/check.h"

static uint32_t tid_seen;

static void *run(void *arg)
{
	struct thread **state = arg;

	*state = thread_self();
	tid_seen = (uint32_t)syscall(SYS_gettid);
	if (*state)
		CHECK(*state == thread_self());
	return NULL;
}

static struct thread *run_one(void)
{
	struct thread *state = NULL;
	pthread_t thread;

	pthread_create(&thread, NULL, run, &state);
	pthread_join(thread, NULL);
	return state;
}

static uint32_t count(void)
{
	uint32_t nr = 0;

	for (struct thread *t = thread_next(NULL); t; t = thread_next(t))
		nr++;
	return nr;
}

static void expect(struct thread *state, uint16_t kind, uint32_t tid)
{
	const struct name_record *record =
		(const void *)ring_peek(thread_ring(state));

	CHECK(record != NULL);
	if (!record)
		return;
	CHECK_EQ(record->head.kind, kind);
	CHECK_EQ(record->handle, tid);
	CHECK_EQ(record->head.len, strlen("thread_test"));
	CHECK(!memcmp(record->text, "thread_test", record->head.len));
	ring_release(thread_ring(state));
}

static void test_take_over(void)
{
	struct thread *first = run_one();
	uint32_t tid = tid_seen;

	CHECK(first != NULL);
	CHECK_EQ(thread_tid(first), tid);
	CHECK(run_one() == first);      /* at once, not drained yet */
	CHECK_EQ(count(), 1);
	CHECK_EQ(thread_tid(first), tid_seen);
	expect(first, RECORD_THREAD_BEGIN, tid);
	expect(first, RECORD_THREAD_END, tid);
	expect(first, RECORD_THREAD_BEGIN, tid_seen);
	expect(first, RECORD_THREAD_END, tid_seen);
	CHECK(!ring_peek(thread_ring(first)));
}

/* A ring that is full cannot say whose records follow: it is left alone. */
static void test_full_ring(void)
{
	struct thread *first = run_one(), *second;
	struct ring *ring = thread_ring(first);
	struct record *record;

	while ((record = ring_reserve(ring, 16))) {
		record->kind = RECORD_MARK;
		record->size = 16;
		ring_commit(ring);
	}
	second = run_one();
	CHECK(second && second != first);
	while (ring_peek(ring))
		ring_release(ring);
}

static void test_many(void)
{
	for (int i = 0; i < 1000; i++) {
		struct thread *state = run_one();

		CHECK(state != NULL);
		while (state && ring_peek(thread_ring(state)))
			ring_release(thread_ring(state));
	}
	CHECK_EQ(count(), 2);
}

static void *keep_until(void *arg)
{
	(void)thread_self();
	pthread_barrier_wait(arg);
	pthread_barrier_wait(arg);
	return NULL;
}

static void test_limit(void)
{
	uint64_t before = loss_get(LOSS_NO_THREAD_STATE);
	pthread_barrier_t barrier;
	pthread_t held[2];

	/* Both states in use, and no memory for a third. */
	thread_limit(1);
	pthread_barrier_init(&barrier, NULL, 3);
	for (int i = 0; i < 2; i++)
		pthread_create(&held[i], NULL, keep_until, &barrier);
	pthread_barrier_wait(&barrier);
	CHECK(!run_one());
	CHECK_EQ(loss_get(LOSS_NO_THREAD_STATE), before + 1);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 2; i++)
		pthread_join(held[i], NULL);
	CHECK(run_one() != NULL);       /* an ended one is still given */
}

static void put(struct thread *state, uint64_t number)
{
	struct record *record = ring_reserve(thread_ring(state), 16);

	CHECK(record != NULL);
	if (!record)
		return;
	record->kind = RECORD_MARK;
	record->size = 16;
	record->t_ns = number;
	ring_commit(thread_ring(state));
}

static uint64_t read_one(struct thread *state)
{
	const struct record *record = ring_peek(thread_read_ring(state));
	uint64_t number = record ? record->t_ns : 0;

	if (record)
		ring_release(thread_read_ring(state));
	return number;
}

/* What is in the small ring is read first; then that is gone. */
static void test_grow(void)
{
	struct thread *state = thread_self();
	struct ring *small = thread_ring(state);
	uint32_t size = ring_size(small);

	while (ring_peek(small))
		ring_release(small);
	thread_grow(state);
	CHECK(thread_ring(state) == small);     /* nobody asked for it */
	put(state, 1);
	thread_widen();
	thread_limit(size * 2);
	thread_grow(state);
	CHECK(thread_ring(state) == small);     /* no room */
	CHECK(!state->modules.pages);
	thread_limit(64 << 20);
	thread_grow(state);
	CHECK(thread_ring(state) != small);
	CHECK(ring_size(thread_ring(state)) > size);
	CHECK(state->modules.pages != NULL);
	put(state, 2);
	CHECK_EQ(read_one(state), 1);
	CHECK_EQ(read_one(state), 2);
	CHECK(thread_read_ring(state) == thread_ring(state));
	CHECK_EQ(read_one(state), 0);
	small = thread_ring(state);
	thread_grow(state);
	CHECK(thread_ring(state) == small);     /* as large as they get */
}

int main(void)
{
	test_take_over();
	test_full_ring();
	test_many();
	test_limit();
	test_grow();
	return check_result();
}
