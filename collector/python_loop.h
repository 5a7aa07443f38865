/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_PYTHON_LOOP_H
#define GPUTRACE_COLLECTOR_PYTHON_LOOP_H

#include <stdint.h>

/*
 * The code of one function: where it begins, and the part that the compiler
 * put elsewhere because it seldom runs ("name.cold"), which has a symbol only
 * in files that are not stripped.  Both have an entry each in the unwind tables
 * (unwind_row.h), which says how long they are; the second is the one that the
 * first jumps into, not only to its start as in a tail call.
 */
struct code_range {
	uintptr_t start, size;  /* size 0: not known, none */
};

/* range[0] is that of the function that begins at `function`, range[1] its
 * seldom part.  Returns 0, or -ENOENT without a table.
 * Context: attach or our own thread, after modules_refresh(). */
int python_loop_find(uintptr_t function, struct code_range range[2]);

#endif
