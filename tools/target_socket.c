/* SPDX-License-Identifier: MIT */
/* The control socket of a process, from outside: where it is, or why not. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tools/plain.h"
#include "tools/target.h"

/* Opens the first `len` bytes of a path below the process's root. */
static int open_inside(const struct look *machine, const struct target *t,
		       const char *path, size_t len)
{
	char root[PATH_MAX + 64], part[PATH_MAX];
	struct look inside;
	int fd;

	snprintf(root, sizeof(root), "%s/proc/%ld/root", machine->path,
		 t->pid);
	snprintf(part, sizeof(part), "%.*s", (int)len, path);
	fd = look_init(&inside, root);
	if (!fd)
		fd = look_open(&inside, part, O_PATH);
	look_fini(&inside);
	return fd;
}

/* The socket's path as the process sees it. */
static const char *path_inside(const struct look *machine,
			       const struct target *t)
{
	return t->socket + strlen(machine->path) +
		(size_t)snprintf(NULL, 0, "/proc/%ld/root", t->pid);
}

int target_socket(const struct look *machine, const struct target *t)
{
	const char *path;
	struct stat st;
	int fd, err = 0;

	if (!t->socket[0])
		return -ENOENT;
	path = path_inside(machine, t);
	fd = open_inside(machine, t, path, strlen(path));
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) || !S_ISSOCK(st.st_mode))
		err = -ENOENT;
	else if ((long)st.st_uid != t->socket_uid)
		err = -EPERM;
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* ---- Why there is none ---- */

/* The length of the path without its last part. */
static size_t folder_len(const char *path, size_t len)
{
	while (len && path[len - 1] != '/')
		len--;
	return len ? len - 1 : 0;
}

/* What the folder that should have the socket's folder in it tells. */
static const char *reason_above(int fd, const struct target *t)
{
	struct statvfs fs;
	struct stat st;

	if (fd == -ENOENT || fd == -ENOTDIR)
		return "is not there";
	if (fd == -EACCES || fd == -EPERM)
		return "may not be looked at";
	if (fd >= 0 && !fstatvfs(fd, &fs) && fs.f_flag & ST_RDONLY)
		return "is read-only";
	if (fd >= 0 && t->uid && !fstat(fd, &st) && (long)st.st_uid != t->uid &&
	    !(st.st_mode & (S_IWGRP | S_IWOTH)))
		return "is not for its user to write; name another in TMPDIR";
	return NULL;
}

/* The library takes a folder of its user's alone, and no other. */
static const char *reason_in(int fd, const struct target *t)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return NULL;
	return (long)st.st_uid != t->uid || st.st_mode & 077 ?
		"is not its user's alone (mode 0700)" : NULL;
}

static void close_open(int fd)
{
	if (fd >= 0)
		close(fd);
}

void target_no_socket(const struct look *machine, struct target *t)
{
	const char *path = t->socket[0] ? path_inside(machine, t) : "";
	size_t len = folder_len(path, strlen(path));
	int fd = open_inside(machine, t, path, len);
	const char *reason = reason_in(fd, t);

	close_open(fd);
	if (!reason && fd == -ENOENT) {
		len = folder_len(path, len);
		fd = open_inside(machine, t, path, len);
		reason = reason_above(fd, t);
		close_open(fd);
	}
	t->reach = REACH_NO;
	t->may_come = !reason;
	if (!reason)
		snprintf(t->why, sizeof(t->why), "no socket, and nothing tells "
			 "why: GPUTRACE_LOG=info would");
	else
		snprintf(t->why, sizeof(t->why), "no socket: %.*s %s",
			 (int)(len < 128 ? len : 128), path, reason);
	plain_make(t->why, sizeof(t->why));
}
