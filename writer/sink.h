/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_SINK_H
#define GPUTRACE_WRITER_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/bytes.h"

/*
 * Where the file's bytes go.  The file is a body that only grows and a tail
 * that is written anew at each commit: what was committed is complete, and
 * what was appended since is seen by nobody.
 *
 *     append append commit(tail) append commit(tail) ...
 *     \___ body ___/\__ seen __/
 *
 * All return 0 or -errno; after an error the sink keeps what was committed
 * and refuses the rest with the same error.
 * Context: writer thread.
 */
struct sink;

struct sink_ops {
	int (*append)(struct sink *sink, const void *bytes, size_t len);
	int (*commit)(struct sink *sink, const void *tail, size_t len);
	/* Bytes of the file as it would be with a tail of that length. */
	uint64_t (*size)(const struct sink *sink, size_t tail_len);
	/* In the child of a fork: closes the descriptors, nothing else. */
	void (*forget)(struct sink *sink);
	/* After the last commit; frees the sink. */
	void (*close)(struct sink *sink);
};

struct sink {
	const struct sink_ops *ops;
};

static inline int sink_append(struct sink *sink, const struct bytes *bytes)
{
	return sink->ops->append(sink, bytes->data, bytes->len);
}

static inline int sink_commit(struct sink *sink, const struct bytes *tail)
{
	return sink->ops->commit(sink, tail->data, tail->len);
}

static inline uint64_t sink_size(const struct sink *sink, size_t tail_len)
{
	return sink->ops->size(sink, tail_len);
}

static inline void sink_close(struct sink *sink)
{
	if (sink)
		sink->ops->close(sink);
}

/* Twin files (sink_file.c).  `path` must not exist, or may be replaced if
 * `replace`.  The file is there from the first commit on.  NULL: *error. */
struct sink *sink_file_create(const char *path, int replace, int *error);

/* A regular file, open for reading and writing, from its begin (sink_fd.c).
 * It is complete after sink_close(), which closes `fd` unless it was disowned;
 * until then what was committed last can be had from it (kept_tail.h).
 * NULL: *error, and `fd` is the caller's.
 * Context: a thread in whose table `fd` is; then the writer's. */
struct sink *sink_fd_create(int fd, int *error);
void sink_fd_disown(struct sink *sink);

/* Compresses into `below`, which it owns.  NULL: without memory. */
struct sink *sink_gz_create(struct sink *below);

bool sink_is_gz(const struct sink *sink);
/* Appends what is a gzip member already. */
int sink_gz_member(struct sink *sink, const void *member, size_t len);

/* Counts and drops. */
struct sink *sink_null_create(void);

#endif
