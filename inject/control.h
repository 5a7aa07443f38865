/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_CONTROL_H
#define GPUTRACE_INJECT_CONTROL_H

#include <stdint.h>

/*
 * The control socket: `gputrace start`, `stop`, `status`, `capture`, `dump`
 * from outside, by the process's own user or root (protocol.h).
 *
 *   gputrace-socket   poll() on the socket and eight clients at most, without
 *                     time-outs unless somebody waits; shares the writer's
 *                     table of descriptors, so that one that a client passes
 *                     is the writer's
 *   gputrace-work     starts and stops (control_work.h)
 *   gputrace-dump     dumps
 *
 * Nothing here touches the program: a client that floods, hangs or sends
 * rubbish is slowed down, dropped, and costs bounded memory.
 */
struct control_options {
	const char *out;                /* GPUTRACE_OUT */
	uint32_t rank;
};

/* Without a socket the program and its trace are what they are: one line at
 * level info says why there is none.
 * Context: attach, once, after writer_start(). */
void control_start(const struct control_options *options);

/* The end of the process: the socket's name goes, what is asked for from now
 * on is refused.  Context: the exiting thread; signal-safe. */
void control_finish(void);

/* In the child of a fork: the socket is the parent's.
 * Context: atfork child. */
void control_forget(void);

#endif
