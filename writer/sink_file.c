/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collector/log.h"
#include "collector/own_thread.h"
#include "writer/at.h"
#include "writer/sink.h"
#include "writer/twin.h"

/*
 * A file that is complete at every moment, also when SIGKILL cuts a write:
 *
 *          NAME                      .NAME.gputrace-twin
 *     [ body | tail ]  seen          [ body (older) | old tail ]
 *
 * A commit brings the twin up to date (the body that it lacks is copied from
 * NAME, then the new body, then the tail) and exchanges the two names in one
 * system call.  What is seen is never written to.
 */
#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE (1 << 1)
#endif

struct half {
	int fd;
	dev_t dev;
	ino_t ino;
	uint64_t body;          /* bytes of the body that it holds */
};

struct sink_file {
	struct sink sink;
	char path[PATH_MAX], twin[PATH_MAX];
	struct half half[2];
	int seen;               /* half[seen] has the name `path`; -1: none */
	uint64_t body;          /* bytes appended so far */
	bool is_open;           /* the twin has caught up: append to it */
	bool replace;
	int error;              /* the first one; nothing is written after */
};

static struct half *hidden(struct sink_file *file)
{
	return &file->half[file->seen == 0];
}

/* The program may have closed our descriptor and got its number for a file
 * of its own (daemons close all of them): never write there. */
static bool is_ours(const struct half *half)
{
	struct stat st;

	return half->fd >= 0 && !fstat(half->fd, &st) &&
	       st.st_dev == half->dev && st.st_ino == half->ino;
}

static int identify(struct half *half)
{
	struct stat st;

	if (fstat(half->fd, &st))
		return -errno;
	half->dev = st.st_dev;
	half->ino = st.st_ino;
	return 0;
}

/* Held while we live: so another run knows that it is no leftover.  One that
 * looks just now (twin_remove_stale()) holds it for a moment, and may have
 * removed it: then -ESTALE. */
static int hold(int fd)
{
	struct stat st;

	(void)flock(fd, LOCK_EX);
	return !fstat(fd, &st) && !st.st_nlink ? -ESTALE : 0;
}

static int open_hidden(struct sink_file *file)
{
	struct half *half = hidden(file);
	int fd, tries;

	for (tries = 0; tries < 10; tries++) {
		fd = open(file->twin, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC |
			  O_NOFOLLOW, 0600);
		if (fd < 0)
			return -errno;
		if (!hold(fd))
			break;
		close(fd);
		fd = -1;
	}
	if (fd < 0)
		return -ESTALE;
	half->fd = fd;
	half->body = 0;
	return identify(half);
}

/* A descriptor that is no longer ours is left alone; the file is found again
 * by its name. */
static int check_half(struct half *half, const char *path)
{
	struct stat st;
	int fd;

	if (is_ours(half))
		return 0;
	half->fd = -1;
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_dev != half->dev ||
	    st.st_ino != half->ino) {
		close(fd);
		return -ESTALE;
	}
	half->fd = fd;
	(void)flock(fd, LOCK_EX | LOCK_NB);
	return 0;
}

static int copy_by_hand(int from, int to, uint64_t offset, uint64_t end)
{
	char buffer[16 << 10];
	size_t len;
	int err = 0;

	for (; !err && offset < end; offset += len) {
		len = end - offset < sizeof(buffer) ? (size_t)(end - offset) :
			sizeof(buffer);
		err = read_at(from, buffer, len, offset);
		if (!err)
			err = write_at(to, buffer, len, offset);
	}
	return err;
}

/* copy_file_range() is glibc 2.27, the system call Linux 4.5; file systems
 * may refuse it. */
static int copy_range(int from, int to, uint64_t offset, uint64_t end)
{
	while (offset < end) {
		loff_t in = (loff_t)offset, out = in;
		long n = syscall(SYS_copy_file_range, from, &in, to, &out,
				 (size_t)(end - offset), 0);

		if (n <= 0)
			return copy_by_hand(from, to, offset, end);
		offset += (uint64_t)n;
	}
	return 0;
}

