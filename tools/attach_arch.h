/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_ATTACH_ARCH_H
#define GPUTRACE_TOOLS_ATTACH_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

/*
 * What of `gputrace attach` differs between machines: the register file, what
 * an interrupted system call looks like, and the signal frame.
 * attach_x86_64.c, attach_aarch64.c.
 */

/* AVX-512 and AMX's tiles together have 11 KiB; SVE is not kept (see
 * attach_aarch64.c). */
#define ARCH_EXTENDED_MAX (16 << 10)

struct arch_state {
	struct user_regs_struct core;
	size_t extended_size;
	uint64_t mask;                  /* blocked signals */
	_Alignas(64) uint8_t extended[ARCH_EXTENDED_MAX];
};

/* A system call that a thread is in, by /proc/PID/task/TID/syscall. */
struct arch_blocked {
	long nr;                        /* -1: in none */
	uint64_t args[6];
};

/* The bytes of the code that returns from a signal handler. */
struct arch_code {
	const uint8_t *bytes;
	size_t size;
	bool in_vdso;                   /* else in libc */
};
extern const struct arch_code arch_sigreturn;

/* All that makes up the stopped thread.  0 or -errno. */
int arch_read(pid_t tid, struct arch_state *s);

/* The thread's own state, at a stop that is not one of a system call: what it
 * was interrupted in goes on.  0 or -errno. */
int arch_write(pid_t tid, const struct arch_state *s);

/* The same at the stop before the return from the signal frame. */
int arch_write_at_return(pid_t tid, const struct arch_state *s);

/* True if the stopped thread is in a system call that starts again when it
 * goes on; *b becomes that call.  `code` is what is at the program counter. */
bool arch_restarts(const struct arch_state *s, struct arch_blocked *b,
		   uint32_t code);

/* Some calls (epoll_wait) end with EINTR at a stop, without any signal: makes
 * the stopped thread do it again. */
void arch_repair(pid_t tid);

/* True if the thread is in its own code, in no system call. */
bool arch_in_code(const struct arch_state *s, uint32_t code);

uint64_t arch_pc(const struct arch_state *s);
uint64_t arch_sp(const struct arch_state *s);
/* The thread's TLS block lies at the upper end of its stack. */
uint64_t arch_tls(pid_t tid, const struct arch_state *s);

/* What the kernel would put on the stack for a signal handler: from it the
 * thread becomes what it was, by itself.  Writes at most `size` bytes; returns
 * how many, 0 where they do not fit.  *sp: where they belong, and the stack
 * pointer of the first instruction of what is called. */
size_t arch_frame(const struct arch_state *s, uint64_t sigreturn,
		  uint8_t *frame, size_t size, uint64_t *sp);

/* Has the thread call a function with the frame below it, all signals blocked.
 * 0 or -errno. */
int arch_call(pid_t tid, const struct arch_state *s, uint64_t function,
	      const uint64_t args[6], uint64_t sp, uint64_t sigreturn);

/* At a stop of a system call: its number, and its result at its end. */
long arch_call_number(pid_t tid, long *result);

#endif
