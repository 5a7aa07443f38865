/* SPDX-License-Identifier: MIT */
#include "tools/draft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/trace.h"

static bool is_gz(const char *path)
{
	size_t len = strlen(path);

	return len > 3 && !strcmp(path + len - 3, ".gz");
}

/* As it was given, but for a link, whose file it is. */
static int find_place(struct draft *d, const char *path)
{
	struct stat st;

	if (!stat(path, &st)) {
		if (!S_ISREG(st.st_mode))
			return -EINVAL;
		if (!lstat(path, &st) && S_ISLNK(st.st_mode))
			return realpath(path, d->path) ? 0 : -errno;
	}
	return (size_t)snprintf(d->path, sizeof(d->path), "%s", path) <
		sizeof(d->path) ? 0 : -ENAMETOOLONG;
}

int draft_open(struct draft *d, const char *path)
{
	const char *slash, *name;
	int error = find_place(d, path);

	d->fd = -1;
	d->is_gz = is_gz(path);
	if (error)
		return error;
	slash = strrchr(d->path, '/');
	name = slash ? slash + 1 : d->path;
	if (!*name)
		return -EINVAL;
	if ((size_t)snprintf(d->hidden, sizeof(d->hidden), "%.*s.%s.XXXXXX",
			     (int)(name - d->path), d->path, name) >=
	    sizeof(d->hidden))
		return -ENAMETOOLONG;
	d->fd = mkostemp(d->hidden, O_CLOEXEC);
	return d->fd < 0 ? -errno : 0;
}

int draft_keep(struct draft *d)
{
	int error = close(d->fd) ? -errno : 0;

	d->fd = -1;
	if (!error && rename(d->hidden, d->path))
		error = -errno;
	return error;
}

void draft_drop(struct draft *d)
{
	if (d->fd < 0)
		return;
	(void)unlink(d->hidden);
	close(d->fd);
	d->fd = -1;
}

bool draft_is_whole(const struct draft *d)
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
