/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_EXITS_H
#define GPUTRACE_INJECT_EXITS_H

/* Finds the real _exit, which may be another guest's.  Context: constructor. */
void exits_prepare(void);

#endif
