/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_CONTROL_FILE_H
#define GPUTRACE_TOOLS_CONTROL_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/target.h"

/*
 * A trace on its way to the name that was asked for: a neighbour of it with a
 * hidden name until it is whole, so that whoever sees the file sees all of it.
 *
 *   draft_open() --(somebody writes)--> draft_keep() or draft_drop()
 */
struct draft {
	int fd;                         /* open for reading and writing; -1 */
	bool is_gz;
	char path[PATH_MAX], hidden[PATH_MAX];
};

/* %p pid, %n program, %t time (UTC, 20261129T191500), %% percent.  False: it
 * is too long. */
bool control_name(const char *pattern, const struct target *t, char *path,
		  size_t size);
/* Would two processes get one name? */
bool control_name_is_shared(const char *pattern);

/* 0 or -errno, then it is closed; -EINVAL: there is something at the path that
 * is not a file, or it is "-". */
int draft_open(struct draft *d, const char *path);
int draft_keep(struct draft *d);
void draft_drop(struct draft *d);
/* Can it be read to its end, and holds it anything? */
bool draft_is_whole(const struct draft *d);

/* Copies a file of the process, by its own name for it, no link leading out of
 * its root; then removes that if told.  0 or -errno. */
int control_fetch(const struct target *t, const char *path, struct draft *to,
		  bool removes);

/* The same file as we can open it: itself, or below /proc/PID/root. */
void control_see(const struct target *t, const char *path, char *seen,
		 size_t size);

/* On stderr: the launches of a trace that never finished. */
void control_tell_unfinished(const char *path);

#endif
