/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_MERGE_H
#define GPUTRACE_TOOLS_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "tools/intern.h"
#include "tools/trace.h"
#include "tools/vec.h"

/*
 * Several trace files become one, on one timeline.  Each file is read twice:
 *
 *      merge_scan()    who is in it: processes, lanes, names, the largest id,
 *                      first and last time, the keys of the document
 *      merge_plan()    new numbers for what would collide, one base
 *      merge_write()   each event again, with those numbers; names first
 *
 * No event is kept.  Memory grows with processes, lanes and names, which are
 * bounded: MERGE_MAX_LANES and MERGE_MAX_HEADER bytes of document keys a file.
 *
 *      what            new number                      kept where
 *      pid             the same if it is free,         gputrace.merged[].pids
 *                      else 6,000,000 + n; Kineto's
 *                      GPU d is 5,000,000 + d
 *      tid             the same, but 6,000,000 + n     (its name)
 *                      for text, 0, what is no uint32
 *      id, correlation + ids_from, a multiple of       gputrace.merged[]
 *                      1,000,000 for each file
 *      ts              + shift_ns                      gputrace.merged[]
 */
enum {
	MERGE_MAX_LANES = 1 << 20,
	MERGE_MAX_HEADER = 16 << 20,
	MERGE_FRESH = 6000000,          /* above Linux and GPU lanes */
	MERGE_GPU_PID = 5000000,
	MERGE_KINETO_GPUS = 1000,       /* pids below are its device numbers */
};

#define MERGE_TEXT (1ull << 63)         /* number of a string in names */
#define MERGE_MAX_ID (1ll << 52)        /* larger ones stay as they are */

struct merge_process {
	uint64_t pid;                   /* in its file; MERGE_TEXT | string */
	int64_t sort_index;
	uint32_t name, labels;          /* INTERN_NONE: it has none */
	uint32_t to;                    /* pid in the result */
	uint16_t file;
	bool has_events, has_work;      /* work of a GPU */
};

struct merge_lane {
	uint64_t tid;
	int64_t sort_index;
	uint32_t process, name, to;
	bool has_events, has_index;
};

struct merge_file {
	const char *path;
	struct stat seen;
	int64_t base_ns, shift_ns;      /* base < 0: it has none */
	int64_t first_ns, last_ns;      /* last < 0: no event */
	int64_t max_id, ids_from;
	int64_t rank, world_size, pid;  /* rank < 0: it does not say */
	uint32_t host, label;           /* in names */
	bool is_merged;                 /* the result of an earlier merge */
	char *header;                   /* "key": value, ... */
	size_t header_len, header_cap, header_left_out;
	uint64_t nr_odd;                /* things that are no events */
};

struct merge_count {
	uint32_t name;
	int64_t n;
};

struct merge {
	struct merge_file *file;
	struct merge_process *process;
	struct merge_lane *lane;
	struct merge_count *loss;
	int64_t own_ns;                 /* CPU time of the tracers */
	uint32_t *device;               /* texts of deviceProperties */
	uint32_t *order;                /* the processes shown, by rank */
	size_t nr_files, nr_processes, cap_processes, nr_lanes, cap_lanes,
	       nr_losses, cap_losses, nr_devices, cap_devices, nr_order;
	struct pairs processes, lanes;  /* (file, pid), (process, tid) */
	struct pairs pids, tids;        /* given: (0, pid), (process, tid) */
	struct intern names;
	int64_t base_ns, world_size;
	uint64_t nr_events;
	bool no_memory;
};

/* Returns 0, or -errno with the problem. */
int merge_scan(struct merge *m, uint16_t file, struct trace_problem *problem);

/* Returns 0, -ENOMEM, or -ERANGE: the ids of all files together are more than
 * 2^53. */
int merge_plan(struct merge *m);

/* Writes the document; *file is where a problem is.  Returns 0, or -errno with
 * the problem. */
struct merge_out;
int merge_write(struct merge *m, struct merge_out *out, const char *name,
		uint16_t *file, struct trace_problem *problem);

/* Its part between the brackets: names, then events. */
int merge_events(struct merge *m, struct merge_out *out, uint16_t *file,
		 struct trace_problem *problem);

void merge_fini(struct merge *m);

/* The lane of an event, made if `make`; UINT32_MAX: it has no pid or tid, or
 * (then no_memory is set, or !make) cannot be had. */
uint32_t merge_lane_of(struct merge *m, uint16_t file,
		       const struct trace_event *ev, bool make);
/* The same of its process; counters and metadata need no tid. */
uint32_t merge_process_of(struct merge *m, uint16_t file,
			  const struct trace_event *ev, bool make);

/* Is this ID a value that is renumbered, and which?  Flows may have it as text,
 * which Perfetto reads as hexadecimal. */
bool merge_id(const struct trace_event *ev, const struct json_value *v,
	      int64_t *id);

/* The arguments that hold correlations. */
enum { MERGE_ID_ARGS = 5 };
extern const enum trace_arg_key merge_id_args[MERGE_ID_ARGS];

#endif
