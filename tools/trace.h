/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_TRACE_H
#define GPUTRACE_TOOLS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/json.h"
#include "tools/jsonval.h"

/*
 * The one reader of trace files: Chrome JSON in Kineto's dialect, ours and
 * that of the PyTorch profiler, plain or gzip, an object or a bare array.
 * Events are pulled one at a time; nothing else is held in memory except the
 * few keys of the document that carry facts (trace_header()).
 *
 *      struct trace *t = trace_open(path, 0, &problem);
 *      while ((more = trace_next(t, &ev)) > 0)
 *              ...
 *
 * All values of an event point into the reader's window: they are valid until
 * the next trace_next().  A file is hostile: every error has the byte offset
 * (in the unpacked file) and ends the reading.
 */

#define TRACE_EVENT_KEYS(X) \
	X(PH, "ph") X(CAT, "cat") X(NAME, "name") X(PID, "pid") \
	X(TID, "tid") X(TS, "ts") X(DUR, "dur") X(ID, "id") X(BP, "bp") \
	X(S, "s") X(ARGS, "args")

#define TRACE_ARG_KEYS(X) \
	X(DEVICE, "device") X(CONTEXT, "context") X(STREAM, "stream") \
	X(CORRELATION, "correlation") X(BYTES, "bytes") X(CBID, "cbid") \
	X(GRID, "grid") X(BLOCK, "block") X(GRAPH_ID, "graph id") \
	X(GRAPH_NODE, "graph node id") X(RESULT, "result") \
	X(REGISTERS, "registers per thread") X(SHARED, "shared memory") \
	X(BANDWIDTH, "memory bandwidth (GB/s)") X(QUEUED, "queued") \
	X(EXTERNAL, "External id") X(WARPS, "warps per SM") \
	X(OCCUPANCY, "est. achieved occupancy %") X(OPEN, "open") \
	X(NOT_TRACED, "launch not traced") X(BEFORE, "before launch ns") \
	X(IN_DEVICE, "inDevice") X(IN_CONTEXT, "inContext") \
	X(IN_STREAM, "inStream") X(IN_CORRELATION, "inCorrelation") \
	X(IN_BYTES, "inBytes") \
	X(SYNC_KIND, "cuda_sync_kind") X(WAIT_STREAM, "wait_on_stream") \
	X(WAIT_CORRELATION, "wait_on_cuda_event_record_corr_id") \
	X(WAIT_EVENT, "wait_on_cuda_event_id") X(DOMAIN, "domain") \
	X(COLLECTIVE, "Collective name") X(ARG_NAME, "name") \
	X(SORT_INDEX, "sort_index") X(GPU_OPS, "GPU operations") \
	X(BLOCKS, "blocks per SM") X(PRIORITY, "priority") \
	X(LABELS, "labels") X(CALL_CORRELATION, "call correlation") \
	X(LINE, "line") X(MODULE, "module") X(THREAD, "thread") X(STACK, "stack")

#define TRACE_CATS(X) \
	X(KERNEL, "kernel") X(MEMCPY, "gpu_memcpy") X(MEMSET, "gpu_memset") \
	X(GRAPH, "cuda_graph") X(RUNTIME, "cuda_runtime") \
	X(DRIVER, "cuda_driver") X(ANNOTATION, "user_annotation") \
	X(GPU_ANNOTATION, "gpu_user_annotation") X(SYNC, "cuda_sync") \
	X(CPU_OP, "cpu_op") X(PYTHON, "python_function") \
	X(INSTANT, "cpu_instant_event") X(EXTERNAL_ID, "external_correlation") \
	X(OVERHEAD, "overhead") X(CUDA_EVENT, "cuda_event") \
	X(COLLECTIVE_COMM, "collective_comm") \
	X(COUNTERS, "hardware_counters") \
	X(PROFILER_RANGE, "cuda_profiler_range") X(SPAN, "Trace") \
	X(OSRT, "osrt") X(THREAD_STATE, "thread_state") \
	X(CUBLAS, "cublas") X(CUDNN, "cudnn") X(NCCL, "nccl") X(SAMPLE, "sample")

