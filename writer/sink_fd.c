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
#include "writer/at.h"
#include "writer/kept_tail.h"
#include "writer/sink.h"

/*
 * A file that somebody else opened, known by its descriptor alone.  There is
 * no name for a twin beside it: the tail is written over by what comes, after
 * a copy of it was put behind that (kept_tail.h).  So the file is complete
 * when it is closed, also after an error; until then, whatever cuts a write,
 * what was committed last can be had from it.
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

	/* What was committed last; of the thread that has the descriptor. */
	bool is_committed;
	struct kept_tail kept;          /* as its mark in the file is */
	uint64_t safe;                  /* what is before may be written over */

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

/* The tail, to a place that has nothing of it. */
static int copy_tail(const struct sink_fd *file, uint64_t to)
{
	uint64_t from = file->kept.tail_at, left = file->kept.tail_len;
	char bytes[16 << 10];
	int error = 0;
	size_t n;

	for (; !error && left; from += n, to += n, left -= n) {
		n = left < sizeof(bytes) ? (size_t)left : sizeof(bytes);
		error = read_at(file->fd, bytes, n, from);
		if (!error)
			error = write_at(file->fd, bytes, n, to);
	}
	return error;
}

static int put_mark(struct sink_fd *file, uint64_t at, uint64_t tail_at)
{
	struct kept_tail mark = file->kept;
	int error;

	mark.tail_at = tail_at;
	mark.sum = kept_tail_own_sum(&mark);
	error = write_at(file->fd, &mark, sizeof(mark), at);
	if (!error)
		file->kept = mark;
	return error;
}

static bool is_in_place(const struct sink_fd *file)
{
	return file->kept.tail_at == file->kept.body;
}

/* All up to `end` will be written over: the tail is kept behind that.  A copy
 * that is there counts until the next one has its mark. */
static int keep_tail(struct sink_fd *file, uint64_t end)
{
	const uint64_t size = sizeof(file->kept);
	uint64_t at = file->kept.tail_at + file->kept.tail_len;
	int error = 0;

	if (!file->is_committed || end <= file->safe)
		return 0;
	if (at < end)
		at = end;
	at = (at + size - 1) / size * size;
	if (is_in_place(file))
		error = put_mark(file, at, file->kept.tail_at);
	if (!error)
		error = copy_tail(file, at + size);
	if (!error)
		error = put_mark(file, at, at + size);
	if (!error)
		file->safe = at;
	return error;
}

static void note_commit(struct sink_fd *file)
{
	file->is_committed = true;
	file->safe = file->body;
	file->kept = (struct kept_tail){
		.magic = KEPT_TAIL_MAGIC, .body = file->body,
		.tail_at = file->body, .tail_len = file->len,
		.tail_sum = kept_tail_sum(KEPT_TAIL_SUM, file->bytes,
					  file->len),
	};
}

/* The file is what was committed last, if that can be. */
static void restore(struct sink_fd *file)
{
	uint64_t body = file->kept.body;

	if (!file->is_committed ||
	    (!is_in_place(file) && copy_tail(file, body)))
		return;
	if (ftruncate(file->fd, (off_t)(body + file->kept.tail_len)))
		return;
	file->kept.tail_at = file->safe = body;
}

static int do_errand(struct sink_fd *file)
{
	uint64_t end = file->body + file->len;
	int error;

	if (!is_ours(file))
		return -EBADF;
	error = keep_tail(file, end);
	if (!error)
		error = write_at(file->fd, file->bytes, file->len,
				 file->body);
	if (!error && file->is_tail && ftruncate(file->fd, (off_t)end))
		error = -errno;
	if (error)
		restore(file);
	else if (file->is_tail)
		note_commit(file);
	return error;
}

/* What came since the last commit is seen by nobody. */
static void finish(struct sink_fd *file)
{
	if (!is_ours(file))
		return;
	if (!is_in_place(file))
		restore(file);
	if (!file->is_disowned)
		close(file->fd);
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
		file->result = do_errand(file);
		wait_wake(&file->done);
	}
	finish(file);
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
