/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_TRACK_H
#define GPUTRACE_WRITER_TRACK_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/record.h"
#include "writer/bytes.h"
#include "writer/gaps.h"

/*
 * Where events stand: processes (pid) and lanes (pid, tid), their names and
 * their order.
 *
 *   pid                     its lanes
 *   the program's own       one a thread (tid), "#2" where slices would cross,
 *                           5,000,000 + n for what belongs to no thread
 *   5,000,000 + device      (context, stream, role, #n); tids from 1
 *   5,100,000 + device      counters of a GPU
 *   5,200,000               counters of the program
 *
 * Linux pids end at 4,194,304 (2^22), so none of ours can be a program's.
 * Context: writer thread.
 */
enum {
	TRACK_GPU_PID = 5000000,
	TRACK_GPU_COUNTERS_PID = 5100000,
	TRACK_COUNTERS_PID = 5200000,
	TRACK_OWN_TID = 5000000,
};

/* In the order in which the lanes of a stream stand. */
enum role {
	ROLE_RANGES,    /* ranges projected on the stream; they nest */
	ROLE_WORK,      /* kernels, copies, sets, graphs; they never overlap */
	ROLE_SYNC,      /* waits for the stream; they nest */
	ROLE_THREAD,    /* a thread's calls and ranges */
	ROLE_OSRT,      /* its rows of other sources (record.h, slice_row) */
	ROLE_STATE,
	ROLE_STACK,
	ROLE_PROCESS,   /* slices that belong to no thread */
	ROLE_STARTED,   /* start/end ranges of the program */
	ROLE_STARTED_OPEN, /* those that are open: in the tail only */
	ROLE_OVERHEAD,  /* CUPTI's own work, JIT, module loading */
	ROLE_OWN,       /* our own write-outs */
	ROLE_PAUSE,     /* another profiler has CUPTI */
	NR_ROLES,
};

#define LANE_NO_STREAM UINT32_MAX
#define LANE_OTHER_STREAMS (UINT32_MAX - 1)

struct lane {
	struct lane *more;              /* where this one has no gap */
	struct lane *next_in_bucket;
	struct lane *next;              /* of all, newest first */
	uint32_t pid, tid;
	enum role role;
	uint32_t device, context, stream;
	uint32_t number;                /* 1; 2 is called "#2" */
	const struct cpu_thread *thread; /* the first that stood here */
	const struct cpu_thread *user;  /* the one that stands here now */
	struct lane *rows[NR_ROWS];     /* ROLE_THREAD: beside it */
	struct lane *next_ended;        /* of the queue of ended threads' */
	uint64_t ended_ns;
	bool is_ended, is_queued, is_shared;
	struct gaps gaps;               /* ROLE_WORK */
	struct nest nest;               /* the others */
	uint64_t nr_events;
	/* Of these, in other files than the one that is written; and what
	 * that was before a window's own began. */
	uint64_t nr_elsewhere, nr_elsewhere_before;
	/* "pid":1,"tid":2 as it stands in every event */
	char where[48];
	uint32_t where_len;
};

struct tracks {
	struct lane *lanes;
	struct lane **buckets;
	struct lane *last;              /* found by track_gpu() */
	struct lane *own[NR_ROLES];     /* track_own()'s */
	uint32_t nr_lanes, nr_own, nr_threads;
	uint32_t max_lanes, max_threads;
	struct lane *ended, **ended_last;       /* longest ago first */
	uint32_t next_tid[64];          /* of each GPU; the last: all others */
	uint32_t pid;
};

/*
 * 16384 lanes: nobody reads more, and each costs 500 bytes at every write-out;
 * fewer where there is little memory.  A sixteenth is not for new threads and
 * streams: later streams, of a program that makes one for each request, share
 * lanes.  So do threads: from the 4096th on each takes the lane of one that
 * has ended, the longest ago first.
 */
#define TRACK_MAX_LANES 16384
#define TRACK_MAX_THREADS 4096

/* memory: of all tables of the writer, bytes. */
int tracks_init(struct tracks *tracks, uint32_t pid, uint64_t memory);
void tracks_fini(struct tracks *tracks);

/* The first lane of a stream and role (LANE_NO_STREAM: of the context;
 * LANE_OTHER_STREAMS: of all for which there was no room).  NULL without
 * memory or over the bound. */
struct lane *track_gpu(struct tracks *tracks, uint32_t device, uint32_t context,
		       uint32_t stream, enum role role);

/* The first lane of what belongs to no thread. */
struct lane *track_own(struct tracks *tracks, enum role role);

/* The row of a source beside `lane`, a thread's; made on demand. */
struct lane *track_row(struct tracks *tracks, struct lane *lane,
		       enum role role);

/* A thread's lane: with its own tid, or from the bound on one of a thread that
 * ended well before it began; begin_ns 0: not known when. */
struct lane *track_thread(struct tracks *tracks,
			  const struct cpu_thread *thread,
			  uint32_t tid, uint64_t begin_ns);

/* New threads share lanes, if they can. */
static inline bool track_is_shared(const struct tracks *tracks)
{
	return tracks->nr_threads >= tracks->max_threads;
}

/* The thread has ended: its lane may be another's. */
void track_end_thread(struct tracks *tracks, struct lane *lane,
		      uint64_t t_ns);

/* A file with its own names of lanes begins, and ends. */
void track_begin_file(struct tracks *tracks);
void track_end_file(struct tracks *tracks);

/* The lane behind `lane` for what crosses there, made on demand. */
struct lane *track_more(struct tracks *tracks, struct lane *lane);

/* The first of `lane` and those behind it that takes [start, end].
 * `batch` as for nest_place(). */
struct lane *track_place(struct tracks *tracks, struct lane *lane,
			 uint32_t batch, uint64_t start_ns, uint64_t end_ns);

#endif
