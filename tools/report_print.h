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

/* Parts of it, 0 or -1 (out of memory).  wall: the whole time, ns. */
int report_print_summary(struct report_view *view, struct report *r,
			 int64_t wall);
int report_print_devices(struct report_view *view, struct report *r,
			 int64_t wall);

/* part / whole in units of CELL_SHARE, halves rounded up. */
int64_t report_share(int64_t part, int64_t whole);
/* A pid or tid of a lane as text, in memory that the report owns. */
const char *report_lane_text(struct report *r, uint64_t n);

/* Prints a report whose second steps are done.  Returns 0 or -errno. */
int report_print(struct report_view *view, struct report *r);

#endif
