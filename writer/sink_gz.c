/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <libdeflate.h>
#include <stdlib.h>

#include "writer/sink.h"

/*
 * gzip members, one after another (RFC 1952, section 2.2): every reader takes
 * them as one file, and a body made of whole members can get a new tail, which
 * is a member of its own, without being compressed again.
 */
enum {
	/* A member: deflate's window is 32 KiB, so larger ones gain little;
	 * 1 MiB costs 18 bytes of frame and a fresh dictionary each. */
	MEMBER_MAX = 1 << 20,
	/* Level 1: libdeflate's fastest that compresses; see bench/writer. */
	LEVEL = 1,
};

struct sink_gz {
	struct sink sink;
	struct sink *below;
	struct libdeflate_compressor *compressor;
	struct bytes raw;               /* not yet a member */
	struct bytes packed;
	size_t tail_len, tail_packed;   /* of the last commit */
	int error;                      /* the first one */
};

static int pack(struct sink_gz *gz, const void *bytes, size_t len)
{
	size_t bound = libdeflate_gzip_compress_bound(gz->compressor, len);
	char *to;
	size_t n;

	bytes_clear(&gz->packed);
	to = bytes_room(&gz->packed, bound);
	if (!to)
		return -ENOMEM;
	n = libdeflate_gzip_compress(gz->compressor, bytes, len, to, bound);
	gz->packed.len = n;
	return n ? 0 : -ENOMEM;
}

static int append_member(struct sink_gz *gz, const void *bytes, size_t len)
{
	int err = len ? pack(gz, bytes, len) : 0;

	return err || !len ? err : sink_append(gz->below, &gz->packed);
}

static int gz_append(struct sink *sink, const void *bytes, size_t len)
{
	struct sink_gz *gz = (struct sink_gz *)sink;
	const char *at = bytes;
	size_t n;

	while (len && !gz->error) {
		n = MEMBER_MAX - gz->raw.len;
		n = n < len ? n : len;
		bytes_add(&gz->raw, at, n);
		if (gz->raw.is_cut)
			gz->error = -ENOMEM;
		at += n;
		len -= n;
		if (gz->error || gz->raw.len < MEMBER_MAX)
			break;
		gz->error = append_member(gz, gz->raw.data, gz->raw.len);
		bytes_clear(&gz->raw);
	}
	return gz->error;
}

static int gz_commit(struct sink *sink, const void *tail, size_t len)
{
	struct sink_gz *gz = (struct sink_gz *)sink;
	const char *at = tail;
	struct bytes members = { 0 };
	size_t n, tail_len = len;
	int err = gz->error;

	if (!err)
		err = append_member(gz, gz->raw.data, gz->raw.len);
	bytes_clear(&gz->raw);
	for (; !err && len; at += n, len -= n) {
		n = len < MEMBER_MAX ? len : MEMBER_MAX;
		err = pack(gz, at, n);
		bytes_add(&members, gz->packed.data, gz->packed.len);
	}
	if (!err)
		err = members.is_cut ? -ENOMEM :
			sink_commit(gz->below, &members);
	gz->tail_len = tail_len;
	gz->tail_packed = members.len;
	bytes_fini(&members);
	gz->error = err;
	return err;
}

/* What is not yet compressed counts half; it shrinks to a tenth as a rule.
 * Right behind a commit its own tail is known. */
static uint64_t gz_size(const struct sink *sink, size_t tail_len)
{
	const struct sink_gz *gz = (const struct sink_gz *)sink;

	if (!gz->raw.len && tail_len && tail_len == gz->tail_len)
		return sink_size(gz->below, gz->tail_packed);
	return sink_size(gz->below, (gz->raw.len + tail_len) / 2);
}

static void gz_close(struct sink *sink)
{
	struct sink_gz *gz = (struct sink_gz *)sink;

	sink_close(gz->below);
	libdeflate_free_compressor(gz->compressor);
	bytes_fini(&gz->raw);
	bytes_fini(&gz->packed);
	free(gz);
}

static void gz_forget(struct sink *sink)
{
	struct sink *below = ((struct sink_gz *)sink)->below;

	below->ops->forget(below);
}

static const struct sink_ops gz_ops = {
	.append = gz_append,
	.commit = gz_commit,
	.size = gz_size,
	.forget = gz_forget,
	.close = gz_close,
};

struct sink *sink_gz_create(struct sink *below)
{
	struct sink_gz *gz = calloc(1, sizeof(*gz));

	if (!gz)
		return NULL;
	gz->sink.ops = &gz_ops;
	gz->below = below;
	gz->compressor = libdeflate_alloc_compressor(LEVEL);
	if (gz->compressor)
		return &gz->sink;
	free(gz);
	return NULL;
}

bool sink_is_gz(const struct sink *sink)
{
	return sink->ops == &gz_ops;
}

int sink_gz_member(struct sink *sink, const void *member, size_t len)
{
	struct sink_gz *gz = (struct sink_gz *)sink;

	if (!gz->error)
		gz->error = append_member(gz, gz->raw.data, gz->raw.len);
	bytes_clear(&gz->raw);
	if (!gz->error)
		gz->error = gz->below->ops->append(gz->below, member, len);
	return gz->error;
}
