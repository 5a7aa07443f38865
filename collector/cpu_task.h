/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CPU_TASK_H
#define GPUTRACE_COLLECTOR_CPU_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/cpu_perf.h"
#include "collector/cpu_proc.h"

/*
 * One thread of the program and the state that it is in: what becomes a slice
 * when the state ends.
 *
 *	ring (exact) ----.                          .--> slices
 *	                  >--> task_enter(state) --<
 *	/proc (sampled) -'                          '--> groups of short ones
 *
 * Context: the sampler thread.
 */
enum task_state {
	TASK_UNKNOWN,           /* until the first change: no slice */
	TASK_RUNNING,
	TASK_PREEMPTED,         /* could run, and another one does */
	TASK_RUNNABLE,          /* the same, or was woken: sampled */
	TASK_OFF,               /* waits, and nobody has looked for what */
	TASK_SLEEPING,
	TASK_UNINTERRUPTIBLE,   /* for a disk, most often */
	TASK_STOPPED,
	NR_TASK_STATES
};

/* The scheduler's letter; 'R' is TASK_RUNNING. */
enum task_state task_state_of(char letter);
const char *task_state_name(enum task_state state);

/* Changes that come too fast to be shown one by one: one slice for many, with
 * the sums. */
struct task_group {
	uint64_t start_ns, end_ns;      /* end 0: empty */
	uint64_t running_ns, preempted_ns, off_ns;
	uint64_t nr_switches;
};

/* Changes that had no room in the ring. */
struct task_gap {
	uint64_t start_ns, end_ns, nr_lost;     /* end 0: none */
};

struct task {
	struct task *next, *next_in_bucket;
	uint32_t tid;
	uint32_t scan;                  /* the last list that it was in */
	bool has_ended;
	bool has_changed;               /* since its delay was read */

	enum task_state state;
	bool is_sampled;                /* the state, or its times */
	uint64_t since_ns;
	struct task_group group;

	struct cpu_ring ring;           /* closed: sampled */
	uint32_t ring_pages, ring_use;  /* bytes at the last look */
	enum task_state first_seen;     /* at the start, by /proc */
	struct task_gap gap;
	bool was_full;                  /* the ring, at the last look */
	uint64_t from_ns;               /* what is older was in another ring */
	/* On a CPU since the start, as told; the kernel's count at the start */
	uint64_t run_ns, first_run_ns;

	/* Sampled: what the kernel had counted at the last look, and what of
	 * it is still to be shown. */
	struct proc_sched seen;
	char letter;
	uint64_t seen_ns;
	int64_t owed_run_ns, owed_delay_ns;
	uint64_t delay_ns;              /* at the last counter */
};

/* The state that it was in ends here.  Slices shorter than merge_ns go into a
 * group of that length; 0: none do. */
void task_enter(struct task *task, enum task_state state, bool is_sampled,
		uint64_t t_ns, uint64_t merge_ns);

/* What the kernel's ring tells, at t_ns of clock.h. */
void task_change(struct task *task, const struct cpu_change *change,
		 uint64_t t_ns, uint64_t merge_ns);

/* Writes the gap.  The kernel's count of its time on a CPU, at now_ns, and not
 * yet told of by its ring, was in it, or in one that comes: is_full, since the
 * last change. */
void task_count(struct task *task, const struct proc_sched *sched,
		uint64_t now_ns, bool is_full);

/* What /proc tells.  The first look writes nothing. */
void task_look(struct task *task, char letter, const struct proc_sched *sched,
	       uint64_t now_ns);

/* What an exact one waits for, where nobody has looked yet. */
void task_name_off(struct task *task, char letter);

/* A state that has lasted a second or more is written up to t_ns, and goes
 * on. */
void task_cut(struct task *task, uint64_t t_ns);

/* No more of it comes: writes what is open, up to end_ns. */
void task_finish(struct task *task, uint64_t end_ns);

/* In sampled slices: the time between two looks. */
void task_set_interval(uint64_t ns);

#endif
