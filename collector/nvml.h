/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_NVML_H
#define GPUTRACE_COLLECTOR_NVML_H

#include "collector/source.h"

/*
 * GPUTRACE_TRACE=nvml: load, power, clocks, temperature and memory of each GPU
 * that the process sees, as counters, ten times a second; and why its clocks
 * are low, as slices.  By one thread of ours; the program's never wait for
 * NVML.
 */
extern const struct source nvml_source;

#endif
