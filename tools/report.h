/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_REPORT_H
#define GPUTRACE_TOOLS_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/intern.h"
#include "tools/stats.h"
#include "tools/trace.h"
#include "tools/vec.h"

/*
 * What `gputrace report` knows of one or several trace files, collected in one
 * pass over their events: groups of equal names with all their durations, and
 * for each GPU operation, API call and range the few numbers that the second
 * step needs (busy.c, ranges.c).  No event is kept as such.
 *
 * Times are ns from the base of the first file.  Any order of events, zero
 * durations, overlaps and missing arguments are fine; an event whose time is
 * no number or out of any reason is counted in nr_bad_times and left out.
 */

struct group {                  /* of one name */
	uint32_t name;
	struct stats_set time, bytes;
	int64_t self_ns;        /* ranges: while innermost */
	int64_t range_ns;       /* projections: of the ranges themselves */
	int64_t gpu_ops;        /* projections: operations inside */
};

struct groups {
	struct group *group;
	size_t nr, cap;
	uint32_t *by_name;      /* name -> index + 1 */
	size_t nr_names;
};

enum work_class { WORK_COMPUTE, WORK_COMM, WORK_COPY, WORK_CLASSES };

struct work {                   /* one GPU operation */
	int64_t start, end;
	uint64_t correlation;   /* 0: none */
	uint32_t device;        /* index in report.device */
	uint8_t class;          /* enum work_class */
	uint16_t file;
};

struct call {                   /* one API call */
	uint64_t correlation;   /* 0: none */
	int64_t start, end;
	uint32_t lane;
	uint16_t file;
};

struct range {                  /* one NVTX range on a CPU lane */
	int64_t start, end;
	uint32_t name, lane;
};

struct device {
	int64_t id;
	uint16_t file;
	uint64_t process;       /* as lane.pid */
	int64_t busy_ns, class_ns[WORK_CLASSES];
	int64_t overlap_ns;     /* at least two classes at once */
	int64_t comm_hidden_ns; /* communication while computing */
	int64_t mask_ns[1 << WORK_CLASSES];     /* by the set of classes */
};

struct lane {                   /* a thread, as (process, tid) of a file */
	uint64_t pid, tid;      /* REPORT_TEXT | name for strings */
	uint32_t name;          /* INTERN_NONE: unknown */
	uint64_t nr_calls, nr_ranges;
	int64_t calls_ns;       /* in calls: their union */
};
#define REPORT_TEXT (1ull << 63)

struct loss {
	uint32_t cause;
	int64_t n;
};

struct report {
	struct intern names;
	struct groups kernels, api, copies, graphs, ranges, projected,
		      gpu_ranges;
	struct work *work;
	struct call *calls;
	struct range *range;
	struct device *device;
	struct lane *lane;
	struct loss *loss;
	size_t nr_work, cap_work, nr_calls, cap_calls, nr_ranges, cap_ranges,
	       nr_devices, cap_devices, nr_lanes, cap_lanes, nr_losses,
	       cap_losses;
	struct pairs devices, processes, lanes;
	uint16_t file;          /* of the events being added */
	bool has_base;
	int64_t base_ns, shift_ns;
	int64_t first_ns, last_ns;
	int64_t own_ns;         /* CPU time of the tracer, as it says */
	int64_t overhead_ns;    /* slices of the tracer's work, and CUPTI's */
	uint64_t nr_events, nr_bad_times;
	bool no_memory;         /* something is missing: results are void */
};

void report_init(struct report *r);
void report_fini(struct report *r);

/* Reads a file to its end.  Returns 0, or -errno with the problem. */
int report_add_file(struct report *r, const char *path,
		    struct trace_problem *problem);

/* The group of a name, made if it is new; NULL when memory ends. */
struct group *report_group(struct report *r, struct groups *groups,
			   uint32_t name);

/* Adds to a sum, which stays at INT64_MAX instead of wrapping. */
static inline void report_sum(int64_t *sum, int64_t n)
{
	if (__builtin_add_overflow(*sum, n, sum))
		*sum = INT64_MAX;
}

/* Second step, once, after the last file.  busy: the time in which a device
 * worked, as the union over its streams, in all and by class, and the time of
 * each thread in calls.  ranges: self times, and the projection of each range
 * on the GPU. */
void report_busy(struct report *r);
void report_ranges(struct report *r);

#endif
