/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_REPORT_PRINT_H
#define GPUTRACE_TOOLS_REPORT_PRINT_H

#include "tools/report.h"
#include "tools/table.h"

/* How a report is shown.  The numbers of the summary, and the whole that a
 * share is of, do not depend on it. */
enum sort_by {
	SORT_TIME, SORT_COUNT, SORT_AVG, SORT_MEDIAN, SORT_MIN, SORT_MAX,
	SORT_STDDEV, SORT_NAME, NR_SORTS,
};

struct report_view {
	struct table_out out;
	enum sort_by sort;
	size_t top;             /* rows of a table; 0: all */
	const char *filter;     /* glob for names; NULL: all */
	const char *tables;     /* "kernels,api"; NULL: all */
};

bool report_has_table(const char *name, size_t len);

/* Prints a report whose second steps are done.  Returns 0 or -errno. */
int report_print(struct report_view *view, struct report *r);

#endif
