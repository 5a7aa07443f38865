/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collector/own_thread.h"
#include "collector/wait.h"
#include "writer/sink.h"

/*
 * A file that somebody else opened, known by its descriptor alone.  There is
 * no name for a twin beside it: the tail is written in place, and the file is
 * complete when it is closed (and, unless a write is cut, between commits).
 *
 * The descriptor is one of the thread that gave it, which has a table of its
 * own as the writer has (own_thread.h): a thread that shares that table does
 * the errands.
 *
 *   writer  --asked-->  gputrace-fd  --done-->  writer
 */
struct sink_fd {
	struct sink sink;
	int fd;
	bool is_disowned;               /* is not closed */
	dev_t dev;
	ino_t ino;
	uint64_t body;
	int error;                      /* the first one */

	_Atomic uint32_t asked, done;   /* errands so far */
	const char *bytes;              /* the errand; NULL: the end */
	size_t len;
	bool is_tail;                   /* the file ends behind them */
	int result;
	_Atomic uint32_t *ended;        /* the asker's */
};

/* ---- On the thread that has the descriptor ---- */

/* The program may have closed it and got its number for another file. */
static bool is_ours(const struct sink_fd *file)
{
	struct stat st;

	return !fstat(file->fd, &st) && st.st_dev == file->dev &&
	       st.st_ino == file->ino;
}

static int write_all(const struct sink_fd *file)
{
	uint64_t offset = file->body;
	const char *at = file->bytes;
	size_t len = file->len;
	ssize_t n;

	while (len) {
		n = pwrite(file->fd, at, len, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		at += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	if (file->is_tail && ftruncate(file->fd, (off_t)offset))
		return -errno;
	return 0;
}

static void *run(void *argument)
{
	struct sink_fd *file = argument;
	_Atomic uint32_t *ended;
	uint32_t seen;

	for (;;) {
		seen = atomic_load(&file->done);
		while (atomic_load(&file->asked) == seen)
			wait_change(&file->asked, seen, UINT64_MAX >> 1);
		if (!file->bytes)
			break;
		file->result = is_ours(file) ? write_all(file) : -EBADF;
		wait_wake(&file->done);
	}
	if (!file->is_disowned && is_ours(file))
		close(file->fd);
	ended = file->ended;
	free(file);
	wait_wake(ended);
	return NULL;
}

/* ---- On the writer's ---- */

static int ask(struct sink_fd *file, const void *bytes, size_t len,
	       bool is_tail)
{
	uint32_t seen = atomic_load(&file->done);

	file->bytes = bytes;
	file->len = len;
	file->is_tail = is_tail;
	wait_wake(&file->asked);
	while (atomic_load(&file->done) == seen)
		wait_change(&file->done, seen, UINT64_MAX >> 1);
	return file->result;
}

static int fd_append(struct sink *sink, const void *bytes, size_t len)
{
	struct sink_fd *file = (struct sink_fd *)sink;

	if (!file->error && len)
		file->error = ask(file, bytes, len, false);
	if (!file->error)
		file->body += len;
	return file->error;
}

static int fd_commit(struct sink *sink, const void *tail, size_t len)
{
	struct sink_fd *file = (struct sink_fd *)sink;

	if (!file->error)
		file->error = ask(file, len ? tail : "", len, true);
	return file->error;
}

static uint64_t fd_size(const struct sink *sink, size_t tail_len)
{
	return ((const struct sink_fd *)sink)->body + tail_len;
}

static void fd_close(struct sink *sink)
{
	struct sink_fd *file = (struct sink_fd *)sink;
	_Atomic uint32_t ended = 0;

	file->bytes = NULL;
	file->ended = &ended;
	wait_wake(&file->asked);
	while (!atomic_load(&ended))
		wait_change(&ended, 0, UINT64_MAX >> 1);
}

/* The thread is not here; the descriptor is, if it is the program's. */
static void fd_forget(struct sink *sink)
{
	struct sink_fd *file = (struct sink_fd *)sink;

	if (is_ours(file))
		close(file->fd);
	file->fd = -1;
	file->error = -EBADF;
}

void sink_fd_disown(struct sink *sink)
{
	((struct sink_fd *)sink)->is_disowned = true;
}

/* 0 if it is a regular file that can be written at any place. */
static int inspect(struct sink_fd *file)
{
	long flags = syscall(SYS_fcntl, file->fd, F_GETFL);
	struct stat st;

	if (flags < 0 || fstat(file->fd, &st))
		return -errno;
	/* With O_APPEND pwrite() goes to the end, whatever its offset. */
	if (!S_ISREG(st.st_mode) || (flags & O_ACCMODE) != O_RDWR ||
	    flags & O_APPEND)
		return -EINVAL;
	file->dev = st.st_dev;
	file->ino = st.st_ino;
	return 0;
}

struct sink *sink_fd_create(int fd, int *error)
{
	static const struct sink_ops ops = {
		.append = fd_append, .commit = fd_commit, .size = fd_size,
		.forget = fd_forget, .close = fd_close,
	};
	struct sink_fd *file = calloc(1, sizeof(*file));

	*error = -ENOMEM;
	if (!file)
		return NULL;
	file->sink.ops = &ops;
	file->fd = fd;
	*error = inspect(file);
	if (!*error)
		*error = own_thread_start("gputrace-fd", run, file);
	if (!*error)
		return &file->sink;
	free(file);
	return NULL;
}
