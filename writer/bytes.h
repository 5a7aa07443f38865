/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_BYTES_H
#define GPUTRACE_WRITER_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/*
 * A growing run of bytes.  Without memory nothing is added and is_cut stays
 * set until bytes_clear() or bytes_cut(), so that the owner checks once, at
 * the end.  Context: one thread at a time (the writer's).
 */
struct bytes {
	char *data;
	size_t len, size;
	bool is_cut;
};

void bytes_fini(struct bytes *bytes);

/* Makes room for `more` bytes behind the last one.  NULL without memory. */
char *bytes_grow(struct bytes *bytes, size_t more);

/* Copies; the result ends in a zero that is not counted.  NULL: no memory. */
char *bytes_copy(const char *text, size_t len);

static inline char *bytes_room(struct bytes *bytes, size_t more)
{
	if (bytes->data && bytes->size - bytes->len >= more)
		return bytes->data + bytes->len;
	return bytes_grow(bytes, more);
}

/* Says where the caller of bytes_room() stopped writing. */
static inline void bytes_end(struct bytes *bytes, const char *end)
{
	bytes->len = (size_t)(end - bytes->data);
}

static inline void bytes_add(struct bytes *bytes, const void *from, size_t len)
{
	char *to = bytes_room(bytes, len);

	if (to && len) {
		memcpy(to, from, len);
		bytes->len += len;
	}
}

/* Forgets what lies behind `len`. */
static inline void bytes_cut(struct bytes *bytes, size_t len)
{
	bytes->len = len;
	bytes->is_cut = false;
}

static inline void bytes_clear(struct bytes *bytes)
{
	bytes_cut(bytes, 0);
}

#endif
