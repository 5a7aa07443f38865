/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_CONTROL_CLIENT_H
#define GPUTRACE_INJECT_CONTROL_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

struct pollfd;

/*
 * The clients of the control socket.  Each has one command under way at most;
 * what it sends meanwhile stays in its buffer, then in the socket's.
 *
 *   IDLE --start----------------> WORKING --done--> IDLE
 *    | \--at=--> UNTIL_AT --------^  \--of a stop--> WAITING --> IDLE
 *    |\--stop, dump--------------/                     ^
 *    \---wait-----------------------------------------/
 *
 * One that goes away leaves a window with a duration, or with a name, running;
 * one whose descriptor gets the trace is closed if it has no duration, or if
 * the client has not been told of it.
 * Context: the socket's thread, but for init and forget.
 */
enum { CLIENTS_MAX = 8 };

/* 0 or -errno.  Context: attach, once. */
int control_client_init(void);

/* Takes over the connection, or closes it. */
void control_client_accept(int fd);

/* What to wait for: CLIENTS_MAX entries; and how long, -1: for ever. */
void control_client_poll(struct pollfd *polled);
int control_client_timeout_ms(uint64_t now_ns);

/* Does what can be done.  Returns the commands that were carried out. */
int control_client_serve(const struct pollfd *polled);

void control_client_end(void);

/* The child of a fork that has copies of all our descriptors.
 * Context: atfork child. */
void control_client_forget(void);

#endif
