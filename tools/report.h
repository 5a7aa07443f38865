/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_REPORT_H
#define GPUTRACE_TOOLS_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/intern.h"
#include "tools/report_around.h"
#include "tools/report_filter.h"
#include "tools/report_library.h"
#include "tools/report_memory.h"
#include "tools/report_ops.h"
#include "tools/report_osrt.h"
#include "tools/report_stacks.h"
#include "tools/stats.h"
#include "tools/trace_rules.h"
#include "tools/vec.h"

/*
 * What `gputrace report` knows of one or several trace files.  Reading them
 * keeps few numbers of each GPU operation, API call and range; report_finish()
 * drops what is not wanted and makes groups of what is left, with all their
 * durations:
 *
 *      report_init(&r);
 *      for each path
 *              report_add_file(&r, path, &problem);    0, or -errno
 *      report_finish(&r, &select);     once, after the last file
 *      report_fini(&r);
 *
 * Times are ns from the base of the first file.  Any order of events, zero
 * durations, overlaps and missing arguments are fine; an event whose time is
 * no number or out of any reason is counted in nr_bad_times and left out.
 */

/* What a group is of: numbers in report.names, report.shape and so on, each
 * INTERN_NONE where the table does not tell them apart. */
struct group_key {
	uint32_t name;
	uint32_t second;        /* name of a shape, a range or a call */
	uint32_t lane;
	uint32_t place;         /* a process, a name ...: by report.by */
};

enum group_set { SET_TIME, SET_BYTES, SET_API = SET_BYTES, SET_QUEUE,
	SET_GPU = SET_QUEUE, SET_KERNEL, GROUP_SETS };

struct group {
	struct group_key key;
	size_t nr;              /* items */
	struct stats stats[GROUP_SETS];
	struct stats_set values;        /* of SET_TIME, until they are closed */
	int64_t self_ns;        /* ranges: while innermost */
	int64_t range_ns;       /* projections: of the ranges themselves */
	int64_t gpu_ops;        /* projections: operations inside, */
	int64_t levels;         /* ranges around each, ranges directly in it: */
	int64_t children;       /* sums over the projections */
	size_t instances;       /* range_kernels: ranges with that kernel */
	size_t last;            /* ... the last one, plus 1 */
};

struct groups {
	struct group *group;
	size_t nr, cap;
	struct pairs by_key;
};

enum work_class { WORK_COMPUTE, WORK_COMM, WORK_COPY, WORK_CLASSES };

struct work {                   /* one GPU operation */
	int64_t start, end;
	uint64_t correlation;   /* 0: none; linked: number of its call + 1 */
	uint32_t name;
	uint32_t stream;        /* index in report.stream */
	uint32_t detail;        /* kernels: name of grid and block, as
				 * "64 1 1|128 1 1"; copies: in bytes[] */
	uint8_t class;          /* enum work_class */
	int8_t cat;             /* enum trace_cat */
};

struct call {                   /* one API call */
	uint64_t correlation;   /* 0: none */
	int64_t start, end;
	uint32_t name, lane, line;      /* line: INTERN_NONE: unknown */
	bool out;               /* not selected */
};

struct range {                  /* one NVTX range on a CPU lane */
	int64_t start, end;
	uint32_t name, lane;
};

struct gpu_range {              /* one that the tracer projected */
	int64_t start, end, gpu_ops;
	uint32_t name, stream;
};

struct stream {
	int64_t id;
	uint32_t device;
};

struct device {
	int64_t id;
	uint16_t file;
	uint32_t process;       /* index in report.process */
	bool has_work, out;     /* out: not selected */
	bool has_twin;          /* its file has several of this number */
	int64_t busy_ns, class_ns[WORK_CLASSES];
	int64_t overlap_ns;     /* at least two classes at once */
	int64_t comm_hidden_ns; /* communication while computing */
	int64_t mask_ns[1 << WORK_CLASSES];     /* by the set of classes */
};

struct process {
	uint64_t pid;           /* REPORT_TEXT | name for strings */
	uint16_t file;
};

