/* SPDX-License-Identifier: MIT */
/*
 * Built, never run.  Other than on x86-64 the kernel has already turned an
 * interrupted call back to its start when a tracer sees the stop
 * (arch/arm64/kernel/signal.c), and the way back is always the frame's: a
 * sleep that was interrupted starts over.  Threads are taken only in system
 * calls, across which SVE's registers need not be kept.
 */
#if defined(__aarch64__)
#include <asm/sigcontext.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>

#include "tools/attach_arch.h"

enum {
	NR_REGISTER = 8,                /* x8: number of a system call */
	LINK_REGISTER = 30,
	BRANCH_TYPE = 3 << 10,          /* of pstate */
};
#define SVC 0xd4000001u

/* mov x8, #139; svc #0 */
static const uint8_t sigreturn_bytes[] = {
	0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4,
};
const struct arch_code arch_sigreturn = {
	sigreturn_bytes, sizeof(sigreturn_bytes), true,
};

struct sigframe {
	siginfo_t info;
	ucontext_t context;
};

static int get_set(int request, pid_t tid, int set, void *at, size_t *size)
{
	struct iovec io = { at, *size };

	if (ptrace(request, tid, (void *)(long)set, &io))
		return -errno;
	*size = io.iov_len;
	return 0;
}

static int set_core(pid_t tid, const struct user_regs_struct *core)
{
	struct user_regs_struct copy = *core;
	size_t size = sizeof(copy);

	return get_set(PTRACE_SETREGSET, tid, NT_PRSTATUS, &copy, &size);
}

static int set_mask(pid_t tid, uint64_t mask)
{
	return ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(mask), &mask) ?
		-errno : 0;
}

/* At the entry of a system call: it is not carried out. */
static int skip_call(pid_t tid)
{
	int none = -1;
	size_t size = sizeof(none);

	return get_set(PTRACE_SETREGSET, tid, NT_ARM_SYSTEM_CALL, &none,
		       &size);
}

int arch_read(pid_t tid, struct arch_state *s)
{
	size_t size = sizeof(s->core);
	int err = get_set(PTRACE_GETREGSET, tid, NT_PRSTATUS, &s->core, &size);

	s->extended_size = sizeof(struct user_fpsimd_struct);
	if (!err)
		err = get_set(PTRACE_GETREGSET, tid, NT_PRFPREG, s->extended,
			      &s->extended_size);
	if (!err && ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof(s->mask),
			   &s->mask))
		err = -errno;
	return err;
}

int arch_write(pid_t tid, const struct arch_state *s)
{
	size_t size = s->extended_size;
	int err = get_set(PTRACE_SETREGSET, tid, NT_PRFPREG,
			  (void *)s->extended, &size);

	if (!err)
		err = set_mask(tid, s->mask);
	return err ? err : set_core(tid, &s->core);
}

int arch_write_at_return(pid_t tid, const struct arch_state *s)
{
	(void)tid;
	(void)s;
	return 0;
}

void arch_repair(pid_t tid)
{
	(void)tid;
}

bool arch_restarts(const struct arch_state *s, struct arch_blocked *b,
		   uint32_t code)
{
	return code == SVC && b->nr >= 0 &&
		s->core.regs[NR_REGISTER] == (uint64_t)b->nr;
}

bool arch_in_code(const struct arch_state *s, uint32_t code)
{
	(void)s;
	(void)code;
	return false;
}

uint64_t arch_pc(const struct arch_state *s)
{
	return s->core.pc;
}

uint64_t arch_sp(const struct arch_state *s)
{
	return s->core.sp;
}

uint64_t arch_tls(pid_t tid, const struct arch_state *s)
{
	uint64_t tls = 0;
	size_t size = sizeof(tls);

	(void)s;
	get_set(PTRACE_GETREGSET, tid, NT_ARM_TLS, &tls, &size);
	return tls;
}

/* struct fpsimd_context; behind it zeros end the list. */
static void fill_extended(uint8_t *to, const struct arch_state *s)
{
	struct user_fpsimd_struct from;
	struct fpsimd_context f = {
		.head = { .magic = FPSIMD_MAGIC, .size = sizeof(f) },
	};

	memcpy(&from, s->extended, sizeof(from));
	f.fpsr = from.fpsr;
	f.fpcr = from.fpcr;
	memcpy(f.vregs, from.vregs, sizeof(f.vregs));
	memcpy(to, &f, sizeof(f));
}

size_t arch_frame(const struct arch_state *s, uint64_t sigreturn,
		  uint8_t *frame, size_t size, uint64_t *sp)
{
	static struct sigframe f;
	mcontext_t *m = &f.context.uc_mcontext;

	(void)sigreturn;
	if (sizeof(f) > size)
		return 0;
	memset(&f, 0, sizeof(f));
	memcpy(m->regs, s->core.regs, sizeof(m->regs));
	m->sp = s->core.sp;
	m->pc = s->core.pc;
	m->pstate = s->core.pstate;
	fill_extended((uint8_t *)m->__reserved, s);
	memcpy(&f.context.uc_sigmask, &s->mask, sizeof(s->mask));
	*sp = (s->core.sp - sizeof(f)) & ~15ull;
	memcpy(frame, &f, sizeof(f));
	return sizeof(f);
}

int arch_call(pid_t tid, const struct arch_state *s, uint64_t function,
	      const uint64_t args[6], uint64_t sp, uint64_t sigreturn)
{
	struct user_regs_struct core = s->core;
	int err;

	for (int i = 0; i < 6; i++)
		core.regs[i] = args[i];
	core.regs[LINK_REGISTER] = sigreturn;
	core.sp = sp;
	core.pc = function;
	core.pstate &= ~(uint64_t)BRANCH_TYPE;
	err = skip_call(tid);
	if (!err)
		err = set_core(tid, &core);
	return err ? err : set_mask(tid, ~0ull);
}

long arch_call_number(pid_t tid, long *result)
{
	struct user_regs_struct core;
	size_t size = sizeof(core);

	if (get_set(PTRACE_GETREGSET, tid, NT_PRSTATUS, &core, &size))
		return -1;
	*result = (long)core.regs[0];
	return (long)core.regs[NR_REGISTER];
}

#endif
