/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "writer/sink.h"

struct sink_null {
	struct sink sink;
	uint64_t body;
};

static int null_append(struct sink *sink, const void *bytes, size_t len)
{
	(void)bytes;
	((struct sink_null *)sink)->body += len;
	return 0;
}

static int null_commit(struct sink *sink, const void *tail, size_t len)
{
	(void)sink;
	(void)tail;
	(void)len;
	return 0;
}

static uint64_t null_size(const struct sink *sink, size_t tail_len)
{
	return ((const struct sink_null *)sink)->body + tail_len;
}

static void null_close(struct sink *sink)
{
	free(sink);
}

static void null_forget(struct sink *sink)
{
	(void)sink;
}

static const struct sink_ops null_ops = {
	.append = null_append,
	.commit = null_commit,
	.size = null_size,
	.forget = null_forget,
	.close = null_close,
};

struct sink *sink_null_create(void)
{
	struct sink_null *null = calloc(1, sizeof(*null));

	if (!null)
		return NULL;
	null->sink.ops = &null_ops;
	return &null->sink;
}
