/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_FILE_H
#define GPUTRACE_WRITER_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/sink.h"

/*
 * One file, with those it was rotated into: its name, how full it is, what is
 * in it.
 *
 *   FILE_COMMON  GPUTRACE_OUT: all windows that have none of their own.  It
 *                stays open, and complete, while another one is written.
 *   FILE_WINDOW  one window's; windows that open before it is complete share
 *                it.
 *   FILE_DUMP    the flight recorder's, at one moment
 *
 * Nothing is on disk before the first event.
 * Context: writer thread.
 */
struct trace;
struct part;

struct tally {
	uint64_t events, kernels;
};

/* What is known of a run of events. */
struct stretch {
	uint64_t newest_ns;     /* no event ends later */
	uint64_t arrow_ns;      /* the oldest launch that an arrow comes from;
				 * UINT64_MAX: none */
	struct tally tally;
};

enum file_kind { FILE_COMMON, FILE_WINDOW, FILE_DUMP };

struct file {
	enum file_kind kind;
	uint32_t number;        /* of its window, or of the dump; from 1 */
	struct sink *sink;      /* NULL: not yet, or no more */
	struct sink *given;     /* a descriptor's, not yet in use */
	bool has_descriptor;
	bool is_exact;          /* `path` was asked for as it is */
	char path[PATH_MAX];    /* of the part that is written; "": none */
	char first_path[PATH_MAX];
	bool is_pattern;        /* never takes another run's place */
	bool is_null;           /* /dev/null: nothing is kept */
	bool is_recorder;       /* in memory: no head, no tail */
	bool is_stopped;        /* no output any more */
	bool has_new;           /* since the last commit */
	int error;              /* why it stopped, -errno */
	const char *stopped_by; /* "GPUTRACE_MAX_SIZE", or NULL */
	uint32_t part;          /* of the rotated ones, from 0 */
	uint32_t keep;          /* so many of them stay */
	struct part *parts;     /* the newest */
	uint64_t begun_ns;      /* what is older is in another file */
	uint64_t nr_bytes;      /* of the last commit; 0: it is not there */
	size_t tail_len;        /* of the last commit */
	size_t tail_own;        /* where in it our own object begins */
	/* What other files hold, to be taken from the run's numbers. */
	struct tally elsewhere, gone_elsewhere;
	/* Of a dump: what it reaches back, what came before. */
	uint64_t span_ns;
	struct tally forgotten;
};

/* keep: GPUTRACE_KEEP.  0 or -ENOMEM; file_fini() takes what there is. */
int file_init(struct file *file, enum file_kind kind, uint32_t number,
	      uint32_t keep);
/* Closes it; what was committed stays. */
void file_fini(struct file *file);

/* The sink of its next part, by the kind's rules for names.  NULL: *error. */
struct sink *file_open_sink(struct trace *trace, struct file *file,
			    int *error);

/* Forgotten first: the child of a fork in this moment looks at it. */
void file_close_sink(struct file *file);

/* A new part has begun: the oldest goes where there are more than are to be
 * kept.  Adds what went to *gone. */
void file_begin_part(struct file *file, struct tally *gone);

/* The present part got so much. */
void file_count(struct file *file, struct tally more);

/* In the child of a fork. */
void file_forget(struct file *file);

/* GPUTRACE_OUT is /dev/null: no other name can be made of it. */
bool file_is_dev_null(const char *path);

#endif
