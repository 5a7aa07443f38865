/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_DOCTOR_LOOK_H
#define GPUTRACE_TOOLS_DOCTOR_LOOK_H

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Files below a root that need not be ours: that of a process in a container
 * (/proc/PID/root), or a made-up machine.  Paths begin with '/'; symbolic
 * links stay below the root (openat2, Linux 5.6; before that they may leave
 * it).  Everything read is bounded.
 */
struct look {
	int fd;                 /* the root; -1: our own */
	char path[PATH_MAX];    /* its name for us, without a '/' at the end */
};

/* Returns 0 or -errno. */
int look_init(struct look *l, const char *root);
void look_fini(struct look *l);

/* A descriptor or -errno. */
int look_open(const struct look *l, const char *path, int flags);

/* The file's text, NUL-terminated, cut at size - 1: its length or -errno. */
ssize_t look_read(const struct look *l, const char *path, char *text,
		  size_t size);

/* The same in memory of malloc(), at most `limit` bytes; NULL with errno. */
char *look_slurp(const struct look *l, const char *path, size_t limit,
		 size_t *len);

/* The target of a link: its length or -errno; `to` is NUL-terminated. */
ssize_t look_link(const struct look *l, const char *path, char *to,
		  size_t size);

/* The path below the root that an open file has, all links followed. */
int look_real(const struct look *l, int fd, char *real, size_t size);

/* For the calling user: 0 or -errno. */
int look_access(const struct look *l, const char *path, int mode);
bool look_has(const struct look *l, const char *path);

/* For readdir(); NULL with errno. */
DIR *look_folder(const struct look *l, const char *path);

/* The last path that matches a pattern with at most one '*', which stands for
 * the rest of a folder's name.  False if there is none. */
bool look_last(const struct look *l, const char *pattern, char *path,
	       size_t size);

#endif
