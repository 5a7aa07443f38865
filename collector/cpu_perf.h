/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CPU_PERF_H
#define GPUTRACE_COLLECTOR_CPU_PERF_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The context switches of one thread, as the kernel writes them into a ring
 * that we map (perf_event_open(2), attr.context_switch):
 *
 *	cpu_ring_open  ->  cpu_ring_next ...  cpu_ring_give_back  ->  _close
 *
 * No descriptor stays open: the mapping alone keeps the event.  It is not
 * there in the child of a fork.  Times are CLOCK_BOOTTIME's.
 * Context: one of our own threads.
 */
struct cpu_ring {
	void *page;             /* NULL: closed */
	uint32_t size;          /* of the records behind that page */
	uint64_t tail, head;    /* what is being read */
};

/* Pages that a ring takes beside those of its records. */
#define CPU_RING_EXTRA 1

/* nr_pages of records, a power of two.  0 or -errno: -EACCES and -EPERM where
 * it is refused, no more memory may be locked, or there is a filter of system
 * calls, which may end the process for this one. */
int cpu_ring_open(struct cpu_ring *ring, uint32_t tid, uint32_t nr_pages);
void cpu_ring_close(struct cpu_ring *ring);

enum cpu_change_kind {
	CHANGE_IN,              /* is on a CPU */
	CHANGE_OUT,             /* gave it up: waits for something */
	CHANGE_PREEMPTED,       /* lost it, and could go on */
	CHANGE_STARTED,         /* made thread `number` */
	CHANGE_ENDED,
	CHANGE_LOST,            /* `number` changes had no room */
};

struct cpu_change {
	enum cpu_change_kind kind;
	uint64_t boottime_ns;
	uint64_t number;
};

/* Bytes that are there to be read; 16 a switch. */
uint32_t cpu_ring_look(struct cpu_ring *ring);

/* The next change of those that cpu_ring_look() saw; false: no more. */
bool cpu_ring_next(struct cpu_ring *ring, struct cpu_change *change);

/* The kernel may write over what was read. */
void cpu_ring_give_back(struct cpu_ring *ring);

/* Of one kernel record, 8-byte aligned; false: of no interest, or not whole.
 * (Apart, so that tests feed it what they like.) */
bool cpu_change_parse(const void *record, uint32_t size,
		      struct cpu_change *change);

#endif
