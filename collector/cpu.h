/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CPU_H
#define GPUTRACE_COLLECTOR_CPU_H

#include "collector/source.h"

/*
 * GPUTRACE_TRACE=cpu: the state of each thread of the program (cpu_tasks.h) as
 * slices of ROW_STATE, and the load of the process and its container
 * (cpu_load.h) as counters, by one thread of ours.
 */
extern const struct source cpu_source;

#endif
