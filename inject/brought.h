/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_BROUGHT_H
#define GPUTRACE_INJECT_BROUGHT_H

#include <stdbool.h>

/* True in the constructor if `gputrace attach` brought us: the settings come
 * right behind it, by gputrace_attach().  Known by the name of the thread that
 * it starts for the load (protocol.h); a tracer in another PID
 * namespace is not to be seen from here.  Context: constructor. */
bool brought_by_command(void);

#endif
