/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_TRACE_RULES_H
#define GPUTRACE_TOOLS_TRACE_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/trace.h"

/*
 * What report, diagnose, diff and merge hold a trace to, all of them the same.
 *
 * Times stay far from the ends of 64 bits, so that no sum or difference wraps.
 * A ts may be absolute (1.8e18 ns since 1970 is below 2^61); a duration or the
 * distance of two bases is at most 2^60 ns, 36 years.
 */
#define TRACE_TS_MAX INT64_C(0x2000000000000000)
#define TRACE_SPAN_MAX INT64_C(0x1000000000000000)

/* Start and duration of a slice; false if they cannot be used. */
bool trace_slice_times(const struct trace_event *ev, int64_t *ts,
		       int64_t *dur);

/* The baseTimeNanoseconds of the first file that has one. */
struct trace_base {
	bool is_known;
	int64_t ns;
};

/* What is added to a file's times to count from that base: files of one run
 * may have different ones.  0 where it cannot be told.  `t` is at its first
 * event, or behind. */
int64_t trace_shift(struct trace_base *base, const struct trace *t);

/* At the end of a whole document: 0, or -EBADMSG with the problem, as it holds
 * no traceEvents. */
int trace_need_events(const struct trace *t, struct trace_problem *problem);

#endif
