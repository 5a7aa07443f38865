/* SPDX-License-Identifier: MIT */
#include "tools/control_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/doctor_look.h"
#include "tools/proc_status.h"

enum {
	/* From the first of its threads that is gone to the last; one that
	 * frees much memory takes longer. */
	ENDING_MS = 2000,
	/* A copy of a GB takes as long as GPUTRACE_FLUSH's default. */
	COPIES_MAX = 3,
};

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

	*path = '\0';
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
	return true;
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

/* ---- Files of the process ---- */

static int open_root(struct look *root, const struct target *t)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/root", t->pid);
	return look_init(root, path);
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

/* The process writes on into it, and stops when another is in its place. */
static bool is_in_place(const struct draft *d, const struct stat *st)
{
	struct stat there;

	return !stat(d->real, &there) && there.st_dev == st->st_dev &&
		there.st_ino == st->st_ino;
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
		S_ISREG(st.st_mode) ? 0 : -EINVAL;
	to->is_there = !error && is_in_place(to, &st);
	if (!error && !to->is_there)
		error = draft_fill(to, fd);
	if (fd >= 0)
		close(fd);
	if (!error && removes)
		remove_inside(&root, path);
	look_fini(&root);
	return error;
}

/* With all its threads, each of which may have the descriptor. */
static bool has_ended(const struct look *machine, const struct target *t)
{
	static char status[PROC_STATUS_SIZE];
	const char *state;

	if (proc_status_read(machine, t->pid, status))
		return true;
	state = proc_status_word(status, "State", 0);
	return state && strchr("ZX", *state) &&
		proc_status_number(status, "Threads", 0) <= 1;
}

/* The process writes on.  Where that came in between, the next copy may be
 * good; where there is no room for one, it is looked at as it is. */
static bool rescue_copy(struct draft *d)
{
	struct draft copy;

	for (int tries = 0; tries < COPIES_MAX; tries++) {
		if (draft_copy(d, &copy))
			return draft_settle(d);
		if (draft_settle(&copy)) {
			draft_drop(d);
			*d = copy;
			return true;
		}
		draft_drop(&copy);
	}
	return false;
}

bool control_rescue(const struct look *machine, const struct target *t,
		    struct draft *d, bool is_ending)
{
	const struct timespec nap = { 0, 10000000 };
	int naps = is_ending ? ENDING_MS / 10 : 0;
	bool is_gone;

	while (!(is_gone = has_ended(machine, t)) && naps-- > 0)
		nanosleep(&nap, NULL);
	return is_gone ? draft_settle(d) : rescue_copy(d);
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
