/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_ATTACH_H
#define GPUTRACE_INJECT_ATTACH_H

#include <stdbool.h>

/*
 * The one attach that all ways in lead to, and the child of a fork (the end
 * of the process: ending.h).
 *
 *   OFF --attach()--> BEGUN --> ON --fork, child--> DEAD
 *
 * On any error it is said once, and stays BEGUN: nothing is recorded.
 */
enum attach_way { ATTACH_IN_CUINIT, ATTACH_LATE };

/* Reads the settings, starts writer and collector, opens the first window if
 * GPUTRACE_START=now.  Only the first call of a process does anything.
 * Context: inside cuInit, or our own thread in a late load. */
void attach(enum attach_way way);

/* Prepares for NVTX records, which may come before or without CUDA.  False:
 * NVTX is not wanted (GPUTRACE_TRACE).  Context: any thread. */
bool attach_nvtx(void);

/* The program called cudaProfilerStart (true) or Stop: opens or closes a
 * window if GPUTRACE_START=profiler-api.  Context: any thread. */
void attach_profiler_api(bool start);

/* Where the driver did not call us because another tool has its variable,
 * there is no trace: says so, once, in a process that uses CUDA.  Called by
 * whatever else of the program reaches us.  Context: any thread. */
void attach_explain_absence(void);

/* True if this process has called cuInit.  Context: any thread; a lock-free
 * call of the driver, where it is loaded. */
bool attach_cuda_is_in_use(void);

#endif
