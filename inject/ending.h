/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_ENDING_H
#define GPUTRACE_INJECT_ENDING_H

/*
 * The end of the process: what CUPTI still holds is fetched, the file gets its
 * last events, and one line says where it is.  At most 1.8 s, whatever hangs.
 *
 *   exit, return from main   atexit
 *   quick_exit               at_quick_exit
 *   _exit, _Exit             found here first when preloaded (exits.c)
 *
 * A signal that kills, abort and exec have no such moment: there the file is
 * complete up to the last flush.
 */

/* From now on there is something to complete.  Context: attach, once. */
void ending_arm(void);

/* Completes the trace, if this is the process that armed it and nobody has
 * done so; waits for one who is at it.
 * Context: any thread that is about to end the process, also a signal handler
 * on a stack of its own that interrupted whatever: no memory, no lock without
 * an end, some 1 KiB of stack. */
void ending_run(void);

/* In the child of a fork: nothing to complete.  Context: atfork child. */
void ending_forget(void);

#endif
