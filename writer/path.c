/* SPDX-License-Identifier: MIT */
#include "writer/path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "writer/sink.h"
#include "writer/twin.h"

/* Runs of one name in one folder that we look past. */
enum { NUMBERS_MAX = 10000 };

/* Names go into a path: no folder can come out of them. */
static int put_name(char *to, size_t size, const char *name)
{
	int len = snprintf(to, size, "%s", name), i;

	for (i = 0; i < len && (size_t)i < size; i++)
		if (to[i] == '/')
			to[i] = '_';
	return len;
}

static int put_time(char *to, size_t size, uint64_t t_ns)
{
	time_t seconds = (time_t)(t_ns / 1000000000);
	struct tm tm;

	if (!gmtime_r(&seconds, &tm))
		return snprintf(to, size, "0");
	return snprintf(to, size, "%04d%02d%02dT%02d%02d%02d",
			tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
			tm.tm_hour, tm.tm_min, tm.tm_sec);
}

/* Fills one %x in; returns its length, or -1 for no such letter. */
static int put_value(char *to, size_t size, char letter,
		     const struct path_values *values)
{
	switch (letter) {
	case 'p':
		return snprintf(to, size, "%u", values->pid);
	case 'r':
		return snprintf(to, size, "%u", values->rank);
	case 'h':
		return put_name(to, size, values->host);
	case 'n':
		return put_name(to, size, values->program);
	case 't':
		return put_time(to, size, values->start_ns);
	case 'w':
		return snprintf(to, size, "%u", values->window);
	case '%':
		return snprintf(to, size, "%%");
	default:
		return -1;
	}
}

bool path_has_window(const char *pattern)
{
	for (; *pattern; pattern++) {
		if (*pattern != '%')
			continue;
		if (*++pattern == 'w')
			return true;
		if (!*pattern)
			return false;
	}
	return false;
}

int path_expand(const char *pattern, const struct path_values *values,
		char *path, size_t size, bool *is_pattern)
{
	size_t at = 0;
	int len;

	*is_pattern = false;
	for (; *pattern && at + 1 < size; pattern++) {
		len = *pattern == '%' ? put_value(path + at, size - at,
						  pattern[1], values) : -1;
		if (len < 0) {
			path[at++] = *pattern;
			continue;
		}
		*is_pattern |= pattern[1] != '%';
		pattern++;
		at += (size_t)len;
	}
	if (*pattern || at >= size)
		return -ENAMETOOLONG;
	path[at] = 0;
	return 0;
}

/* Compressed or not. */
static bool is_gz(const char *path)
{
	size_t len = strlen(path);

	return len > 3 && !strcmp(path + len - 3, ".gz");
}

int path_insert(const char *path, const char *what, char *out, size_t size)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	const char *end = path + strlen(path);
	const char *dot;
	int len;

	if (is_gz(path))
		end -= 3;
	for (dot = end; dot > name && dot[-1] != '.'; dot--)
		;
	/* ".gz" alone, or no extension at all: behind the whole name */
	dot = dot > name + 1 ? dot - 1 : end;
	len = snprintf(out, size, "%.*s%s%s", (int)(dot - path), path, what,
		       dot);
	return len > 0 && (size_t)len < size ? 0 : -ENAMETOOLONG;
}

static struct sink *open_plain(const char *path, bool replace, int *error)
{
	struct sink *file = sink_file_create(path, replace, error);
	struct sink *gz;

	if (!file || !is_gz(path))
		return file;
	gz = sink_gz_create(file);
	if (!gz) {
		sink_close(file);
		*error = -ENOMEM;
	}
	return gz;
}

static struct sink *open_numbered(char *path, size_t size, int *error)
{
	char next[PATH_MAX], number[16];
	struct sink *sink = NULL;
	int i;

	for (i = 1; i <= NUMBERS_MAX; i++) {
		number[0] = 0;
		if (i > 1)
			snprintf(number, sizeof(number), "-%d", i);
		*error = path_insert(path, number, next, sizeof(next));
		if (*error)
			return NULL;
		*error = -EEXIST;
		if (access(next, F_OK))
			sink = open_plain(next, false, error);
		if (sink || *error != -EEXIST)
			break;
	}
	if (sink)
		snprintf(path, size, "%s", next);
	return sink;
}

struct sink *path_open_sink(char *path, size_t size, bool is_pattern,
			    uint32_t pid, int *error)
{
	char other[PATH_MAX], suffix[16];
	struct sink *sink;
	struct stat st;

	/* A device or pipe is nothing that a file can take the place of. */
	if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
		*error = -EINVAL;
		return NULL;
	}
	twin_remove_stale(path);
	if (is_pattern)
		return open_numbered(path, size, error);
	if (!twin_is_held(path)) {
		sink = open_plain(path, true, error);
		if (sink || *error != -EEXIST)
			return sink;
	}
	snprintf(suffix, sizeof(suffix), "-%u", pid);
	*error = path_insert(path, suffix, other, sizeof(other));
	if (*error)
		return NULL;
	snprintf(path, size, "%s", other);
	return open_numbered(path, size, error);
}
