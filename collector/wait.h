/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_WAIT_H
#define GPUTRACE_COLLECTOR_WAIT_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * Waiting for a number to change (a futex).  Returns when *word differs from
 * `seen`, after timeout_ns, or for no reason; look again.  errno is kept.
 * Context: our own threads, and the exiting thread.
 */
void wait_change(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns);

/* Adds 1 to *word and wakes all that wait.  Context: any thread but the
 * program's hot path (a system call). */
void wait_wake(_Atomic uint32_t *word);

#endif
