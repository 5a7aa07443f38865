/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_GUARD_H
#define GPUTRACE_COLLECTOR_GUARD_H

#include <pthread.h>
#include <signal.h>

/*
 * A lock of ours that a thread of the program may take.  A handler that
 * interrupts the one who has it, on the same thread, may want it, too: signals
 * wait, but for those that tell of a crash.
 * Context: any thread, not in a handler of such a crash; two system calls.
 */
void guard_take(pthread_mutex_t *lock, sigset_t *before);
void guard_give(pthread_mutex_t *lock, const sigset_t *before);

#endif
