/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_DIFF_H
#define GPUTRACE_TOOLS_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/diff_test.h"
#include "tools/intern.h"
#include "tools/model.h"
#include "tools/steps.h"
#include "tools/table.h"

/*
 * What changed from trace A to trace B.
 *
 *      diff_side_read()        a side: model, steps, facts of its document
 *      diff_compare()          metrics of a step, rows of names, with verdicts
 *      diff_print()
 *
 * A value is that of one step where both sides have DIFF_MIN_VALUES steps
 * (by_step): GPU operations belong to the step that launched them, calls and
 * ranges to the step in which they begin.  Else, for names, that of one
 * operation; metrics are then over what steps there are, or the whole file as
 * one step.  Memory: the models', and 24 bytes an event of the largest table;
 * time grows with events and steps, not with their product.
 */
enum diff_sides { DIFF_A, DIFF_B, DIFF_SIDES };

struct diff_fact {              /* of a document: "driver", "13000" */
	uint32_t key, value;    /* in diff.names */
};

struct diff_side {
	const char *path;
	struct model m;
	struct steps steps;     /* without any: one, the whole file */
	bool has_steps;
	struct diff_fact *fact;
	size_t nr_facts, cap_facts;
};

enum diff_state { DIFF_SAME, DIFF_SLOWER, DIFF_FASTER, DIFF_ADDED,
	DIFF_REMOVED, DIFF_UNTESTED };

/* Two typical values and what is to be thought of them. */
struct diff_change {
	int64_t typical[DIFF_SIDES];
	int64_t part;           /* (B - A) / A in millionths */
	int64_t low_part;       /* the same of the fast ends */
	double p;               /* corrected; 1: not tested */
	bool significant;
};

enum diff_metric_id { DIFF_STEP, DIFF_BUSY, DIFF_IDLE, DIFF_METRICS };

struct diff_metric {
	int64_t *value[DIFF_SIDES];     /* of each step */
	struct diff_change change;
};

struct diff_row {               /* one name */
	uint32_t name;
	enum diff_state state;
	uint64_t count[DIFF_SIDES];     /* in the whole file */
	int64_t total[DIFF_SIDES];
	struct diff_change change;
};

enum diff_table_id { DIFF_KERNELS, DIFF_COPIES, DIFF_API, DIFF_NVTX, DIFF_OPS,
	DIFF_OSRT, DIFF_TABLES };

struct diff_table {
	struct diff_row *row;   /* the most time lost or won first */
	size_t nr, cap;
};

struct diff {
	struct diff_side side[DIFF_SIDES];
	const char *step;       /* --step, or NULL */
	int64_t min_change;     /* millionths */
	bool by_step;
	struct intern names;    /* of both sides */
	struct diff_metric metric[DIFF_METRICS];
	struct diff_table table[DIFF_TABLES];
	size_t nr_significant;
	bool no_memory;
};

struct diff_view {
	struct table_out out;
	size_t top;             /* rows of a table; 0: all */
	bool all;               /* rows without a significant change, too */
};

/* Reads a file.  Returns 0, or -errno with the problem; -ENOENT: there is no
 * range of the name that is asked for. */
int diff_side_read(struct diff *d, enum diff_sides side, const char *path,
		   struct trace_problem *problem);

/* Returns 0 or -ENOMEM. */
int diff_compare(struct diff *d);

/* Did the median of a metric grow by more than `limit` (millionths), and is
 * that sure?  Where there are too few steps for a test, the least of B has to
 * be that much above the largest of A. */
bool diff_is_over(const struct diff *d, enum diff_metric_id id, int64_t limit);

/* Returns 0 or -errno. */
int diff_print(const struct diff *d, struct diff_view *view);

void diff_fini(struct diff *d);

/* ---- Between the parts of it ---- */

/* The facts of a document, from the text of all its keys. */
void diff_facts_read(struct diff *d, struct diff_side *s, const char *text,
		     size_t len);
/* The value of a fact, or NULL. */
const char *diff_fact(const struct diff *d, enum diff_sides side,
		      uint32_t key);

/* Fills metric[].value; then the rows of each table, without verdict. */
void diff_metrics(struct diff *d);
void diff_names(struct diff *d, enum diff_table_id id);

int64_t diff_part(int64_t a, int64_t b);

/* Fills a change, but for its verdict.  by_mean: only the means of blocks are
 * there and count, for values that are mostly 0 or of several kinds. */
struct diff_values {
	const int64_t *value;
	size_t nr;
	struct diff_blocks means;
};
void diff_judge(struct diff_change *c, const struct diff_values *a,
		const struct diff_values *b, bool by_mean);

#endif
