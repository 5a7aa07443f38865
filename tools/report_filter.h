/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_REPORT_FILTER_H
#define GPUTRACE_TOOLS_REPORT_FILTER_H

#include <stdbool.h>
#include <stdint.h>

/* Part of report.h: what of it is wanted. */

enum report_by { BY_ALL, BY_PROCESS, BY_DEVICE, BY_STREAM, BY_RANGE, BY_OP,
	BY_MODULE, BY_LINE, NR_BY };

/* What is wanted; zeroed memory is everything. */
struct report_select {
	enum report_by by;
	bool has_from, has_to, has_device, has_stream;
	int64_t from_ns, to_ns; /* a window, from the first start of all */
	int64_t device, stream;
	const char *range;      /* glob of names of NVTX ranges */
};

/* Takes one --filter: "time=10ms..2s", "range=GLOB", "device=0", "stream=7",
 * "name=GLOB", or just a GLOB, which goes to *name.  Strings are the
 * caller's.  Returns false if the value cannot be. */
bool report_filter(const char *text, struct report_select *select,
		   const char **name);

#endif