#define TRACE_HEADER_KEYS(X) \
	X(SCHEMA, "schemaVersion") X(DEVICES, "deviceProperties") \
	X(UNIT, "displayTimeUnit") X(BASE, "baseTimeNanoseconds") \
	X(DISTRIBUTED, "distributedInfo") X(GPUTRACE, "gputrace")

#define X(id, text) EV_##id,
enum trace_event_key { TRACE_EVENT_KEYS(X) EV_KEYS };
#undef X
#define X(id, text) ARG_##id,
enum trace_arg_key { TRACE_ARG_KEYS(X) ARG_KEYS };
#undef X
#define X(id, text) CAT_##id,
enum trace_cat { CAT_OTHER = -1, TRACE_CATS(X) CATS };
#undef X
#define X(id, text) HEADER_##id,
enum trace_header_key { TRACE_HEADER_KEYS(X) HEADER_KEYS };
#undef X

struct trace_event {
	uint64_t index;         /* in traceEvents */
	uint64_t offset;        /* of its first byte in the unpacked file */
	const char *text;       /* all of it */
	size_t len;
	enum json_type type;    /* JSON_OBJECT, unless the file is wrong */
	char ph;                /* 0: no string of one character */
	enum trace_cat cat;
	struct json_members fields, args;
	struct json_value field[EV_KEYS], arg[ARG_KEYS];
};

struct trace_problem {
	uint64_t offset;
	bool has_offset;
	char text[256];
};

enum trace_flag {
	TRACE_STRICT = 1,       /* look for bad UTF-8, keys that come twice */
};

/* A member of the document other than traceEvents, as text from its key to
 * the end of its value. */
typedef void trace_member_fn(void *arg, const char *text, size_t len,
			     bool before_events);

/* Opens a file ("-": standard input).  Returns NULL with the problem. */
struct trace *trace_open(const char *path, unsigned flags,
			 struct trace_problem *problem);
/* The same for an open file, which is taken over. */
struct trace *trace_open_fd(int fd, unsigned flags,
			    struct trace_problem *problem);
void trace_close(struct trace *t);

void trace_on_member(struct trace *t, trace_member_fn *fn, void *arg);

/* Returns 1 with an event, 0 at the end of a complete document, or -errno:
 * -EBADMSG is a broken file, see trace_problem(). */
int trace_next(struct trace *t, struct trace_event *ev);

const struct trace_problem *trace_problem(const struct trace *t);

/* Faults since the last call: bits of enum json_fault, and where each was
 * seen first. */
unsigned trace_faults(struct trace *t, uint64_t offset[JSON_FAULTS]);

/* What the reader stepped over on the document's level. */
struct trace_shape {
	uint64_t size;                  /* bytes, unpacked */
	bool is_array, has_events, is_gzip, has_bom;
	uint64_t trailing_commas, tail_space;
};
const struct trace_shape *trace_shape(const struct trace *t);

/* A key of the document; complete after trace_next() returned 0.  JSON_NONE
 * if the file does not have it. */
const struct json_value *trace_header(const struct trace *t,
				      enum trace_header_key key);

extern const struct json_value trace_none;

/* A field or an argument; JSON_NONE if the event does not have it. */
static inline const struct json_value *
trace_field(const struct trace_event *ev, enum trace_event_key key)
{
	return ev->fields.have & 1ull << key ? &ev->field[key] : &trace_none;
}

static inline const struct json_value *
trace_arg(const struct trace_event *ev, enum trace_arg_key key)
{
	return ev->args.have & 1ull << key ? &ev->arg[key] : &trace_none;
}

/* A time field in ns; false if it is no number >= 0. */
static inline bool trace_time(const struct trace_event *ev,
			      enum trace_event_key key, int64_t *ns)
{
	return jsonval_scaled(trace_field(ev, key), 3, ns) && *ns >= 0;
}

static inline bool trace_is_gpu_work(enum trace_cat cat)
{
	return cat >= CAT_KERNEL && cat <= CAT_GRAPH;
}

static inline bool trace_is_api(enum trace_cat cat)
{
	return cat == CAT_RUNTIME || cat == CAT_DRIVER;
}

static inline bool trace_is_library(enum trace_cat cat)
{
	return cat >= CAT_CUBLAS && cat <= CAT_NCCL;
}

#endif
