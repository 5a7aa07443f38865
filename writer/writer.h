/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_WRITER_H
#define GPUTRACE_WRITER_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The writer: one background thread that turns records (rings) and activities
 * (completed CUPTI buffers) into events and appends them to the trace file.
 *
 *   ring_peek() ----> ranges --\
 *                               > events -> sink (plain or gz, twin files)
 *   activity_take() > GPU work-/
 *
 * It wakes every WRITER_POLL_NS while a window is open to drain the rings, and
 * every flush_ns it brings the visible file up to date: new events, then the
 * tail (open ranges, metadata, the closing keys).
 */
enum name_style { NAMES_SHORT, NAMES_FULL, NAMES_MANGLED };
enum on_full { ON_FULL_ROTATE, ON_FULL_STOP };

struct setting_text {
	const char *name;       /* "GPUTRACE_OUT" */
	const char *value;
};

struct writer_options {
	const char *out;        /* GPUTRACE_OUT: path with %p %h %r %n %t */
	uint64_t flush_ns;      /* GPUTRACE_FLUSH */
	uint64_t max_size;      /* GPUTRACE_MAX_SIZE, bytes of a file */
	enum on_full on_full;
	uint32_t keep;          /* GPUTRACE_KEEP: rotated files that stay */
	enum name_style names;
	bool mask_argv;
	uint64_t sample_ns;     /* between two samples of a running thread */
	const char *kernels;    /* GPUTRACE_KERNELS: globs, NULL: all */
	uint64_t memory;        /* bytes the writer's own tables may take */
	uint64_t backlog;       /* and what was read of the rings */
	uint64_t recorder_ns;   /* GPUTRACE_RECORDER: keep so much, in memory;
				 * 0: no flight recorder */
	uint64_t recorder_bytes;        /* at most, of memory */
	uint32_t rank, local_rank, world_size;
	uint32_t cupti_version;         /* cuptiGetVersion(); 0: none */
	uint32_t driver_version;        /* cuDriverGetVersion(), 13000 */
	const char *container;          /* id, or NULL */
	const struct setting_text *settings;    /* as in force, for the file */
	size_t nr_settings;
};

/* Starts the thread.  The strings are copied.  Nothing is created on disk
 * before the first record.  Returns 0 or -errno.  Context: attach, once. */
int writer_start(const struct writer_options *options);

/* Asks the writer to drain everything that has arrived, complete the file and
 * end its thread; waits until clock_now_ns() passes deadline_ns.  Returns 0,
 * or -ETIMEDOUT (the file is complete up to the last flush).
 * Context: the exiting thread, once. */
int writer_finish(uint64_t deadline_ns);

/* To be called by the writer's thread when the file is complete, before
 * writer_finish() returns.  Context: attach, once. */
void writer_on_finished(void (*call)(void));

/* Has `call` called once on the writer's thread, before its next look: a thread
 * started there shares the writer's table of descriptors (own_thread.h).
 * Context: attach, after writer_start(). */
void writer_call(void (*call)(void));

/* What the last line on stderr says. */
struct writer_summary {
	char path[4096];        /* of the last file; empty if none was made */
	uint64_t kernels;       /* in files that are there */
	uint64_t kernels_gone;  /* recorded, but in no file (any more) */
	uint64_t events, bytes;
	/* All was kept in memory, the newest of it; `path` is that of the last
	 * dump that had one. */
	bool is_recorder;
	uint32_t dumps;
};
void writer_summary(struct writer_summary *summary);

/*
 * Where the events of a window go when it has a file of its own.  Without one
 * all windows go into the file of GPUTRACE_OUT.
 */
struct writer_target {
	/* A regular file, open for reading and writing, to be filled from its
	 * begin; the writer closes it.  -1: none. */
	int fd;
	bool is_gz;             /* what to write into fd */
	char path[4096];        /* absolute; "": GPUTRACE_OUT with .wN */
	/* Of writer_open_target(). */
	struct sink *opened, *plain;
};

/* What came of a window, or of a dump. */
struct writer_result {
	int error;              /* 0 or -errno */
	bool has_descriptor;    /* of a dump: the target's is the writer's */
	char path[4096];        /* "" if it went into a descriptor */
	uint64_t kernels, events, bytes, lost;
	uint64_t span_ns;       /* of a dump: what it reaches back */
	uint32_t unfinished;    /* launches that never finished */
};

/* Opens the target's descriptor, so that a thread that has not `fd` in its
 * table may set it: then it is the caller's until writer_set_target() is 0, and
 * again after NULL.  0 or -errno, as writer_set_target() for its descriptor.
 * Context: our own threads; `fd` is in their table. */
int writer_open_target(struct writer_target *target);

/* Of one that is the caller's; closes `fd`.  Context: our own threads. */
void writer_close_target(struct writer_target *target);

/* The next window that opens has a file of its own; NULL takes that back.
 * 0: a descriptor is the writer's now, which closes it when the file is
 * complete (after NULL it is the caller's again).  Or -errno: -EBUSY while a
 * window is open or an older one is not complete (writer_wait_window()),
 * -EINVAL for a relative path, or a descriptor that is no regular file open
 * for reading and writing without O_APPEND, -ENOSYS for a name made from
 * /dev/null, -ESRCH without a writer.
 * A window that opens before the one before it is complete shares its file.
 * Context: any thread, before the window opens; `fd` is in its table, or was
 * opened. */
int writer_set_target(const struct writer_target *target);

/* Waits until all of window `n` is in its file and that is complete.  What it
 * lost, or why there is no file, is in the result; windows that shared a file
 * before they were complete are counted together.  0, -ETIMEDOUT, or -ENOENT:
 * it is older than the last 64, or will not be complete since the writer has
 * ended.  Context: our own threads, not the writer's. */
int writer_wait_window(uint32_t n, uint64_t deadline_ns,
		       struct writer_result *result);

/* Writes the flight recorder to a file of its own while recording goes on: to
 * a path, a descriptor, or (NULL, or neither) GPUTRACE_OUT with .dN.  Without a
 * recorder the target is ignored, its descriptor stays the caller's, and the
 * file is brought up to date (-ENODATA: there is none yet).
 * A descriptor of which the result says has_descriptor is the writer's, which
 * closes it, and the caller's otherwise, whatever is returned: 0; -EBUSY
 * (another dump), -EINVAL, -ENOSYS and -ESRCH as writer_set_target();
 * -ETIMEDOUT: it goes on.  Context: our own threads, not the writer's; `fd` is
 * in their table. */
int writer_dump(const struct writer_target *target, uint64_t deadline_ns,
		struct writer_result *result);

/* In the child of a fork: the thread and the file belong to the parent.
 * Context: atfork child. */
void writer_forget(void);

#endif
