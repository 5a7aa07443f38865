/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_OUTPUT_H
#define GPUTRACE_WRITER_OUTPUT_H

#include "writer/trace.h"

/*
 * From events to files: pieces of trace.out into the sink, the tail at each
 * write-out, the next file when one is full or a window has its own.
 * Context: writer thread.
 */

/* Returns 0 or -ENOMEM. */
int output_init(struct trace *trace);
void output_fini(struct trace *trace);

/* Hands what has gathered to the sink when that is worth it.  Between whole
 * events only: the file may end here and a next one begin. */
void output_offer(struct trace *trace);
/* Brings the visible file up to date. */
void output_commit(struct trace *trace, bool is_last);

/* The file that is written, as it is now; and all losses so far. */
void output_result(const struct trace *trace, struct writer_result *result);
uint64_t output_lost(void);

/* Window `n` has opened: its events go where they belong.  Before any of
 * them is written. */
void output_window_opened(struct trace *trace, uint32_t n);
/* All up to window `n` are written, and nothing is open: their file is brought
 * up to date, or gets its last form, and who waits for them is told.  is_end:
 * no other will come. */
void output_windows_done(struct trace *trace, uint32_t n, bool is_end);

#endif
