/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CPU_TASKS_H
#define GPUTRACE_COLLECTOR_CPU_TASKS_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/cpu_task.h"

/*
 * All threads of the program during one window, but for our own.
 *
 * Where the kernel gives context switches each thread has a ring, as long as
 * there is locked memory for one; the others are sampled.  A ring starts small,
 * most threads wait nearly always, and grows fourfold where it was half full:
 *
 *	used   0 ...... 1/4 ............... 3/4 ............ all
 *	pages       2            1            for those that grow
 *
 * A page holds 256 switches, so that a thread may have 25,600 a second for
 * each page if the ring is read every 10 ms.
 * Context: the sampler thread.
 */
#define TASKS_MAX 8192

struct cpu_tasks {
	const char *proc;               /* "/proc" but in tests */
	struct task *list, **buckets;
	uint32_t nr, nr_sampled;
	uint32_t scan;                  /* lists read so far */
	bool is_partial;                /* the last list: look again soon */
	uint32_t pages, pages_max;      /* of rings */
	int perf_error;                 /* why threads have no ring */
	struct task *next_named;        /* cpu_tasks_name_off() */
	uint64_t offset_ns;             /* clock.h's time minus BOOTTIME */
	uint64_t drained_ns;            /* the rings, the last time */
	uint64_t limit_ns;              /* later changes are not told */
};

/* may_perf: perf_event_open(2) may be called.  0 or -ENOMEM. */
int cpu_tasks_init(struct cpu_tasks *tasks, const char *proc, bool may_perf);
void cpu_tasks_fini(struct cpu_tasks *tasks);

/* Finds threads that are new, and those that are gone, in /proc.  False: the
 * list could not be read. */
bool cpu_tasks_scan(struct cpu_tasks *tasks, uint64_t now_ns);

/* Reads all rings, of which it looks at each; starts on new threads. */
void cpu_tasks_drain(struct cpu_tasks *tasks);

/* Looks at the threads without a ring. */
void cpu_tasks_look(struct cpu_tasks *tasks);

/* Looks what threads with a ring wait for, at most `nr` of them. */
void cpu_tasks_name_off(struct cpu_tasks *tasks, uint32_t nr);

/* How long all threads together waited for a CPU since the last call. */
uint64_t cpu_tasks_delay(struct cpu_tasks *tasks);

/* Writes what has been open for long, up to t_ns, before which all rings were
 * read: what is written is in the file even if the program is killed. */
void cpu_tasks_cut(struct cpu_tasks *tasks, uint64_t t_ns);

/* The window is over: writes what is open. */
void cpu_tasks_finish(struct cpu_tasks *tasks, uint64_t end_ns);

#endif
