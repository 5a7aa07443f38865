/* SPDX-License-Identifier: MIT */
#include "tools/draft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/mend.h"
#include "tools/trace.h"

static bool is_gz(const char *path)
{
	size_t len = strlen(path);

	return len > 3 && !strcmp(path + len - 3, ".gz");
}

/* The file that is replaced: a link (/dev/stdout, too) is not put aside. */
static const char *behind_links(const char *path, char real[PATH_MAX])
{
	struct stat st;

	return !lstat(path, &st) && S_ISLNK(st.st_mode) &&
		realpath(path, real) ? real : path;
}

static bool name_hidden(struct draft *d)
{
	const char *slash = strrchr(d->real, '/');
	const char *name = slash ? slash + 1 : d->real;

	return (size_t)snprintf(d->hidden, sizeof(d->hidden), "%.*s.%s.XXXXXX",
				(int)(name - d->real), d->real, name) <
		sizeof(d->hidden);
}

int draft_open(struct draft *d, const char *path)
{
	size_t len = strlen(path);
	char real[PATH_MAX];
	struct stat st;

	d->fd = -1;
	d->is_there = false;
	d->is_gz = is_gz(path);
	if (!len || path[len - 1] == '/' || !strcmp(path, "-") ||
	    (!stat(path, &st) && !S_ISREG(st.st_mode)))
		return -EINVAL;
	if (len >= sizeof(d->path))
		return -ENAMETOOLONG;
	memcpy(d->path, path, len + 1);
	snprintf(d->real, sizeof(d->real), "%s", behind_links(path, real));
	if (!name_hidden(d))
		return -ENAMETOOLONG;
	d->fd = mkostemp(d->hidden, O_CLOEXEC);
	return d->fd < 0 ? -errno : 0;
}

void draft_drop(struct draft *d)
{
	if (d->fd < 0)
		return;
	(void)unlink(d->hidden);
	close(d->fd);
	d->fd = -1;
}

int draft_keep(struct draft *d)
{
	int error;

	if (d->is_there) {
		draft_drop(d);
		return 0;
	}
	error = close(d->fd) ? -errno : 0;
	d->fd = -1;
	if (!error && rename(d->hidden, d->real))
		error = -errno;
	return error;
}

/* The offset is shared with whoever has the descriptor: pread(). */
int draft_fill(struct draft *d, int from)
{
	static char bytes[1 << 16];
	off_t at = 0;
	ssize_t n, done;

	while ((n = pread(from, bytes, sizeof(bytes), at))) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		for (ssize_t i = 0; i < n; i += done, at += done) {
			done = pwrite(d->fd, bytes + i, (size_t)(n - i), at);
			if (done <= 0)
				return done ? -errno : -EIO;
		}
	}
	return ftruncate(d->fd, at) ? -errno : 0;
}

int draft_copy(const struct draft *d, struct draft *copy)
{
	int error;

	*copy = *d;
	copy->fd = -1;
	if (!name_hidden(copy))
		return -ENAMETOOLONG;
	copy->fd = mkostemp(copy->hidden, O_CLOEXEC);
	error = copy->fd < 0 ? -errno : draft_fill(copy, d->fd);
	if (error)
		draft_drop(copy);
	return error;
}

static bool is_whole(const struct draft *d)
{
	struct trace_problem problem;
	struct trace_event event;
	struct trace *trace = trace_open(d->hidden, 0, &problem);
	int more = 1;

	while (trace && more > 0)
		more = trace_next(trace, &event);
	if (trace)
		trace_close(trace);
	return trace && !more;
}

bool draft_settle(struct draft *d)
{
	return is_whole(d) || (mend_tail(d->fd) > 0 && is_whole(d));
}
