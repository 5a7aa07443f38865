/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_ATTACH_THREAD_H
#define GPUTRACE_TOOLS_ATTACH_THREAD_H

#include <stdint.h>
#include <sys/types.h>

#include "tools/attach_arch.h"
#include "tools/attach_memory.h"

/*
 * One thread of another process, borrowed for some short calls; all others run
 * on.  It is taken where it could have made the calls itself: in a system call
 * that waits (not one that malloc or the loader makes), or, failing that, in
 * the program's own code; never inside the C library, or in a signal handler.
 *
 * A call is set up like a signal handler: below its stack lies what the kernel
 * would put there for one, and the call returns into rt_sigreturn().  So there
 * is no moment at which our death leaves the thread with foreign registers:
 *
 *	seized, stopped     nothing is changed
 *	frame is written    below the stack pointer and the red zone
 *	registers are set   at once; from here on it finds its way back alone
 *	at rt_sigreturn()   we are alive: its registers, at once; the system
 *	                    call goes on for the rest of its time
 *
 * Signals are blocked meanwhile, so they stay in the kernel.
 */
struct thread {
	pid_t pid, tid;                 /* tid 0: none is taken */
	const struct memory *memory;
	uint64_t sigreturn, sp;
	bool in_call, in_syscall, is_lost;
	struct arch_state own;
};

/* Finds one by the deadline (CLOCK_MONOTONIC).  0 or -errno: -EPERM (ptrace is
 * not permitted), -EAGAIN (`why` says what the threads did), -ESRCH. */
int thread_take(struct thread *t, pid_t pid, struct memory *m,
		uint64_t deadline_ns, char *why, size_t why_size);

/* Calls a function.  *result: of the last system call `nr` that it made, or
 * -ENOSYS.  0 or -errno: -ETIMEDOUT, -EFAULT (it crashed), -ESRCH (it ended);
 * then nothing more may be called. */
int thread_call(struct thread *t, uint64_t function, const uint64_t args[6],
		long nr, long *result, uint64_t deadline_ns);

/* The thread goes on with what it did.  0 or -errno. */
int thread_release(struct thread *t);

uint64_t thread_now_ns(void);

#endif
