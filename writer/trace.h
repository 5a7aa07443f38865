/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_TRACE_H
#define GPUTRACE_WRITER_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/activity.h"
#include "collector/activity_buffer.h"
#include "collector/clock.h"
#include "collector/record.h"
#include "collector/watch.h"
#include "collector/window.h"
#include "writer/correlate.h"
#include "writer/file.h"
#include "writer/json.h"
#include "writer/names.h"
#include "writer/objects.h"
#include "writer/range.h"
#include "writer/sink.h"
#include "writer/stacks.h"
#include "writer/track.h"
#include "writer/writer.h"

/*
 * What the writer knows, and the order in which it flows:
 *
 *   drain.c      records of the rings -------\
 *   batch.c      activities of the buffers ---+--> encode_*.c --> trace.out
 *                                                                    |
 *   output.c     pieces of trace.out into the sink; meta.c the tail -+
 *
 * One thread uses it; nothing here is locked.
 */
struct kernel_shapes;
struct api_shapes;
struct pending;
struct dump;
struct unfinished;

enum {
	/* A program that opens one for each step of 1 ms: 4 s of them. */
	WINDOWS_KEPT = 4096, CLOCK_PAIRS_MAX = 64,
	NOTICE_CBID_MAX = 2048,         /* 13.0 has 750 driver ids */
};

struct trace {
	struct writer_options options;
	uint32_t pid;
	uint64_t start_ns, base_ns, last_ns;    /* drain.c: none is later */
	char host[128], program[128], run_id[24];

	struct bytes out;               /* events not yet in the sink */
	struct bytes tail;
	struct bytes scratch;
	/* For tests and benchmarks: a sink that is no file. */
	struct sink *(*open_sink)(struct trace *trace);
	struct file common, own;        /* own: of one window, or empty */
	struct file *file;              /* the one that is written */
	uint32_t serial;                /* grows with each file and part */
	char last_path[4096];           /* of the last that was committed */
	uint64_t last_bytes;
	struct stretch stretch;         /* of `out`; its tally is unused */
	struct dump *dump;              /* that is being written */
	uint32_t nr_dumps, nr_dumped;   /* begun; complete */
	uint64_t first_open_ns;         /* of all windows */
	bool has_own_files, lacks_memory; /* %w: one for each window; said */

	struct tracks tracks;
	struct cpu_threads threads;
	struct calls calls;
	struct ranges ranges;
	struct names names;
	struct objects objects;
	struct kernel_shapes *kernels;
	struct api_shapes *apis;
	struct pending *pending;
	struct stacks *stacks;          /* made at the first */

	struct window windows[WINDOWS_KEPT];    /* oldest first */
	uint32_t nr_windows, windows_seen;
	uint64_t forgotten_ns;          /* the end of those before */
	uint32_t nr_complete;           /* of which all is in a file */
	struct begun {                  /* what was when the next opened */
		struct tally made, gone;
		uint64_t lost;
	} begun;
	uint32_t epoch;                 /* drain.c: of the open ranges */
	uint32_t epoch_seen;            /* of `windows` */

	uint32_t cycle;                 /* write-outs */
	uint32_t batch;                 /* for nest_place() */
	uint32_t api_cycle;             /* the last in which a call came */
	uint64_t next_arrow;
	uint64_t nr_events, nr_kernels, nr_before_launch;
	/* output.c: of nr_events and nr_kernels, those in the sink; those in a
	 * file as it is seen, or counted as lost; those that are in no file. */
	struct tally offered, settled, gone;
	bool has_said_small;            /* that max_size is too small */
	struct unfinished *unfinished;  /* unfinished.c */
	struct backlog *backlog;
	uint32_t nr_pauses;             /* that are in the file */

	struct clock_pair clock_pairs[CLOCK_PAIRS_MAX];
	uint32_t nr_clock_pairs;
	uint64_t own_ns;
	struct watch_counts noticed;            /* notice.c */
	uint8_t call_kinds[2][NOTICE_CBID_MAX];
	uint64_t allocated[65][8];      /* bytes, by device and memory kind */
	uint64_t unified[9];
	uint8_t has_counters[256];      /* of device n; the last: of the host */
};

/* ---- trace.c ---- */

/* Copies the options with their strings.  Returns 0 or -ENOMEM; fini takes
 * what there is. */
int trace_init(struct trace *trace, const struct writer_options *options);
void trace_fini(struct trace *trace);

/* ---- batch.c ---- */

/* Everything CUPTI has completed; then the buffers are given back.
 * `everything`: nothing waits for a later batch.  Returns false if there was
 * nothing. */
bool batch_write(struct trace *trace, bool everything);

/* Takes what CUPTI has completed; returns the bytes that wait in all. */
uint64_t batch_take(struct trace *trace);

/* bytes: what work that waits for its launch may take. */
struct pending *pending_create(uint64_t bytes);
void pending_destroy(struct pending *pending);

/* ---- unfinished.c ---- */

struct unfinished *unfinished_create(void);
void unfinished_destroy(struct unfinished *unfinished);
/* Work without an end: counted by its name, and the last ones with what is
 * known of their launch. */
