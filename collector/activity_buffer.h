/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_ACTIVITY_BUFFER_H
#define GPUTRACE_COLLECTOR_ACTIVITY_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Buffers of activities that CUPTI has completed, oldest first: from the pool
 * (pool.c) to the writer, and back.
 */
struct activity_buffer {
	struct activity_buffer *next;
	uint8_t *data;
	size_t size;                /* bytes of memory at data */
	size_t valid;               /* bytes that CUPTI filled */
	bool is_forced;             /* by a forced flush: work that was in
				     * flight may lack its times */
};

/* All buffers that CUPTI completed since the last call, as a list, or NULL.
 * They belong to the caller until activity_recycle().
 * Context: writer thread. */
struct activity_buffer *activity_take(void);

/* The activity after `raw` (the first for NULL), or NULL at the end.  What
 * cannot be read ends the buffer and is counted (LOSS_INVALID).
 * Context: writer thread. */
const void *activity_next(struct activity_buffer *buffer, const void *raw);

/* Waits until many buffers are completed (an eighth of all), activity_wake()
 * is called, or timeout_ns.  `seen` is activity_arrivals() from before the
 * caller looked at what else may have come: so no wake is missed.
 * Context: writer thread. */
uint32_t activity_arrivals(void);
void activity_wait(uint32_t seen, uint64_t timeout_ns);
/* Context: any thread but the program's hot path (a system call). */
void activity_wake(void);

/* A periodic flush has handed over what there was: the writer writes it down
 * at once, so that a kill loses one period and not two.  activity_flushes()
 * counts them.  Context: flush thread; writer thread. */
void activity_flushed(void);
uint32_t activity_flushes(void);

/* Asks for a flush before the next periodic one, and for no more than what it
 * hands over: the file is not written for it.  Context: writer thread. */
void activity_hurry(void);
/* Was one asked for since the last call?  Context: flush thread, which `wake`
 * wakes. */
bool activity_is_hurried(void);
void activity_set_hurry(void (*wake)(void));

/* True where an eighth of the buffers is completed and not yet given back:
 * activity_wait() does not wait then.  Context: writer thread. */
bool activity_is_crowded(void);

/* Zeroes the buffer and gives it back to the pool.  Context: writer thread. */
void activity_recycle(struct activity_buffer *buffer);

#endif
