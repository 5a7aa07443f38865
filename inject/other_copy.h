/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_OTHER_COPY_H
#define GPUTRACE_INJECT_OTHER_COPY_H

#include <stdbool.h>

/*
 * Another copy of this library in the process (preloaded from one path, loaded
 * late from another): the one whose constructor ran first does the work, the
 * other nothing but pass calls on to it.
 */

/* Looks for one that is at work; its path if there is, else NULL.
 * Context: constructor. */
const char *other_copy_find(void);

/* What it exports by that name, or NULL: there is no other, or it is older and
 * has none.  Context: any, after other_copy_find(). */
void *other_copy_function(const char *name);

#endif
