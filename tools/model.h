/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_MODEL_H
#define GPUTRACE_TOOLS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/intern.h"
#include "tools/trace_rules.h"
#include "tools/vec.h"

/*
 * Traces as arrays, for the commands that ask what followed what (diagnose,
 * diff): one entry of at most 48 bytes for an event, names by number, and the
 * link between a GPU operation and the API call that launched it.
 *
 *      struct model m;
 *
 *      model_init(&m);
 *      for each path
 *              model_add_file(&m, path, &problem);     0, or -errno
 *      model_finish(&m);       sorts and links; once, after the last file
 *      ...
 *      model_fini(&m);
 *
 * After model_finish():
 *      work    by (device, start)      device[d].first .. + nr are its own
 *      call    by (lane, start)        lane[l].first_call .. + nr_calls
 *      range   by (lane, start, longest first), likewise
 *      row     by (lane, kind, start, longest first)
 *
 * Times are ns from the base of the first file (base.ns of the files' clock);
 * several files are aligned by their baseTimeNanoseconds.  Devices, streams
 * and lanes are told apart by file, and by process in it: two ranks' GPU 0 are
 * two devices, also in a merged trace.  What
 * `report` leaves out is left out here: events without a usable time
 * (nr_bad_times), spans of the profiler, overhead.
 *
 * Any failure of memory sets no_memory: results are void then.
 */
enum { MODEL_NONE = UINT32_MAX };       /* no name, no call, no work */

enum work_kind { WORK_KERNEL, WORK_COPY_HTOD, WORK_COPY_DTOH, WORK_COPY_OTHER,
	WORK_SET, WORK_GRAPH };
enum work_flag {
	WORK_PAGEABLE = 1,      /* a copy from or to pageable memory */
	WORK_IN_GRAPH = 2,      /* a node of a CUDA graph */
	WORK_COMMUNICATES = 4,  /* a kernel of NCCL */
};

struct model_work {             /* one GPU operation */
	int64_t start, end;
	uint64_t correlation;   /* 0: none */
	int64_t bytes;          /* copies and sets */
	uint32_t name;
	uint32_t stream;        /* index in model.stream */
	uint32_t call;          /* index in model.call, or MODEL_NONE */
	uint16_t device;        /* index in model.device */
	uint8_t kind, flags;
};

enum call_kind { CALL_OTHER, CALL_LAUNCH, CALL_GRAPH_LAUNCH, CALL_SYNC,
	CALL_COPY, CALL_ALLOCATE, CALL_EVENT, CALL_KINDS };
enum call_flag {
	CALL_BLOCKING = 1,      /* a copy or set without Async in its name */
};

struct model_call {             /* one CUDA API call */
	int64_t start, end;
	uint64_t correlation;
	uint32_t name, lane;
	uint32_t work;          /* the first operation it launched, by start */
	uint32_t nr_work;       /* ... and how many; they need not follow */
	uint32_t line;          /* "serve.py:123 sample", or MODEL_NONE */
	uint16_t file;
	uint8_t kind, flags;
};

struct model_range {            /* NVTX, or an operator of PyTorch */
	int64_t start, end;
	uint32_t name, lane;
	bool is_op;             /* cat cpu_op */
};

enum row_kind { ROW_CALL, ROW_STATE };
struct model_row {              /* osrt: a blocking call; or a thread's state */
	int64_t start, end;
	uint32_t name;
	uint32_t lane;          /* the thread that it is about */
	uint8_t kind;
};

struct model_throttle {         /* the container had used up its CPU quota */
	int64_t at, periods;
	int64_t ns;             /* withheld, of all its CPUs, since the last */
	int64_t quota;          /* in % of a CPU */
	uint32_t file;
};

struct model_stream {
	int64_t id;
	uint32_t device;
};

struct model_device {
	int64_t id;
	uint32_t file;
	size_t first, nr;       /* in work */
};

struct model_lane {             /* a thread of a file */
	uint64_t pid, tid;      /* MODEL_TEXT | name for strings */
	uint32_t name;          /* MODEL_NONE: unknown */
	uint32_t file;
	size_t first_call, nr_calls, first_range, nr_ranges;
	size_t nr_launches;     /* calls that launched GPU work */
};
#define MODEL_TEXT (1ull << 63)

struct model_file {
	const char *path;       /* the caller's string */
	int64_t rank;           /* distributedInfo; -1: not said */
	uint32_t gpu;           /* names: model of the first GPU, versions as */
	uint32_t driver, cupti; /* the file has them; MODEL_NONE: not said */
	int64_t lost;           /* events, all causes */
	int64_t shift_ns;       /* a time here minus that in the file */
};

struct model {
	struct intern names;
	struct model_work *work;
	struct model_call *call;
	struct model_range *range;
	struct model_row *row;
	struct model_throttle *throttle;
	struct model_stream *stream;
	struct model_device *device;
	struct model_lane *lane;
	struct model_file *file;
	size_t nr_work, cap_work, nr_calls, cap_calls, nr_ranges, cap_ranges,
	       nr_rows, cap_rows, nr_throttles, cap_throttles,
	       nr_streams, cap_streams, nr_devices, cap_devices, nr_lanes,
	       cap_lanes, nr_files, cap_files;
	struct pairs devices, streams, processes, lanes;
	struct pairs stacks;            /* (file, correlation) -> its text */
	struct trace_base base;         /* of the first file */
	int64_t shift_ns;
	int64_t first_ns, last_ns;      /* of all slices */
	uint64_t nr_events, nr_bad_times;
	bool no_memory;
	trace_member_fn *member_fn;     /* the caller's, or NULL: sees the */
	void *member_arg;               /* keys of each document */
};

void model_init(struct model *m);
void model_fini(struct model *m);

/* Reads a file to its end.  Returns 0, or -errno with the problem. */
int model_add_file(struct model *m, const char *path,
		   struct trace_problem *problem);
void model_finish(struct model *m);

/* Adds to a sum, which stays at INT64_MAX instead of wrapping. */
static inline void model_sum(int64_t *sum, int64_t n)
{
	if (__builtin_add_overflow(*sum, n, sum))
		*sum = INT64_MAX;
}

static inline const char *model_name(const struct model *m, uint32_t name)
{
	return name == MODEL_NONE ? "(unknown)" : intern_get(&m->names, name);
}

/* The first row of a kind of a lane that may reach behind a time; rows further
 * on follow, up to nr_rows or another lane or kind. */
size_t model_row_at(const struct model *m, uint32_t lane, enum row_kind kind,
		    int64_t at);

/* The stack of a call, innermost first, a line each; "" where none is known. */
const char *model_stack(const struct model *m, const struct model_call *c);

/* The last call of a lane that began at or before a time, or MODEL_NONE. */
uint32_t model_call_at(const struct model *m, uint32_t lane, int64_t at);

/* The innermost range around a time on a lane, or MODEL_NONE; with `ops` also
 * PyTorch's operators. */
uint32_t model_range_at(const struct model *m, uint32_t lane, int64_t at,
			bool ops);
/* The outermost operator around a time, of those inside the innermost range of
 * the program: what it called, or MODEL_NONE. */
uint32_t model_op_at(const struct model *m, uint32_t lane, int64_t at);
/* The one around that range, at the same time, or MODEL_NONE. */
uint32_t model_range_around(const struct model *m, uint32_t lane,
			    uint32_t range, int64_t at);

#endif
