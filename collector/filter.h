/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_FILTER_H
#define GPUTRACE_COLLECTOR_FILTER_H

#include <stdbool.h>

/*
 * A filter of system calls (seccomp) may end the process at the first unusual
 * one, and nothing tells which it takes for that.
 *
 * Most containers have one, which refuses with an error and knows what servers
 * do: files, threads, sockets.  One that the program made for itself knows what
 * the program does.  The first process of the PID namespace has the
 * container's alone; of itself it is believed to have no other.
 * Context: any thread; opens /proc.
 */

/* There is one, or that cannot be told. */
bool filter_is_there(void);

/* There is one that did not come with the container, or that cannot be told. */
bool filter_is_own(void);

#endif
