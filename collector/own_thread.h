/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_OWN_THREAD_H
#define GPUTRACE_COLLECTOR_OWN_THREAD_H

/*
 * Starts one of our own threads: detached, named (15 characters at most), all
 * signals blocked so that the program's handlers never run on it, on a small
 * stack.  The caller's signal mask is as before.  Returns 0 or -errno.
 * Context: attach.
 */
int own_thread_start(const char *name, void *(*run)(void *), void *argument);

#endif
