/* SPDX-License-Identifier: MIT */
#include "tools/input.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "tools/json.h"

enum {
	WINDOW = 512 << 10,     /* stays in the second-level cache */
	PACKED = 128 << 10,
};

struct unpacker {
	z_stream z;
	bool in_member;         /* between a header and its trailer */
	bool file_ended;
	unsigned char packed[PACKED];
};

static int fail(struct input *in, int err, const char *why)
{
	snprintf(in->why, sizeof(in->why), "%s", why);
	return err;
}

/* Returns bytes read, 0 at the end, or -errno. */
static ssize_t read_file(struct input *in, void *to, size_t size)
{
	ssize_t n;

	do
		n = read(in->fd, to, size);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return fail(in, -errno, strerror(errno));
	in->packed_read += n;
	return n;
}

static int damaged(struct input *in, const char *what)
{
	snprintf(in->why, sizeof(in->why),
		 "gzip data: %s, near byte %" PRIu64 " of the packed file",
		 what, in->packed_read - in->unpacker->z.avail_in);
	return -EBADMSG;
}

/* Begins the next member; returns 1, 0 at the end of the file, or -errno.
 * Zero bytes behind a member are padding, as gzip(1) takes it. */
static int next_member(struct input *in)
{
	struct unpacker *u = in->unpacker;

	for (;;) {
		while (u->z.avail_in && !*u->z.next_in) {
			u->z.next_in++;
			u->z.avail_in--;
		}
		if (u->z.avail_in)
			break;
		if (u->file_ended)
			return 0;
		ssize_t n = read_file(in, u->packed, PACKED);

		if (n < 0)
			return n;
		u->file_ended = !n;
		u->z.next_in = u->packed;
		u->z.avail_in = n;
	}
	if (inflateReset(&u->z) != Z_OK)
		return damaged(in, "no new member");
	u->in_member = true;
	return 1;
}

static int feed(struct input *in)
{
	struct unpacker *u = in->unpacker;
	ssize_t n;

	if (u->z.avail_in)
		return 0;
	n = read_file(in, u->packed, PACKED);
	if (n < 0)
		return n;
	if (!n)
		return damaged(in, "the file is cut");
	u->z.next_in = u->packed;
	u->z.avail_in = n;
	return 0;
}

/* Returns bytes unpacked, 0 at the end, or -errno. */
static ssize_t unpack(struct input *in, char *to, size_t size)
{
	struct unpacker *u = in->unpacker;
	int err;

	u->z.next_out = (unsigned char *)to;
	u->z.avail_out = size;
	while (u->z.avail_out == size) {
		err = u->in_member ? 1 : next_member(in);
		if (err <= 0)
			return err;
		err = feed(in);
		if (err)
			return err;
		err = inflate(&u->z, Z_NO_FLUSH);
		if (err == Z_STREAM_END)
			u->in_member = false;
		else if (err != Z_OK && err != Z_BUF_ERROR)
			return damaged(in, u->z.msg ? u->z.msg : "damaged");
	}
	return size - u->z.avail_out;
}

static int unpacker_create(struct input *in, const char *seen, size_t len)
{
	struct unpacker *u = calloc(1, sizeof(*u));

	if (!u || inflateInit2(&u->z, 16 + MAX_WBITS) != Z_OK) {
		free(u);
		return fail(in, -ENOMEM, "out of memory");
	}
	memcpy(u->packed, seen, len);
	u->z.next_in = u->packed;
	u->z.avail_in = len;
	u->in_member = true;
	in->unpacker = u;
	return 0;
}

static void set_end(struct input *in, char *end)
{
	in->end = end;
	memset(end, 0, JSON_PAD);
}

/* The first bytes decide: gzip or plain. */
static int detect(struct input *in)
{
	ssize_t len = 0, n = 1;

	while (len < 2 && n > 0) {
		n = read_file(in, in->buf + len, 4096);
		if (n < 0)
			return n;
		len += n;
	}
	set_end(in, in->buf + len);
	if (len < 2 || memcmp(in->buf, "\x1f\x8b", 2))
		return 0;
	n = unpacker_create(in, in->buf, len);
	set_end(in, in->buf);
	return n;
}

int input_open(struct input *in, int fd)
{
	int err;

	memset(in, 0, sizeof(*in));
	in->fd = fd;
	in->cap = WINDOW;
	in->buf = malloc(in->cap + JSON_PAD);
	err = in->buf ? detect(in) : fail(in, -ENOMEM, "out of memory");
	if (err)
		input_close(in);
	return err;
}

void input_close(struct input *in)
{
	if (in->unpacker)
		inflateEnd(&in->unpacker->z);
	free(in->unpacker);
	free(in->buf);
	if (in->fd > 0)
		close(in->fd);
	in->unpacker = NULL;
	in->buf = NULL;
	in->fd = -1;
}

static int widen(struct input *in)
{
	char *wider;

	if (in->cap >= INPUT_MAX)
		return fail(in, -EFBIG, "one value is longer than 64 MiB");
	wider = realloc(in->buf, 2 * in->cap + JSON_PAD);
	if (!wider)
		return fail(in, -ENOMEM, "out of memory");
	in->end = wider + (in->end - in->buf);
	in->buf = wider;
	in->cap *= 2;
	return 0;
}

int input_fill(struct input *in, const char **keep)
{
	size_t kept = in->end - *keep;
	ssize_t n;
	int err;

	memmove(in->buf, *keep, kept);
	in->base += *keep - in->buf;
	in->end = in->buf + kept;
	if (kept > in->cap / 2) {
		err = widen(in);
		if (err)
			return err;
	}
	*keep = in->buf;
	n = in->unpacker ? unpack(in, in->end, in->cap - kept) :
		read_file(in, in->end, in->cap - kept);
	in->eof = !n;
	set_end(in, in->end + (n > 0 ? n : 0));
	return n < 0 ? n : 0;
}
