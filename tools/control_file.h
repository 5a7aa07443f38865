/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_CONTROL_FILE_H
#define GPUTRACE_TOOLS_CONTROL_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/draft.h"
#include "tools/target.h"

/* Traces that the control commands fetch: under which name, and how. */

/* %p pid, %n program, %t time (UTC, 20261129T191500), %% percent.  False: it
 * is too long. */
bool control_name(const char *pattern, const struct target *t, char *path,
		  size_t size);
/* Would two processes get one name? */
bool control_name_is_shared(const char *pattern);

/* Copies a file of the process, by its own name for it, no link leading out of
 * its root; then removes that if told.  0 or -errno. */
int control_fetch(const struct target *t, const char *path, struct draft *to,
		  bool removes);

#define CONTROL_RESCUED "the trace ends with the last write-out before that " \
	"(GPUTRACE_FLUSH)"

/* What the process has written into it by its descriptor, where there is no
 * answer that it is whole: as it was at the last write-out.  False: that is no
 * trace.  is_ending: its end of the socket is closed. */
bool control_rescue(const struct look *machine, const struct target *t,
		    struct draft *d, bool is_ending);

/* The same file as we can open it: itself, or below /proc/PID/root. */
void control_see(const struct target *t, const char *path, char *seen,
		 size_t size);

/* On stderr: the launches of a trace that never finished. */
void control_tell_unfinished(const char *path);

#endif
