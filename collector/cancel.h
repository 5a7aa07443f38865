/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CANCEL_H
#define GPUTRACE_COLLECTOR_CANCEL_H

#include <pthread.h>

/*
 * A thread of the program may be cancelled at any instruction, or in any call
 * that waits.  Where it holds a lock (the allocator's, ours) or has made half
 * of a change, it is cancelled after that:
 *
 *	int cancel = cancel_hold();
 *	...
 *	cancel_release(cancel);
 *
 * The rest needs no care: records are published whole, and what is left of a
 * thread's state is put right when the next one takes it over.
 * Context: any thread; no system call.
 */
static inline int cancel_hold(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static inline void cancel_release(int state)
{
	pthread_setcancelstate(state, NULL);
}

#endif
