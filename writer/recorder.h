/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_RECORDER_H
#define GPUTRACE_WRITER_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/file.h"

/*
 * The flight recorder: a sink that keeps the newest events in memory and puts
 * nothing on disk.
 *
 *     forgotten |  [ segment ][ segment ] ... [ segment ]  open
 *               ^ from_ns: all that ended later is here
 *
 * A segment holds whole events of about 1 MiB or 1 s, compressed as a gzip
 * member, as they stand in a file.  The oldest go when all that was committed
 * with them is older than is to be kept (calls come before their kernels: so
 * they go together), or when there are more bytes than may be.
 * Context: writer thread.
 */

struct segment {
	struct segment *next;
	struct stretch stretch;
	uint32_t batch;         /* the commit that it was closed for */
	size_t raw;             /* bytes, not compressed */
	size_t len;
	char member[];
};

/* keep_ns back, and not more than `bytes` of memory.  NULL: no memory. */
struct sink *sink_recorder_create(uint64_t keep_ns, uint64_t bytes);

/* What the next sink_append() brings. */
void recorder_note(struct sink *sink, const struct stretch *stretch);

/* Begins to read: closes the open segment, forgets what is too old.  Returns
 * the oldest segment, or NULL.  What has not been read stays until it is. */
const struct segment *recorder_read(struct sink *sink);
/* The one behind the last that was returned; NULL: the end, or `last` was it.
 * It is read no more. */
const struct segment *recorder_read_next(struct sink *sink);
/* Ends reading, at any place. */
void recorder_read_end(struct sink *sink);

/* Adds one to another. */
void recorder_merge(struct stretch *to, const struct stretch *from);

/* What is gone, with the newest time in it; before all that was recorded if
 * nothing is. */
struct stretch recorder_forgotten(const struct sink *sink);

#endif
