/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_SIGNALS_H
#define GPUTRACE_INJECT_SIGNALS_H

#include <stdint.h>

/*
 * Signals that ask for something (timer.h): the handler notes the wish and
 * wakes our thread, no more.  Only where nobody has set the signal to anything;
 * what the program sets later has it alone.
 */

/* `wishes` when `number` comes; 0: none.  Says in one line, which names the
 * setting, when the signal is taken.  Context: attach. */
void signals_install(int number, uint32_t wishes, const char *setting);

/* In the child of a fork: as if we had not been there.
 * Context: atfork child. */
void signals_forget(void);

#endif