/* Makes the hidden half ready to be appended to. */
static int catch_up(struct sink_file *file)
{
	struct half *to = hidden(file), *from;
	int err;

	if (file->is_open)
		return check_half(to, file->twin);
	if (file->seen >= 0) {
		from = &file->half[file->seen];
		err = check_half(from, file->path);
		if (!err)
			err = to->ino ? check_half(to, file->twin) :
				open_hidden(file);
		if (!err)
			err = copy_range(from->fd, to->fd, to->body,
					 from->body);
		if (err)
			return err;
		to->body = from->body;
	} else {
		err = check_half(to, file->twin);
		if (err)
			return err;
	}
	file->is_open = true;
	return 0;
}

static int fail(struct sink_file *file, int err)
{
	static const struct {
		int err;
		const char *advice;
	} table[] = {
		{ ENOSPC, "free some space or set GPUTRACE_MAX_SIZE" },
		{ EDQUOT, "free some space or set GPUTRACE_MAX_SIZE" },
		{ EFBIG, "set GPUTRACE_MAX_SIZE below the file size limit" },
		{ EROFS, "set GPUTRACE_OUT to a folder that can be written" },
		{ EACCES, "set GPUTRACE_OUT to a folder that can be written" },
		{ ENOENT, "the folder is gone: set GPUTRACE_OUT to one that "
			  "stays" },
		{ ESTALE, "the file was removed or replaced" },
	};
	const char *advice = "set GPUTRACE_OUT to another place";
	char reason[128] = "";
	size_t i;

	if (!err || file->error)
		return file->error;
	file->error = err;
	for (i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (table[i].err == -err)
			advice = table[i].advice;
	twin_reason(-err, reason, sizeof(reason));
	log_line(LOG_WARN, "cannot write %s: %s; tracing stops, %s; %s",
		 file->path, reason, file->seen >= 0 ?
		 "what was written stays valid" : "there is no file", advice);
	if (file->seen < 0 || is_ours(hidden(file)))
		(void)unlink(file->twin);
	return err;
}

static int cut(const struct half *half, uint64_t size)
{
	if (!is_ours(half))
		return -EBADF;
	return ftruncate(half->fd, (off_t)size) ? -errno : 0;
}

/* The hidden half is the body and these bytes.  -EBADF: the program closed our
 * descriptor in this moment, which it cannot where the writer's are apart. */
static int write_end(struct sink_file *file, const void *bytes, size_t len)
{
	int err, tries = 5;

	do {
		err = catch_up(file);
		if (!err)
			err = write_at(hidden(file)->fd, bytes, len,
					file->body);
		if (!err)
			err = cut(hidden(file), file->body + len);
	} while (err == -EBADF && --tries);
	return err;
}

static int file_append(struct sink *sink, const void *bytes, size_t len)
{
	struct sink_file *file = (struct sink_file *)sink;
	int err = file->error ? file->error : write_end(file, bytes, len);

	if (err)
		return fail(file, err);
	file->body += len;
	return 0;
}

/* The first commit: the name must not be anybody else's by then. */
static int appear(struct sink_file *file)
{
	if (file->replace)
		return rename(file->twin, file->path) ? -errno : 0;
	if (!link(file->twin, file->path))
		return unlink(file->twin) ? -errno : 0;
	if (errno == EEXIST)
		return -EEXIST;
	/* A file system without hard links. */
	if (!syscall(SYS_renameat2, AT_FDCWD, file->twin, AT_FDCWD, file->path,
		     1 /* RENAME_NOREPLACE */))
		return 0;
	if (errno == EEXIST || !access(file->path, F_OK))
		return -EEXIST;
	return rename(file->twin, file->path) ? -errno : 0;
}

static int exchange(struct sink_file *file)
{
	char spare[PATH_MAX];

	if (!syscall(SYS_renameat2, AT_FDCWD, file->twin, AT_FDCWD, file->path,
		     RENAME_EXCHANGE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS && errno != EPERM)
		return -errno;
	/* A file system that cannot exchange: the seen file gets a second
	 * name, then the twin takes over its first in one step. */
	if (strlen(file->twin) + 2 > sizeof(spare))
		return -ENAMETOOLONG;
	strcpy(spare, file->twin);
	strcat(spare, "2");
	(void)unlink(spare);
	if (link(file->path, spare)) {
		/* Nor hard links: give the older half up, and make a new
		 * one at the next commit. */
		if (rename(file->twin, file->path))
			return -errno;
		return 1;
	}
	if (rename(file->twin, file->path) || rename(spare, file->twin))
		return -errno;
	return 0;
}

static bool is_named(const struct half *half, const char *path)
{
	struct stat st;

	return !lstat(path, &st) && st.st_dev == half->dev &&
	       st.st_ino == half->ino;
}

static int swap(struct sink_file *file)
{
	struct half *was_seen;
	int err;

	if (file->seen < 0) {
		err = appear(file);
		if (!err)
			file->seen = 0;
		return err;
	}
	/* Whoever moved our file away may have put one of his there. */
	if (!is_named(&file->half[file->seen], file->path) ||
	    !is_named(hidden(file), file->twin))
		return -ESTALE;
	err = exchange(file);
	if (err < 0)
		return err;
	was_seen = &file->half[file->seen];
	file->seen = !file->seen;
	if (err > 0) {
		close(was_seen->fd);
		memset(was_seen, 0, sizeof(*was_seen));
		was_seen->fd = -1;
	}
	return 0;
}

static int file_commit(struct sink *sink, const void *tail, size_t len)
{
	struct sink_file *file = (struct sink_file *)sink;
	struct half *half = hidden(file);
	int err = file->error ? file->error : write_end(file, tail, len);

	if (!err)
		err = swap(file);
	if (err)
		return fail(file, err);
	half->body = file->body;
	file->is_open = false;
	return 0;
}

static uint64_t file_size(const struct sink *sink, size_t tail_len)
{
	return ((const struct sink_file *)sink)->body + tail_len;
}

static void file_close(struct sink *sink)
{
	struct sink_file *file = (struct sink_file *)sink;
	int i;

	if (is_ours(hidden(file)))
		(void)unlink(file->twin);
	for (i = 0; i < 2; i++)
		if (is_ours(&file->half[i]))
			close(file->half[i].fd);
	free(file);
}

static void file_forget(struct sink *sink)
{
	struct sink_file *file = (struct sink_file *)sink;
	int i;

	for (i = 0; i < 2; i++) {
		/* The child has none of the writer's own descriptors. */
		if (!own_thread_files_are_apart() && is_ours(&file->half[i]))
			close(file->half[i].fd);
		file->half[i].fd = -1;
	}
}

static const struct sink_ops file_ops = {
	.forget = file_forget,
	.append = file_append,
	.commit = file_commit,
	.size = file_size,
	.close = file_close,
};

struct sink *sink_file_create(const char *path, int replace, int *error)
{
	struct sink_file *file = calloc(1, sizeof(*file));

	*error = -ENOMEM;
	if (!file)
		return NULL;
	file->sink.ops = &file_ops;
	file->half[0].fd = file->half[1].fd = -1;
	file->seen = -1;
	file->replace = replace;
	*error = -ENAMETOOLONG;
	if (strlen(path) < sizeof(file->path) &&
	    !twin_path(path, file->twin, sizeof(file->twin))) {
		strcpy(file->path, path);
		*error = open_hidden(file);
		/* Another run may have made it while we looked. */
		if (!*error && !replace && !access(path, F_OK)) {
			(void)unlink(file->twin);
			close(file->half[0].fd);
			*error = -EEXIST;
		}
		if (!*error)
			return &file->sink;
	}
	free(file);
	return NULL;
}
