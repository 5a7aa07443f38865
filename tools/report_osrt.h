/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_REPORT_OSRT_H
#define GPUTRACE_TOOLS_REPORT_OSRT_H

#include <stddef.h>
#include <stdint.h>

#include "tools/trace.h"

/* Part of report.h: calls of the C library that blocked (the source osrt). */
struct report;
struct range;

struct report_osrt {
	struct range *call;     /* lane: the thread's own, not the row's */
	size_t nr, cap;
};

void report_osrt_add(struct report *r, const struct trace_event *ev,
		     uint32_t name, int64_t start, int64_t end);

#endif
