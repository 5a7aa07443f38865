/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_DRAFT_H
#define GPUTRACE_TOOLS_DRAFT_H

#include <limits.h>
#include <stdbool.h>

/*
 * A file on its way to the name that was asked for: a neighbour of it with a
 * hidden name until it is whole, so that whoever sees the file sees all of it.
 *
 *   draft_open() --(somebody writes)--> draft_keep() or draft_drop()
 *
 * A link keeps pointing to its file, which is replaced.  The file has the
 * rights 0600.
 */
struct draft {
	int fd;                         /* open for reading and writing; -1 */
	bool is_gz;                     /* the name ends in .gz */
	bool is_there;                  /* path is the file that was fetched */
	char path[PATH_MAX];            /* as it was given */
	char real[PATH_MAX], hidden[PATH_MAX];
};

/* 0 or -errno, then it is closed; -EINVAL: there is something at the path that
 * is not a file, or it is "-". */
int draft_open(struct draft *d, const char *path);

/* 0 or -errno, then the hidden one is still there.  Closes it. */
int draft_keep(struct draft *d);

/* Closes and removes it, if it is open. */
void draft_drop(struct draft *d);

/* All of another file, from its begin on.  0 or -errno. */
int draft_fill(struct draft *d, int from);

/* A second one for the same name, into which nobody else writes.  0 or -errno,
 * then it is closed. */
int draft_copy(const struct draft *d, struct draft *copy);

/* Is it a trace that can be read to its end?  One whose writer was killed
 * becomes that, as it was at the last write-out (mend.h).  Nobody else writes
 * into it. */
bool draft_settle(struct draft *d);

#endif
