/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TEST_HOST_NARROW_H
#define GPUTRACE_TEST_HOST_NARROW_H

#include <stdbool.h>

/*
 * A seccomp filter like a container's default one, reduced to what a CUDA
 * program itself calls: everything else gets EPERM, or kills the process.
 * Returns 0, or -1 where the kernel has none.  Context: before CUDA starts.
 */
int narrow_seccomp(bool kills);

/* One for all threads of the process, which kills it for what a profiler calls
 * and a program does not: timers of threads, perf events.  Context: any. */
int narrow_profilers(void);

#endif
