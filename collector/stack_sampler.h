/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_STACK_SAMPLER_H
#define GPUTRACE_COLLECTOR_STACK_SAMPLER_H

#include <stdint.h>

#include "collector/ring.h"

/*
 * Samples of the threads that run: a timer on the CPU time of each sends the
 * thread itself a signal, whose handler writes down the stack.
 *
 *   our thread   finds threads in /proc/self/task, gives each a slot: a timer
 *                and a ring; renews the table of modules
 *   handler      stack -> the slot's ring          (on the program's thread)
 *   writer       reads the rings
 *
 * The signal (sample_signal.h) is one that the program has left alone; if it
 * takes it later it is its own from then on, and sampling is over.  The handler
 * stays when we stop: a signal can be on its way.
 */

/* hz 0: no samples, the table of modules is renewed all the same.
 * Returns 0, or -errno after one line.  Context: attach, once. */
int stack_sampler_prepare(uint32_t hz);

/* Context: not the program's hot path, one at a time. */
void stack_sampler_start(void);
void stack_sampler_stop(void);

/* The i-th slot's ring; NULL: no more slots.  Context: writer thread. */
struct ring *stack_sampler_ring(uint32_t i);

/* Context: atfork child. */
void stack_sampler_forget(void);

#endif