struct lane {                   /* a thread, as (process, tid) of a file */
	uint64_t tid;           /* like pid */
	uint32_t process;       /* index in report.process */
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
	struct groups kernels, shapes, api, copies, graphs, ranges, projected,
		      range_kernels, launches, graph_launches, ops, blocking;
	struct work *work;
	struct call *calls;
	struct range *range;
	struct gpu_range *gpu_range;
	int64_t *bytes;
	struct device *device;
	struct stream *stream;
	struct process *process;
	struct lane *lane;
	struct loss *loss;
	struct memory_event *memory;
	struct pool *pool;
	struct report_around around;
	struct report_library library;
	struct report_ops ops_of;
	struct report_osrt osrt;
	struct report_stacks stacks;
	size_t nr_work, cap_work, nr_calls, cap_calls, nr_ranges, cap_ranges,
	       nr_gpu_ranges, cap_gpu_ranges, nr_bytes, cap_bytes, nr_devices,
	       cap_devices, nr_streams, cap_streams, nr_processes,
	       cap_processes, nr_lanes, cap_lanes, nr_losses, cap_losses,
	       nr_memory, cap_memory, nr_pools, cap_pools;
	struct pairs devices, streams, processes, lanes;
	struct pairs graph_ids; /* (file, correlation) -> name of the graph */
	uint32_t style[2];      /* names: of push/pop and start/end ranges */
	enum report_by by;      /* set before the first file */
	struct last_stream {    /* most events are of the same */
		uint64_t pid;
		int64_t device, stream;
		uint32_t index;         /* plus 1; 0: none */
	} last_stream;
	uint16_t file;          /* of the events being added */
	struct trace_base base;
	int64_t shift_ns, first_ns, last_ns;
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

/* Links, selects and groups.  Failures of memory set no_memory. */
void report_finish(struct report *r, const struct report_select *select);

/* The whole time, ns, that is looked at. */
static inline int64_t report_wall(const struct report *r)
{
	return r->last_ns > r->first_ns ? r->last_ns - r->first_ns : 0;
}

/* Adds to a sum, which stays at INT64_MAX instead of wrapping. */
static inline void report_sum(int64_t *sum, int64_t n)
{
	if (__builtin_add_overflow(*sum, n, sum))
		*sum = INT64_MAX;
}

/*
 * The steps of report_finish(), in their order.  link: from GPU operations to
 * their calls.  select: drops what is not wanted.  busy: the time in which a
 * device worked, as the union over its streams, in all and by class, and the
 * time of each thread in calls.  group: by name.  ranges: self times, their
 * projections on the GPU, the kernels in them.  graphs: CUDA graphs by launch.
 */
void report_link(struct report *r);
void report_select(struct report *r, const struct report_select *select);
void report_busy(struct report *r);
void report_group(struct report *r);
void report_ranges(struct report *r);
void report_graphs(struct report *r);

/* What a file's key "gputrace" says of the tracer: losses, its CPU time. */
void report_add_tracer(struct report *r, const struct json_value *gputrace);

/* The index of an event's lane (of its EV_TID); UINT32_MAX: no memory. */
uint32_t report_event_lane(struct report *r, const struct trace_event *ev,
			   const struct json_value *thread);

/* The group of a key, made if it is new; NULL when memory ends. */
struct group *report_group_get(struct report *r, struct groups *groups,
			       struct group_key key);
/* Adds a time to a group, which may be NULL; close computes all groups. */
void report_group_add(struct report *r, struct group *group, int64_t value);
void report_group_close(struct groups *groups);

static inline uint32_t report_work_device(const struct report *r,
					  const struct work *w)
{
	return r->stream[w->stream].device;
}

/* The call that launched an operation, or NULL; after report_link(). */
static inline const struct call *report_work_call(const struct report *r,
						  const struct work *w)
{
	return w->correlation ? &r->calls[w->correlation - 1] : NULL;
}

/* What the groups of NVTX ranges are of: name, style and place. */
struct group_key report_range_key(const struct report *r,
				  const struct range *range);

/* Where a group of a CPU lane belongs, of an API call, and of GPU work. */
uint32_t report_lane_place(const struct report *r, uint32_t lane);
uint32_t report_call_place(const struct report *r, const struct call *c);
uint32_t report_work_place(const struct report *r, const struct work *w);

#endif
