/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_SAMPLE_SIGNAL_H
#define GPUTRACE_COLLECTOR_SAMPLE_SIGNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/ring.h"

/* The clock of the CPU time of any thread of the process, as the kernel numbers
 * them. */
#define SAMPLE_CLOCK_OF(tid) ((int)(~(tid) << 3 | 6))

/*
 * The signal of the sampler and its handler, and a thread's timer.
 *
 * SIGURG, where the program has left it alone: it does nothing by default, so
 * that a program which puts all signals back to their defaults, while ours are
 * on their way, is not ended by one; and others' have no meaning without a
 * handler.  Else (Go's runtime has it) the last real-time one that is free;
 * one of those that others send ends the program, as it would without us.
 */
struct sample_slot {
	struct ring *ring;              /* the thread's handler writes */
	_Atomic uint32_t tid;           /* 0: nobody's */
	int timer;                      /* the system's number */
};

/* Takes a signal that the program has left alone.  All slots lie in `slots`.
 * 0, or -errno after one line.  Context: attach, once. */
int sample_signal_take(const void *slots, size_t size);
int sample_signal(void);

/* False: the program has put a handler of its own there, which stays. */
bool sample_signal_is_ours(void);

/* Gives the thread a timer.  0; -ESRCH: it is gone; -EAGAIN: no more timers.
 * Context: our own thread. */
int sample_slot_start(struct sample_slot *slot, uint32_t tid, uint32_t hz);
void sample_slot_stop(struct sample_slot *slot);

/* In the child of a fork, which has no timers: as before we came. */
void sample_signal_forget(void);

#endif
