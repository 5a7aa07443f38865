/* SPDX-License-Identifier: MIT */
#include "tools/control_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/doctor_look.h"
#include "tools/trace.h"

/* ---- Names ---- */

static void put_value(char letter, const struct target *t, char *text,
		      size_t size)
{
	time_t now = time(NULL);
	struct tm tm;

	text[0] = '\0';
	if (letter == 'p') {
		snprintf(text, size, "%ld", t->pid);
	} else if (letter == 'n') {
		snprintf(text, size, "%s", t->name);
		for (; *text; text++)
			if (*text == '/')
				*text = '_';
	} else if (letter == 't' && gmtime_r(&now, &tm)) {
		strftime(text, size, "%Y%m%dT%H%M%S", &tm);
	} else if (letter == '%') {
		snprintf(text, size, "%%");
	}
}

bool control_name(const char *pattern, const struct target *t, char *path,
		  size_t size)
{
	char value[128];
	size_t at = 0, len;

	for (; *pattern; pattern++) {
		value[0] = *pattern;
		value[1] = '\0';
		if (*pattern == '%' && pattern[1] &&
		    strchr("pnt%", pattern[1]))
			put_value(*++pattern, t, value, sizeof(value));
		len = strlen(value);
		if (len >= size - at)
			return false;
		memcpy(path + at, value, len + 1);
		at += len;
	}
	return at > 0;
}

bool control_name_is_shared(const char *pattern)
{
	for (; *pattern; pattern++) {
		if (*pattern != '%')
			continue;
		if (*++pattern == 'p')
			return false;
		if (!*pattern)
			break;
	}
	return true;
}

/* ---- Drafts ---- */

static bool is_gz(const char *path)
{
	size_t len = strlen(path);

	return len > 3 && !strcmp(path + len - 3, ".gz");
}

int draft_open(struct draft *d, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	struct stat st;

	d->fd = -1;
	d->is_gz = is_gz(path);
	if (!*name || !strcmp(path, "-") || (!stat(path, &st) && !S_ISREG(st.st_mode)))
		return -EINVAL;
	if ((size_t)snprintf(d->path, sizeof(d->path), "%s", path) >=
	    sizeof(d->path) ||
	    (size_t)snprintf(d->hidden, sizeof(d->hidden), "%.*s.%s.XXXXXX",
			     (int)(name - path), path, name) >=
	    sizeof(d->hidden))
		return -ENAMETOOLONG;
	d->fd = mkostemp(d->hidden, O_CLOEXEC);
	return d->fd < 0 ? -errno : 0;
}

static void finish(struct draft *d)
{
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
}

int draft_keep(struct draft *d)
{
	int error = rename(d->hidden, d->path) ? -errno : 0;

	finish(d);
	return error;
}

void draft_drop(struct draft *d)
{
	if (d->fd >= 0)
		(void)unlink(d->hidden);
	finish(d);
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

/* ---- Files of the process ---- */

static int open_root(struct look *root, const struct target *t)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/root", t->pid);
	return look_init(root, path);
}

static int copy(int from, int to)
{
	static char bytes[1 << 16];
	off_t at = 0;
	ssize_t n, done;

	while ((n = read(from, bytes, sizeof(bytes)))) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		for (ssize_t i = 0; i < n; i += done, at += done) {
			done = pwrite(to, bytes + i, (size_t)(n - i), at);
			if (done <= 0)
				return done ? -errno : -EIO;
		}
	}
	return ftruncate(to, at) ? -errno : 0;
}

static void remove_inside(const struct look *root, const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];
	int fd;

	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path) + 1,
		 path);
	fd = look_open(root, folder, O_PATH | O_DIRECTORY);
	if (fd < 0)
		return;
	(void)unlinkat(fd, slash + 1, 0);
	close(fd);
}

int control_fetch(const struct target *t, const char *path, struct draft *to,
		  bool removes)
{
	struct look root;
	struct stat st;
	int fd = open_root(&root, t), error;

	if (!fd)
		fd = *path == '/' ? look_open(&root, path, O_RDONLY |
				O_NONBLOCK | O_NOCTTY | O_NOFOLLOW) : -EINVAL;
	error = fd < 0 ? fd : fstat(fd, &st) ? -errno :
		S_ISREG(st.st_mode) ? copy(fd, to->fd) : -EINVAL;
	if (fd >= 0)
		close(fd);
	if (!error && removes)
		remove_inside(&root, path);
	look_fini(&root);
	return error;
}

void control_see(const struct target *t, const char *path, char *seen,
		 size_t size)
{
	struct look root;
	struct stat ours, theirs;
	int fd = open_root(&root, t);
	bool is_same;

	if (!fd)
		fd = look_open(&root, path, O_PATH);
	is_same = fd < 0 || (!fstat(fd, &theirs) && !stat(path, &ours) &&
			     theirs.st_dev == ours.st_dev &&
			     theirs.st_ino == ours.st_ino);
	if (fd >= 0)
		close(fd);
	look_fini(&root);
	if (is_same)
		snprintf(seen, size, "%s", path);
	else
		snprintf(seen, size, "/proc/%ld/root%s", t->pid, path);
}
