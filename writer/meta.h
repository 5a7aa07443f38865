/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_META_H
#define GPUTRACE_WRITER_META_H

#include "writer/trace.h"

/*
 * What frames the events of a file.  All is written anew at each write-out,
 * so that names and losses are those of that moment.
 * Context: writer thread.
 */

/* Up to and including the first event: a fixed one that clashes with nothing,
 * because HTA takes event 0 for "none". */
void meta_head(struct trace *trace, struct bytes *head);

/* Open ranges, metadata events, then the keys behind traceEvents. */
void meta_tail(struct trace *trace, struct bytes *tail, bool is_last);

/* The tail as it was, with the losses of this moment: no event came since. */
void meta_tail_again(struct trace *trace, struct bytes *tail);

/* Metadata events alone (meta_names.c). */
void meta_names(struct trace *trace, struct bytes *out);

#endif
