/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CPU_PROC_H
#define GPUTRACE_COLLECTOR_CPU_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/*
 * What the kernel tells of a process and its threads in text (proc(5)).  A
 * file may be absent, short or odd (gVisor, hidepid): each function says so by
 * false, and leaves zeros.
 * Context: our own threads; `proc` is "/proc" but in tests.
 */
struct proc_stat {
	char state;             /* R S D T t Z X I */
	uint64_t cpu_ns;        /* user and system, in ticks of 10 ms */
};

/* "1234 (a) b) S 1 ...": the name may hold anything. */
bool proc_parse_stat(const char *text, struct proc_stat *stat);

struct proc_sched {
	uint64_t run_ns, delay_ns;      /* on a CPU; waiting for one */
	uint64_t nr_runs;
};
bool proc_parse_sched(const char *text, struct proc_sched *sched);

bool proc_read_stat(const char *proc, uint32_t tid, struct proc_stat *stat);
bool proc_read_sched(const char *proc, uint32_t tid,
		     struct proc_sched *sched);

/* Resident memory of the process, in bytes; 0: not known. */
uint64_t proc_resident(const char *proc);

/* CPU time of CLOCK_PROCESS_CPUTIME_ID or CLOCK_THREAD_CPUTIME_ID; 0: not
 * known. */
uint64_t proc_cpu_ns(clockid_t id);

/* Bytes of a page. */
uint64_t proc_page_size(void);

/* Calls see(context, tid) for each thread of the process.  False: no list. */
bool proc_threads(const char *proc, void (*see)(void *context, uint32_t tid),
		  void *context);

/* A number of /proc/sys, or `otherwise`. */
uint64_t proc_number(const char *proc, const char *name, uint64_t otherwise);

/* The decimal number at *at, which moves behind it and the blanks that follow;
 * false: there is none, or it is beyond 2^64. */
bool proc_take_number(const char **at, uint64_t *number);

#endif
