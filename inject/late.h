/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_LATE_H
#define GPUTRACE_INJECT_LATE_H

#include <stdbool.h>

/*
 * The library comes into a process that runs: a dlopen() of the program's own,
 * or one that a debugger makes it do (`gputrace attach`).
 *
 *   constructor --late_load()--> thread "gputrace-attach"
 *                                  brought by a debugger: waits for settings
 *                                  CUDA is in use: NVTX users, attach
 *                                  it is not: sets the variables, and looks on
 *                                  for 10 s: a cuInit under way may be past
 *                                  the place where it would find us
 *   cuInit later --InitializeInjection()--> attach; late_pick_up()
 *
 * The constructor holds the loader's lock, which a cuInit under way may be
 * waiting for: it calls no driver itself.
 */

/* may_be_injected: the driver or NVTX may have brought us, and call then; a
 * debugger's thread shows that they have not (a variable that is inherited,
 * but its file was not found, say).  Context: constructor, in a late load. */
void late_load(bool may_be_injected);

/* True for the first who asks: that one attaches, the others go on. */
bool late_claim_attach(void);

/* Users of NVTX that were there before us, if this is a late load; a thread
 * does it.  Context: any thread, CUDA in use. */
void late_pick_up(void);

/* Settings have come: the thread need not wait for them any more.  is_new: one
 * is started where there is none, and nobody has attached (NVTX alone brought
 * us).  Context: any thread, not in a constructor. */
void late_have_settings(bool is_new);

#endif
