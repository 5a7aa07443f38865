/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_STACKS_H
#define GPUTRACE_WRITER_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/record.h"
#include "writer/bytes.h"

/*
 * Stacks, from records to what the file shows.
 *
 *   of a CUDA call   kept by its correlation until the call itself comes, then
 *                    its arguments "line" and "stack"
 *   of a slice       kept for the next slice of the thread's ring
 *   samples          flames.c: nested slices on the thread's row
 *
 * Each distinct stack is named and stored once: at most STACKS_MAX of them;
 * then all begin anew, and what waits for its call is lost and counted.
 * Context: writer thread.
 */
enum {
	STACKS_MAX = 8192,
	STACKS_BYTES = 8 << 20,         /* of their texts */
	STACK_TEXT_MAX = 2048,          /* of one, in the file */
};

struct stack {
	struct stack *next_in_bucket;
	uint64_t hash;
	uint64_t other_hash;            /* where both agree: the same */
	uint32_t line_at, line_len;     /* in text; 0: none */
	uint32_t len;
	char text[];                    /* innermost first, a line each */
};

struct trace;
struct stacks;
struct stacks *stacks_create(uint32_t pid);
void stacks_destroy(struct stacks *stacks);

/* A record of the rings. */
void stacks_take(struct trace *trace, const struct stack_record *record);

/* The arguments of the call with this correlation, if it has a stack; of the
 * slice that comes next in the thread's ring. */
void stacks_tell_call(struct trace *trace, uint32_t correlation);
void stacks_tell_next(struct trace *trace, uint32_t tid);

/* In the tail: what else a reader needs to name frames. */
void stacks_tell_files(const struct trace *trace, struct bytes *out);

/* ---- flames.c ---- */

struct flames;
struct flames *flames_create(void);
void flames_destroy(struct flames *flames);

void flames_add(struct trace *trace, struct flames *flames,
		const struct stack *stack, uint32_t tid, uint64_t t_ns,
		uint32_t nr_periods);

/* Writes what is open and began by then: at the end of a window, and every
 * second, so that a long slice does not wait for its end. */
void flames_close(struct trace *trace, uint64_t began_by_ns);

/* Of the trace's stacks; NULL before the first. */
struct flames *stacks_flames(struct trace *trace);

#endif
