/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_REPORT_AROUND_H
#define GPUTRACE_TOOLS_REPORT_AROUND_H

#include <stddef.h>
#include <stdint.h>

#include "tools/trace.h"

/*
 * What was around each API call: the innermost slice of a kind that was open
 * on its thread when it began.  Kernels have it from the call that launched
 * them.  Kept and found only where a report is by such a kind.
 */
enum around { AROUND_OP, AROUND_MODULE, AROUND_LINE, AROUNDS };

struct around_slices {
	struct range *slice;
	size_t nr, cap;
};

struct report_around {
	struct around_slices of[AROUNDS];
	uint32_t *name;         /* of each call; INTERN_NONE: nothing */
};

struct report;
void report_around_add(struct report *r, const struct trace_event *ev,
		       uint32_t name, int64_t start, int64_t end);
/* After selection, before groups; by a kind that needs it. */
void report_around(struct report *r);
/* The same of any slices, which it sorts: names[i] is that of the innermost
 * one around r->calls[i], INTERN_NONE where there is none. */
void report_around_find(struct report *r, const struct around_slices *of,
			uint32_t *names);
/* For order_sort(): ranges that nest. */
int report_range_order(const void *a, const void *b);
void report_around_fini(struct report_around *around);

#endif
