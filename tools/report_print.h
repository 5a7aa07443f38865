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
	bool is_collapsed;      /* stacks for flame graphs, nothing else */
	size_t top;             /* rows of a table; 0: all */
	const char *filter;     /* glob for names; NULL: all */
	struct report_select select;
	const char *tables;     /* "kernels,api"; NULL: all */
};

bool report_has_table(const char *name, size_t len);

/* Parts of it, 0 or -1 (out of memory). */
typedef int report_part(struct report_view *view, struct report *r);
report_part report_print_summary, report_print_devices, report_print_threads,
	report_print_memory, report_print_library_calls, report_print_nccl,
	report_print_stacks;
/* What the operators add up to. */
report_part report_print_ops;

/* Leaves the first rows of a table that is sorted, if --top says so. */
void report_table_cut(const struct report_view *view, struct table *t);
/* Prints a table and frees its cells; one without rows only where it is asked
 * for by name, or no person reads it. */
void report_table_print(struct report_view *view, struct table *t);

/* Tables of groups: what stands in their cells. */
enum cell_of {
	CELL_OF_SHARE, CELL_OF_TOTAL, CELL_OF_COUNT, CELL_OF_AVG,
	CELL_OF_MEDIAN, CELL_OF_MIN, CELL_OF_MAX, CELL_OF_STDDEV,
	CELL_OF_SELF, CELL_OF_RANGE_NS, CELL_OF_OPS, CELL_OF_INSTANCES,
	CELL_OF_AVG_OPS, CELL_OF_AVG_LEVEL, CELL_OF_AVG_CHILDREN,
	CELL_OF_DEVICE, CELL_OF_NAME, CELL_OF_SECOND, CELL_OF_PLACE,
	CELL_OF_GRID, CELL_OF_BLOCK, CELL_OF_PID, CELL_OF_TID,
};

struct report_column {
	struct column column;
	enum cell_of of;
	enum group_set set;
};
enum { REPORT_COLUMNS = 32 };   /* at most */

struct report_table {
	const char *key, *title;
	size_t groups;          /* offset in struct report */
	const struct report_column *columns;
	size_t nr_columns;
	enum group_set sort;    /* what --sort looks at */
	enum column_use use;
};
extern const struct report_table report_tables[];
extern const size_t report_nr_tables;

/* part / whole in units of CELL_SHARE, halves rounded up. */
int64_t report_share(int64_t part, int64_t whole);
/* A pid or tid of a lane as text, in memory that the report owns. */
const char *report_lane_text(struct report *r, uint64_t n);
/* A place of a group, likewise. */
const char *report_place_text(struct report *r, uint32_t place);

/* Prints a report whose second steps are done.  Returns 0 or -errno. */
int report_print(struct report_view *view, struct report *r);

#endif
