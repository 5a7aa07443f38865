/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_WATCH_H
#define GPUTRACE_COLLECTOR_WATCH_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The watchdog for what CUPTI does in long runs: times that are not there,
 * buffers that never return, kernels of which nothing is heard.
 *
 *   writer         --watch_tell(counts)-->  \
 *   flush thread   --watch_forced()------->  > watch_look() -> one line,
 *   pool           --buffers lost--------->  /   a mark in the file, a stop
 *
 * What only warns: a few kernels without times, a few buffers gone, launches
 * without kernels (these are not told while a graph is captured, so it could
 * be wrong, and calls and ranges are still right).  What stops: most kernels
 * without times (the GPU's share of the trace is lost, and CUPTI takes more
 * of its memory all the time), most buffers gone (no room for records).
 *
 * And what nothing stops but the end of the process: CUPTI 13.0 to 13.3 keep 32
 * bytes for each launch of a kernel outside a graph from the moment on in which
 * a CUDA graph is made while CUPTI is there, with whatever kinds on or off
 * (seen on an H200 with 13.0.85, 13.1.115, 13.2.23, 13.2.86 and 13.3.35, and
 * neither with 12.9.79 nor 13.4.92: test/gpu/RESULTS.md).
 */
enum watch_fault {
	WATCH_FINE,
	WATCH_FEW_TIMES,
	WATCH_TIMES,            /* stops */
	WATCH_FEW_BUFFERS,
	WATCH_BUFFERS,          /* stops */
	WATCH_NO_KERNELS,
	WATCH_SILENT,           /* not even the devices, after a start */
	WATCH_MEMORY,
	NR_WATCH_FAULTS,
};

/* What has come since attach; they only grow. */
struct watch_counts {
	uint64_t activities;    /* of any kind */
	uint64_t kernels;       /* their activities, whatever is in them */
	uint64_t work;          /* kernels, copies, sets, graphs */
	uint64_t no_time;       /* kernels that no forced flush cut */
	uint64_t reversed;      /* kernels that end before they start */
	uint64_t launches;      /* calls that launched a kernel */
	uint64_t graphs;        /* calls that launched a graph */
	uint64_t captures;      /* calls that begin or end a capture */
	uint64_t instances;     /* calls that make a graph to be launched */
	uint64_t plain;         /* kernels outside graphs since the first */
};

/* One look: the counts and what the flush thread knows. */
struct watch_sample {
	uint64_t now_ns;
	struct watch_counts counts;
	uint32_t epoch;         /* window_epoch() */
	uint32_t cupti_version; /* 130001 */
	uint64_t forced;        /* forced flushes so far */
	uint32_t buffers, lost; /* of the pool */
};

/* What it keeps between two looks; zeroed at first. */
struct watch {
	struct watch_counts times_since;        /* share of bad times */
	struct watch_counts silent_since;       /* launches without kernels */
	struct watch_counts window_since;
	uint64_t silent_ns, window_ns, forced;
	uint32_t silent_looks, window_looks, epoch, lost;
};

/* The decision: counts in, verdict out.  `n of m` is what it stands on.
 * Context: any; nothing but *watch is used. */
struct watch_verdict {
	enum watch_fault fault;
	uint64_t n, m;
};
struct watch_verdict watch_decide(struct watch *watch,
				  const struct watch_sample *sample);

/* True for those after which nothing more is recorded. */
bool watch_stops(enum watch_fault fault);

/* "kernels without times"; as it stands in the file. */
const char *watch_name(enum watch_fault fault);

/* ---- The one of this process ---- */

/* The writer's counts.  Context: writer thread. */
void watch_tell(const struct watch_counts *counts);

/* A forced flush began at start_ns and is through.  Context: flush thread. */
void watch_forced(uint64_t start_ns);

/* After each flush: looks, says a new fault once, marks lost buffers.  True:
 * the kinds must go off.  Context: flush thread. */
bool watch_look(uint32_t cupti_version);

/* The output that windows share is full or broken: one that goes into it
 * closes at the next look, and no other opens.  Context: writer thread. */
void watch_end(void);

/* May a window begin?  Tells what kind it is, if so.
 * Context: any thread, one at a time. */
bool watch_begin(bool has_own_file);

/* When that fault was first seen; 0: never.  Context: any thread. */
uint64_t watch_seen_ns(enum watch_fault fault);

#endif
