/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_DUMP_H
#define GPUTRACE_WRITER_DUMP_H

#include "writer/trace.h"

/*
 * The flight recorder, written to a file while recording goes on: what it
 * holds at one moment, a few segments at a time between looks at the rings.
 * Context: writer thread.
 */
struct dump;

/* Begins where one was asked for, and goes on with it; after 20 ms the rest is
 * left for the next time.  All that has come is in the recorder. */
void dump_work(struct trace *trace);

/* True if dump_work() has something to do. */
bool dump_is_due(const struct trace *trace);

/* Gives one up that is not complete: the process ends. */
void dump_cancel(struct trace *trace);

/*
 * Copies events, as they stand in a file, without the arrows that come from
 * launches at or before `until_ns`: those may be forgotten.  Their GPU work
 * says that its launch was not traced.  (dump_cut.c)
 */
void dump_cut(const struct bytes *events, uint64_t base_ns, uint64_t until_ns,
	      struct bytes *out);

#endif
