/* SPDX-License-Identifier: MIT */
#include "collector/thread.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collector/activity_buffer.h"
#include "collector/cancel.h"
#include "collector/clock.h"
#include "collector/loss.h"
#include "collector/nvtx_marks.h"

/*
 * 128 KiB: about 850 ranges with names of 20 bytes between two looks of the
 * reader (10 ms), so 85,000 a second on one thread.
 */
#define RING_SIZE (128u << 10)

/* When a quarter of the bound is used: of the default, 64 MiB, 100 threads
 * have large rings and 1,060 more have these. */
#define SMALL_RING_SIZE (16u << 10)

/*
 * Of the first threads, up to that quarter, where operators are recorded: an
 * eager PyTorch loop has 200,000 and more a second, of some 300 bytes.  Then
 * come the others, up to half of the bound.  Only what is used is touched.
 */
#define WIDE_RING_SIZE (2u << 20)

/* TASK_COMM_LEN of the kernel. */
#define COMM_SIZE 16

/* PTHREAD_KEY_2NDLEVEL_SIZE of glibc. */
enum { KEYS_WITH_ROOM = 32 };

enum thread_state { THREAD_LIVE, THREAD_ENDED };

static struct thread *_Atomic all_threads;
static _Atomic uint64_t held_bytes;
static _Atomic uint64_t held_limit = 64u << 20;
static atomic_bool is_wide;
static pthread_key_t end_key;
static pthread_once_t end_key_once = PTHREAD_ONCE_INIT;
static int end_key_error;

__thread struct thread *thread_current
	__attribute__((tls_model("initial-exec")));

/* In the place of a state that is being made, or is gone: entered already, so
 * that every call is dropped, and counted. */
static struct thread *no_state(void)
{
	static struct thread none;

	atomic_store_explicit(&none.ranges.turn, 1, memory_order_relaxed);
	return &none;
}

/* BEGIN and END of a thread's records.  False: no room in the ring. */
static bool put_mark(struct thread *thread, uint16_t kind)
{
	char comm[COMM_SIZE] = "";
	struct name_record *record = ring_reserve(thread->ring,
		sizeof *record + COMM_SIZE);

	if (!record)
		return false;
	prctl(PR_GET_NAME, comm);
	*record = (struct name_record){
		.head = { .kind = kind, .size = sizeof *record + COMM_SIZE,
			  .len = (uint32_t)strnlen(comm, COMM_SIZE),
			  .t_ns = clock_now_ns() },
		.handle = thread_tid(thread), .what = NAMED_THREAD,
	};
	memcpy(record->text, comm, COMM_SIZE);
	ring_commit(thread->ring);
	return true;
}

static void end_thread(void *state)
{
	struct thread *thread = state;

	/* The program's destructors may use NVTX, in each of the system's
	 * rounds: ours waits for the last but one (in the last, allocators
	 * and sanitizers end).  What comes behind it is dropped, or every
	 * such thread would leave a state that nobody ends. */
	if (++thread->nr_ends < PTHREAD_DESTRUCTOR_ITERATIONS - 1 &&
	    !pthread_setspecific(end_key, thread))
		return;
	if (nvtx_marks_wanted())
		nvtx_marks_leave();
	/* Where it does not fit the next BEGIN says it. */
	(void)put_mark(thread, RECORD_THREAD_END);
	thread_current = no_state();
	/* Pairs with the acquire exchange in take_over(). */
	atomic_store_explicit(&thread->state, THREAD_ENDED,
			      memory_order_release);
}

static void create_key(void)
{
	end_key_error = pthread_key_create(&end_key, end_thread);
}

static void forget_ranges(struct range_stack *ranges)
{
	(void)open_ranges_enter(ranges);
	ranges->nr = ranges->used = 0;
	ranges->not_kept = 0;
	ranges->nr_passing = 0;
	atomic_store_explicit(&ranges->epoch, 0, memory_order_relaxed);
	open_ranges_leave(ranges);
}

/* The state is ours: say so in its ring. */
static bool own(struct thread *thread)
{
	atomic_store_explicit(&thread->tid, (uint32_t)syscall(SYS_gettid),
			      memory_order_relaxed);
	thread->nr_ends = 0;
	forget_ranges(&thread->ranges);
	thread->modules.epoch = 0;
	return put_mark(thread, RECORD_THREAD_BEGIN);
}

/* An ended thread's state, unless its ring is still half full: many threads
 * that live a moment each must not crowd into one. */
static struct thread *take_over(void)
{
	bool is_crowded = false;
	struct thread *thread = atomic_load_explicit(&all_threads,
						     memory_order_acquire);

	for (; thread; thread = thread->next) {
		uint32_t state = THREAD_ENDED;

		if (!atomic_compare_exchange_strong_explicit(&thread->state,
				&state, THREAD_LIVE, memory_order_acquire,
				memory_order_relaxed))
			continue;
		if (ring_room(thread->ring) >= thread->ring_size / 2 &&
		    own(thread))
			return thread;
		atomic_store_explicit(&thread->state, THREAD_ENDED,
				      memory_order_release);
		is_crowded = true;
	}
	if (is_crowded)
		activity_wake();        /* the writer may be asleep */
	return NULL;
}