void unfinished_add(struct trace *trace, const struct activity *activity);
/* In the tail; the launches of the file that is written. */
void unfinished_tell(const struct trace *trace, struct bytes *out);
/* How many of these there are since then. */
uint32_t unfinished_since(const struct trace *trace, uint64_t t_ns);

/* ---- pauses.c ---- */

/* Those that are over; at the end, one that is not, too. */
void pauses_write(struct trace *trace, bool is_end);

/* ---- notice.c ---- */

/* Counts for the watchdog; is_forced: by a forced flush. */
void notice_activity(struct trace *trace, const void *raw, bool is_forced);

/* ---- drain.c ---- */

/* All records in the rings, and windows that have opened or closed. */
void drain_rings(struct trace *trace);
/* Ends what is open, as the window's or the program's end does. */
void drain_close_ranges(struct trace *trace, uint64_t t_ns);

/* ---- event.c: windows ---- */

void windows_refresh(struct trace *trace);
/* The last window that opened by t_ns, or NULL. */
const struct window *windows_find(const struct trace *trace, uint64_t t_ns);
/* True if t_ns lies in a window that was recorded. */
bool windows_hold(const struct trace *trace, uint64_t t_ns);

/* ---- event.c: what all encoders share ---- */

/* Each event tells its end; an arrow, or work without one, its launch. */
static inline void event_ends(struct trace *trace, uint64_t end_ns)
{
	if (end_ns > trace->stretch.newest_ns)
		trace->stretch.newest_ns = end_ns;
}

static inline void event_launched(struct trace *trace, uint64_t t_ns)
{
	if (t_ns < trace->stretch.arrow_ns)
		trace->stretch.arrow_ns = t_ns;
}

/* Checks times; counts what cannot be written: without time (0, 2^63 and the
 * like), reversed, before the base, later than now. */
bool event_times(const struct trace *trace, uint64_t start_ns, uint64_t end_ns);

/* {"ph":"X","cat":C,"name":N,"pid":P,"tid":T,"ts":S,"dur":D,"args":{
 * then the members of args, then event_end(). */
void event_begin(struct trace *trace, const char *cat, const char *name,
		 size_t name_len, struct lane *lane, uint64_t start_ns,
		 uint64_t end_ns);
void event_end(struct trace *trace);

/* The same of an instant ("ph":"i"), of a process's counter ("C"). */
void event_instant_begin(struct trace *trace, const char *name,
			 size_t name_len, struct lane *lane, uint64_t t_ns);
void event_counter_begin(struct trace *trace, uint32_t pid, const char *name,
			 uint64_t t_ns);
void event_counter(struct trace *trace, uint32_t pid, const char *name,
		   uint64_t t_ns, const char *key, uint64_t value);

/* ---- encode_*.c ---- */

struct kernel_shapes *kernel_shapes_create(void);
void kernel_shapes_destroy(struct kernel_shapes *shapes);
struct api_shapes *api_shapes_create(void);
void api_shapes_destroy(struct api_shapes *shapes);

/* The launch of GPU work, as far as it is known. */
struct launch {
	const struct call *call;        /* NULL: not traced */
	uint64_t before_launch_ns;
	uint32_t external_id;           /* of the operator around; 0: none */
};

void encode_kernel(struct trace *trace, const struct kernel *kernel,
		   const struct launch *launch);
void encode_copy(struct trace *trace, const struct copy *copy,
		 const struct launch *launch);
void encode_set(struct trace *trace, const struct set *set,
		const struct launch *launch);
void encode_graph(struct trace *trace, const struct graph_launch *graph,
		  const struct launch *launch);
void encode_decompress(struct trace *trace, const struct decompress *work,
		       const struct launch *launch);
void encode_arrow(struct trace *trace, const struct launch *launch,
		  const struct lane *lane, uint64_t t_ns);

/* A call: holds driver calls back, finds the lane and the range. */
void encode_call(struct trace *trace, const struct api_call *call);
/* Driver calls that were held since an earlier write-out. */
void encode_held_calls(struct trace *trace, bool everything);
/* Notes that calls of this kind launch work on the GPU. */
void encode_learn_launch(struct trace *trace, struct call *call);

void encode_sync(struct trace *trace, const struct sync *sync);
void encode_overhead(struct trace *trace, const struct overhead *overhead);
void encode_jit(struct trace *trace, const struct jit *jit);
void encode_memory(struct trace *trace, const struct memory_op *op);
void encode_pool(struct trace *trace, const struct pool_op *op);
void encode_unified(struct trace *trace, const struct unified_memory *um);

/* A slice, a counter's values or an instant of a source, from tid's ring. */
void encode_source(struct trace *trace, uint32_t tid,
		   const struct slice_record *record);

/* A closed range; or one still open, into the tail. */
void encode_range(struct trace *trace, const struct node *node);
void encode_open_ranges(struct trace *trace, struct bytes *tail,
			uint64_t now_ns);
void encode_mark(struct trace *trace, struct cpu_thread *thread,
		 const struct range_record *record);
/* The projections of ranges that have settled. */
void encode_projections(struct trace *trace, bool everything);

#endif
