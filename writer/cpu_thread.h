/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_CPU_THREAD_H
#define GPUTRACE_WRITER_CPU_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/record.h"
#include "writer/track.h"

/*
 * The program's threads as the file shows them, by their system thread id:
 * lane, name, what they did.  A thread that ends stays (its slices do), unless
 * it stood on another's lane (track.h).
 * Context: writer thread.
 */
#define THREAD_NAME_MAX 64

/* The program's longer names, of all threads; then they are cut, and counted
 * so: 4 MiB, 1,000 of the longest. */
#define THREAD_NAMES_BYTES (4u << 20)

/* A driver call that waits to see whether a runtime call encloses it. */
struct held_call {
	uint64_t start_ns, end_ns;
	uint32_t cbid, correlation;
	int32_t result;
	uint32_t cycle;         /* of the write-out in which it came */
};

/* Deeper nesting of driver calls than that is not held but written. */
#define HELD_MAX 8

/* Calls whose slices a new one is checked against. */
#define RECENT_MAX 8

struct cpu_thread {
	struct cpu_thread *next_in_bucket;
	struct cpu_thread *next;        /* of all */
	uint32_t tid;
	struct lane *lane;              /* its own */
	const char *name;               /* one of the next two */
	char short_name[THREAD_NAME_MAX];
	char *long_name;
	uint32_t name_len;
	bool is_named;                  /* by the program: stays */
	bool is_gone;                   /* no longer in /proc */
	bool has_ended;                 /* by its own word */
	uint32_t end_age;               /* batches since */

	struct gap recent[RECENT_MAX];  /* calls on `lane`, a ring */
	uint32_t nr_recent;
	struct gap latest;              /* on `lane`: what ends last */
	struct held_call *held;         /* HELD_MAX, made at the first */
	uint32_t nr_held;
	uint64_t last_call_ns;          /* start of the latest call seen */

	/* range.c: the ranges that began on this thread */
	struct range_log *log;
};

struct cpu_threads {
	size_t long_bytes;              /* in long names */
	struct cpu_thread *list;
	struct cpu_thread **buckets;
	struct cpu_thread *last;
	uint32_t nr, max;
};

/* 65536 threads at 500 bytes: 32 MB; what a tid beyond does is lost. */
#define CPU_THREADS_MAX 65536

/* memory: of all tables of the writer, bytes. */
int cpu_threads_init(struct cpu_threads *threads, uint64_t memory);
void cpu_threads_fini(struct cpu_threads *threads);

/* The thread, made at its first event.  NULL without memory. */
struct cpu_thread *cpu_thread_get(struct cpu_threads *threads,
				  struct tracks *tracks, uint32_t tid);

/* The thread if it is known. */
struct cpu_thread *cpu_thread_find(struct cpu_threads *threads, uint32_t tid);

/* The program's name for it wins over the system's. */
void cpu_thread_name(struct cpu_threads *threads, struct cpu_thread *thread,
		     const char *name, uint32_t len);

/* It says that it begins, or ends; the name is what the system knows it by.
 * (The system uses thread ids again: `tid` may be known from before.) */
void cpu_thread_begin(struct cpu_threads *threads, struct tracks *tracks,
		      uint32_t tid, const struct name_record *record);
void cpu_thread_end(struct tracks *tracks, struct cpu_thread *thread,
		    const char *name, uint32_t len, uint64_t t_ns);

/* Forgets threads that ended, are settled and have no lane in their name. */
void cpu_threads_sweep(struct cpu_threads *threads);

/* Something stands on its lane.  Of two that end together the shorter one is
 * the one that more would cross. */
static inline void cpu_thread_stands(struct cpu_thread *thread,
				     uint64_t start_ns, uint64_t end_ns)
{
	struct gap *latest = &thread->latest;

	if (end_ns > latest->end_ns ||
	    (end_ns == latest->end_ns && start_ns > latest->start_ns)) {
		latest->start_ns = start_ns;
		latest->end_ns = end_ns;
	}
}

/* Reads the names of those still alive from /proc/self/task. */
void cpu_threads_refresh(struct cpu_threads *threads);

#endif
