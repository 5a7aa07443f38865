/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_MEND_H
#define GPUTRACE_TOOLS_MEND_H

/*
 * Makes a file whose writer was killed what it was at its last write-out, by
 * the mark that is in it (writer/kept_tail.h).  `fd` is open for reading and
 * writing, and nobody else writes.  What is in the file is not trusted: the
 * caller looks whether a trace has come of it.
 *
 * 1: done; 0: there is no mark; or -errno: it is as it was, or has a mark yet.
 */
int mend_tail(int fd);

#endif
