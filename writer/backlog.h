/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_BACKLOG_H
#define GPUTRACE_WRITER_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/record.h"

struct thread;

/*
 * What was read of the rings, until the writer comes to it.
 *
 *   rings --backlog_read()--> [run|records...|run|records...] --> drain.c
 *            the reader                 chunks, oldest first
 *
 * A ring of 2 MiB holds 20 ms of a thread that runs operators, and the writer
 * may be away for longer: a library's table of symbols (55 ms for PyTorch's),
 * CUPTI's buffers (30 ms), a slow disk.  So a thread of its own, the reader,
 * empties the rings meanwhile, into memory that goes to the threads which need
 * it.  Behind the bound records stay in the rings, and are lost when these are
 * full.  The rings' own cache lines are looked at once for each read.
 */
struct backlog;

/* bytes: the bound.  NULL without memory.  Context: attach. */
struct backlog *backlog_create(uint64_t bytes);

/* Starts the reader, which sleeps until backlog_wake().  Returns 0 or -errno.
 * Context: attach, once. */
int backlog_start(struct backlog *backlog);

/* The reader reads nothing more, and ends, without being waited for.
 * Context: as backlog_destroy(). */
void backlog_end(struct backlog *backlog);

/* The same, and what is left is forgotten.
 * Context: who created it, or the writer thread. */
void backlog_destroy(struct backlog *backlog);

/* A window is open: the reader works until none is.
 * Context: writer thread; cheap where it works already. */
void backlog_wake(struct backlog *backlog);

/* Reads all that is in the rings now.  False: not all of it, the bound is
 * reached.  Context: writer thread, reader. */
bool backlog_read(struct backlog *backlog);

/* Records of one state (thread.h), in their order. */
struct backlog_run {
	struct thread *state;
	size_t len;             /* of the records behind it, in bytes */
};

/* The oldest of what was read before the last backlog_read() by the writer
 * ended, or NULL: no more.  It is there until the next call.
 * Context: writer thread. */
const struct backlog_run *backlog_next(struct backlog *backlog);

/* The first of a run's records; NULL: it has none.  And the next. */
static inline const struct record *
backlog_record(const struct backlog_run *run, const struct record *before)
{
	const uint8_t *first = (const uint8_t *)(run + 1);
	const uint8_t *next = before ? (const uint8_t *)before + before->size :
		first;

	return next < first + run->len ? (const void *)next : NULL;
}

#endif
