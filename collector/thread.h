/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_THREAD_H
#define GPUTRACE_COLLECTOR_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "collector/open_ranges.h"
#include "collector/ring.h"
#include "collector/torch_chain.h"

/*
 * What we keep for each thread of the program that produced a record: its
 * ring, its open ranges and the modules around its operators, behind one
 * thread-local pointer.
 *
 * When the thread ends, the next new one takes its state over at once, ring
 * and all: a RECORD_THREAD_BEGIN says whose records follow.  So the memory is
 * that of the threads alive at one time, however many come and go.
 */
struct thread {
	struct thread *next;            /* never changes once linked */
	_Atomic uint32_t state;
	_Atomic uint32_t tid;           /* of its present, or last, owner */
	uint32_t reader_tid;            /* the writer's: whose records follow */
	uint32_t nr_ends;               /* rounds of its thread's destructors */
	uint32_t last_stack;            /* cupti_calls.c: of which call */
	struct ring *_Atomic ring;      /* of its thread */
	uint32_t ring_size;
	struct ring *read_ring;         /* of its reader: thread_read_ring() */
	struct range_stack ranges;
	struct torch_chain modules;
};

/* The calling thread's, or NULL before its first record.  The one
 * thread-local of the library: a pointer, so that late loading finds room.
 * (Visible here because the hot path is inlined: 3 of 34 ns.) */
extern __thread struct thread *thread_current
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Makes the calling thread's state; NULL without memory: then the caller
 * drops its record.  Context: any thread of the program, not signal-safe. */
struct thread *thread_create(void);

/* What states need, made early: true if none will take memory from the
 * allocator (so many thread-specific keys the C library has room for in each
 * thread).  Context: constructor or attach. */
bool thread_prepare(void);

/* The calling thread's state, made at its first record.  Context: any thread
 * of the program; signal-safe but for the first time. */
static inline struct thread *thread_self(void)
{
	struct thread *thread = thread_current;

	return __builtin_expect(thread != NULL, 1) ? thread : thread_create();
}

/* A record of the calling thread's is dropped: counts it, as "no thread state"
 * where that is not there yet or no more, else as "ring full".
 * Context: any thread, signal-safe. */
void thread_count_drop(const struct thread *thread);

static inline struct ring *thread_ring(const struct thread *thread)
{
	return atomic_load_explicit(&thread->ring, memory_order_relaxed);
}

static inline struct range_stack *thread_ranges(struct thread *thread)
{
	return &thread->ranges;
}

/*
 * The calling thread's state, for it alone until thread_leave(): whoever
 * writes into the ring, or changes the open ranges, does so between the two.
 * NULL: drop the record, which is counted: there is no state, or a signal
 * handler has interrupted the thread in there.  Context: as thread_self().
 */
static inline struct thread *thread_enter(void)
{
	struct thread *thread = thread_self();

	if (!thread)
		return NULL;    /* thread_create() has counted it */
	if (__builtin_expect(open_ranges_enter(&thread->ranges), 1))
		return thread;
	thread_count_drop(thread);
	return NULL;
}

static inline void thread_leave(struct thread *thread)
{
	open_ranges_leave(&thread->ranges);
}

static inline uint32_t thread_tid(const struct thread *thread)
{
	return atomic_load_explicit(&thread->tid, memory_order_relaxed);
}

/* All states, in no order: thread_next(NULL) is the first.
 * Context: our own threads. */
struct thread *thread_next(struct thread *thread);

/* The ring in which its oldest records are: that of the thread, or one that it
 * had before thread_grow(), which goes when it is empty.
 * Context: the consumer. */
struct ring *thread_read_ring(struct thread *thread);

/* In the child of a fork: no state belongs to it.  Context: atfork child. */
void thread_forget_all(void);

/* Bounds what all states together may hold.  Context: attach, once. */
void thread_limit(uint64_t bytes);
/* Operators will be recorded, many: larger rings.  Context: any thread. */
void thread_widen(void);
/* A larger ring for a thread that had its own before that, if there is room.
 * What is in the old one is read first.  Context: the thread, entered, at its
 * first record in a window; errno is kept. */
void thread_grow(struct thread *thread);

#endif
