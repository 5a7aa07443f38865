/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_DEBUGGER_H
#define GPUTRACE_COLLECTOR_DEBUGGER_H

#include <stdint.h>

/* The process that traces a thread (ptrace), by the thread's file `status` in
 * /proc.  0: none, or none that is seen from here (another container).
 * Context: any thread but the program's hot path; three system calls. */
uint32_t debugger_of(const char *status);

#endif