static uint32_t size_for(bool wide, uint64_t held, uint64_t limit)
{
	if (held < limit / 4)
		return wide ? WIDE_RING_SIZE : RING_SIZE;
	return wide && held < limit / 2 ? RING_SIZE : SMALL_RING_SIZE;
}

/* What comes with a wide ring: the pages that a thread's modules were found in
 * (4 KiB for each of 1,100 threads would leave some without a state). */
enum { PAGES_SIZE = PEEK_MORE * sizeof(uintptr_t) };

/*
 * Room for a ring and for what comes with it: the ring's size within the
 * bound, or 0 where that would be less than `least`.  Chosen and taken in one
 * step: of many threads that begin at once, each would else find the bound
 * unused, and large rings leave no room for the last of them.
 */
static uint32_t take_room(bool wide, uint32_t beside, uint32_t least)
{
	uint64_t held = atomic_load(&held_bytes), limit = held_limit, bytes;
	uint32_t size;

	do {
		size = size_for(wide, held, limit);
		bytes = beside + size;
		if (held + bytes > limit || size < least)
			return 0;
	} while (!atomic_compare_exchange_weak(&held_bytes, &held,
					       held + bytes));
	return size;
}

static struct thread *map_new(void)
{
	bool wide = atomic_load_explicit(&is_wide, memory_order_relaxed);
	uint32_t beside = (uint32_t)sizeof(struct thread) + wide * PAGES_SIZE;
	uint32_t size = take_room(wide, beside, SMALL_RING_SIZE);
	struct thread *thread;

	if (!size)
		return NULL;
	thread = mmap(NULL, beside, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (thread == MAP_FAILED)
		goto no_room;
	thread->read_ring = ring_create(size);
	thread->ring_size = size;
	if (!thread->read_ring) {
		munmap(thread, beside);
		goto no_room;
	}
	thread->ring = thread->read_ring;
	if (wide)
		thread->modules.pages = (void *)(thread + 1);
	atomic_store(&thread->state, THREAD_LIVE);
	(void)own(thread);
	thread->next = atomic_load(&all_threads);
	while (!atomic_compare_exchange_weak(&all_threads, &thread->next,
					     thread))
		;
	return thread;
no_room:
	atomic_fetch_sub(&held_bytes, beside + size);
	return NULL;
}

static void take_pages(struct thread *thread)
{
	void *pages = mmap(NULL, PAGES_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		atomic_fetch_sub(&held_bytes, PAGES_SIZE);
	else
		thread->modules.pages = pages;
}

/* There is at most one old ring: one that is wide does not grow. */
void thread_grow(struct thread *thread)
{
	int saved = errno;
	struct ring *ring;
	uint32_t size;

	if (!atomic_load_explicit(&is_wide, memory_order_relaxed) ||
	    thread->ring_size == WIDE_RING_SIZE)
		return;
	size = take_room(true, PAGES_SIZE, WIDE_RING_SIZE);
	ring = size ? ring_create(size) : NULL;
	if (ring) {
		take_pages(thread);
		thread->ring_size = size;
		/* Pairs with the load in thread_read_ring(): all that is in
		 * the old one is there. */
		atomic_store_explicit(&thread->ring, ring,
				      memory_order_release);
	} else if (size) {
		atomic_fetch_sub(&held_bytes, size + PAGES_SIZE);
	}
	errno = saved;
}

struct ring *thread_read_ring(struct thread *thread)
{
	struct ring *old = thread->read_ring, *ring;

	/* Pairs with the store in thread_grow(). */
	ring = atomic_load_explicit(&thread->ring, memory_order_acquire);
	if (old == ring || ring_peek(old))
		return old;
	loss_add(LOSS_RING_FULL, ring_take_drops(old));
	atomic_fetch_sub(&held_bytes, ring_size(old));
	ring_destroy(old);
	thread->read_ring = ring;
	return ring;
}

static struct thread *start(void)
{
	struct thread *thread;

	pthread_once(&end_key_once, create_key);
	if (end_key_error)
		return NULL;
	thread = take_over();
	if (!thread)
		thread = map_new();
	if (thread)
		pthread_setspecific(end_key, thread);
	return thread;
}

bool thread_prepare(void)
{
	pthread_once(&end_key_once, create_key);
	return !end_key_error && end_key < KEYS_WITH_ROOM;
}

struct thread *thread_create(void)
{
	int saved = errno, cancel = cancel_hold();

	/* A signal handler that uses NVTX meanwhile finds this one. */
	thread_current = no_state();
	thread_current = start();
	if (!thread_current)
		loss_add(LOSS_NO_THREAD_STATE, 1);
	cancel_release(cancel);
	errno = saved;
	return thread_current;
}

void thread_count_drop(const struct thread *thread)
{
	loss_add(thread->ring ? LOSS_RING_FULL : LOSS_NO_THREAD_STATE, 1);
}

struct thread *thread_next(struct thread *thread)
{
	return thread ? thread->next :
		atomic_load_explicit(&all_threads, memory_order_acquire);
}

void thread_forget_all(void)
{
	/* The parent's states stay mapped: freeing them in the child could
	 * meet a lock that another thread held at the fork. */
	atomic_store(&all_threads, NULL);
	atomic_store(&held_bytes, 0);
	thread_current = NULL;
}

void thread_widen(void)
{
	atomic_store(&is_wide, true);
}

void thread_limit(uint64_t bytes)
{
	atomic_store(&held_limit, bytes);
}
