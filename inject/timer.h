/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_TIMER_H
#define GPUTRACE_INJECT_TIMER_H

#include <stdint.h>

/*
 * Our own thread "gputrace-timer": starts and stops windows when their time
 * has come, or a signal or mark has asked for it.  It sleeps until then, and
 * is there only where something needs it.
 *
 *   capture_start() with a duration --timer_set()--> \
 *   GPUTRACE_START=delay:            --timer_set()-->  > capture_start(),
 *   GPUTRACE_SIGNAL, _DUMP_SIGNAL    --timer_ask()--> /  capture_stop(), ...
 *   GPUTRACE_DUMP_ON                 --timer_ask()-->
 */

/* Starts the thread unless it is there.  0 or -errno.  Context: any thread,
 * with cancellation held. */
int timer_need(void);

enum timer_event { TIMER_START, TIMER_STOP, TIMER_DUMP, TIMER_NR };

/* At that time of clock.h; 0: never.  Context: any thread. */
void timer_set(enum timer_event event, uint64_t at_ns);

/*
 * TOGGLE: opens a window, or closes the one that is open.  DUMP: now; MARKED:
 * at once, but then not again for a while, so that a mark which comes often
 * does not fill the disk: the next dump has all that came meanwhile.
 */
enum timer_wish {
	WISH_TOGGLE = 1 << 0, WISH_DUMP = 1 << 1, WISH_MARKED_DUMP = 1 << 2,
};

/* How long that is.  Context: attach, before any wish. */
void timer_space_dumps(uint64_t least_ns);

/* Context: any thread, signal-safe; a system call. */
void timer_ask(uint32_t wishes);

/* In the child of a fork: there is no such thread.  Context: atfork child. */
void timer_forget(void);

#endif
