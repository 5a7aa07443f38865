/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CUPTI_BUFFERS_H
#define GPUTRACE_COLLECTOR_CUPTI_BUFFERS_H

#include <stdbool.h>

#include <cupti.h>

/*
 * The callbacks that CUPTI is given, and the attributes that belong to them:
 * as we need them, or as another client does (client.h).
 */

/* Our clock.  Once for the life of the process, before any kind is on: a
 * second time damages the first times of the next session.  Not where a
 * client has given CUPTI another one already.  Context: attach. */
void cupti_buffers_set_clock(void);

/* CUPTI's buffers are ours.  0 or -errno (said in a line).
 * Context: with CUPTI's control lock held (cupti.c). */
int cupti_buffers_claim(void);

/* An attribute that a client may not change while we live in the process.
 * Context: any thread. */
bool cupti_buffers_stay(CUpti_ActivityAttribute attribute);

/* The attributes and the kind of thread ids are again what the program has set,
 * or found: behind a window, as a client of a process into which we came late
 * is not seen.  Context: as cupti_buffers_claim(). */
void cupti_buffers_put_back(void);

/* They are the client's, if there is one that has callbacks.
 * Context: as cupti_buffers_claim(). */
void cupti_buffers_release(void);

/* CUPTI knows our callbacks: a client's need not be told to it.
 * Context: any thread. */
bool cupti_buffers_are_routed(void);
void cupti_buffers_forget(void);        /* after a cuptiFinalize */
void cupti_buffers_in_child(void);      /* of a fork */

/* Two flushes at once deadlock: ours and a client's take turns.
 * Context: flush thread, the client's thread; as long as the driver likes. */
void cupti_buffers_flush(unsigned int flag);
void cupti_buffers_lock_flush(void);
void cupti_buffers_unlock_flush(void);

#endif
