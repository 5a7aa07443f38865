/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_REQUESTS_H
#define GPUTRACE_WRITER_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/sink.h"
#include "writer/writer.h"

/*
 * What other threads ask of the writer's, and what they are told:
 *
 *   writer_set_target() --> requests_take_target()     as its window opens
 *   writer_dump() --------> requests_take_dump()       at the next look
 *   writer_wait_window() <- requests_done()
 *
 * Context: writer thread, unless it says otherwise.
 */

/* The writer begins, ends, or is not here (the child of a fork).  has_names:
 * of GPUTRACE_OUT others can be made; has_recorder: a dump has a target.
 * Context: attach; any. */
void requests_begin(bool has_names, bool has_recorder);
void requests_end(void);
void requests_forget(void);

/* The target of window `n`, if it has one; `given`: its descriptor's sink. */
bool requests_take_target(uint32_t n, struct writer_target *target,
			  struct sink **given);

/* A dump that was asked for, with its target as above (without a recorder:
 * none).  requests_dumped() says what came of it. */
bool requests_want_dump(void);
bool requests_take_dump(struct writer_target *target, struct sink **given);
void requests_dumped(const struct writer_result *result);

/* Windows `first` to `last` came to this; the last 64 are remembered. */
void requests_done(uint32_t first, uint32_t last,
		   const struct writer_result *result);

#endif
