/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_PYTHON_LOOP_H
#define GPUTRACE_COLLECTOR_PYTHON_LOOP_H

#include <stdint.h>

/*
 * The code of one function: where it begins, and the part that the compiler
 * put elsewhere because it seldom runs ("name.cold"), which has a symbol only
 * in files that are not stripped.  Both have an entry each in the table for
 * unwinding (.eh_frame_hdr), which says how long they are; the second is the
 * one that the first jumps into, not only to its start as in a tail call.
 *
 *   hdr:  u8 version 1, u8 encodings[3]: 0x1b 0x03 0x3b; i32; u32 nr;
 *         { i32 start, i32 entry } [nr], both from hdr on, ordered by start
 *   entry: u32 length; u32; i32 start (from here on); u32 size; ...
 */
struct code_range {
	uintptr_t start, size;  /* size 0: not known, none */
};

/* range[0] is that of the function that begins at `function`, range[1] its
 * seldom part.  Returns 0, or -ENOENT without a table.
 * Context: attach or our own thread; takes the loader's lock. */
int python_loop_find(uintptr_t function, struct code_range range[2]);

#endif
