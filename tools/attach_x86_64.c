/* SPDX-License-Identifier: MIT */
#if defined(__x86_64__)
#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>

#include "tools/attach_arch.h"

/* include/linux/errno.h: seen by tracers alone. */
enum {
	RESTART_SYS = 512, RESTART_NOINTR = 513, RESTART_NOHAND = 514,
	RESTART_BLOCK = 516,
};

enum {
	RED_ZONE = 128,
	SYSCALL_SIZE = 2,               /* 0f 05 */
	DIRECTION_FLAG = 1 << 10, TRAP_FLAG = 1 << 8,
	XSAVE_LEGACY = 512, XSAVE_HEADER = 64,
	SOFTWARE_AT = 464,              /* bytes that are ours in XSAVE's */
};

/* arch/x86/include/uapi/asm/sigcontext.h */
#define XSTATE_MAGIC1 0x46505853u
#define XSTATE_MAGIC2 0x46505845u
/* asm/ucontext.h: extended state, ss is valid, ss is strict */
#define FRAME_FLAGS 7u

/* Features that a process has only if it asked: AMX. */
#define ON_REQUEST (3ull << 17)

/* mov $15,%rax; syscall */
static const uint8_t sigreturn_bytes[] = {
	0x48, 0xc7, 0xc0, SYS_rt_sigreturn, 0, 0, 0, 0x0f, 0x05,
};
const struct arch_code arch_sigreturn = {
	sigreturn_bytes, sizeof(sigreturn_bytes), false,
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

int arch_read(pid_t tid, struct arch_state *s)
{
	size_t size = sizeof(s->core);
	int err = get_set(PTRACE_GETREGSET, tid, NT_PRSTATUS, &s->core, &size);

	s->extended_size = sizeof(s->extended);
	if (!err)
		err = get_set(PTRACE_GETREGSET, tid, NT_X86_XSTATE,
			      s->extended, &s->extended_size);
	if (!err && ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof(s->mask),
			   &s->mask))
		err = -errno;
	return err;
}

/* The order matters where we die in between: until the last line the thread is
 * in the call, with the frame to go back by. */
static int write_all(pid_t tid, const struct arch_state *s,
		     const struct user_regs_struct *core)
{
	size_t size = s->extended_size;
	int err = get_set(PTRACE_SETREGSET, tid, NT_X86_XSTATE,
			  (void *)s->extended, &size);

	if (!err)
		err = set_mask(tid, s->mask);
	return err ? err : set_core(tid, core);
}

int arch_write(pid_t tid, const struct arch_state *s)
{
	return write_all(tid, s, &s->core);
}

static bool is_restart(const struct user_regs_struct *core)
{
	long result = -(long)core->rax;

	return (long)core->orig_rax >= 0 &&
		(result == RESTART_SYS || result == RESTART_NOINTR ||
		 result == RESTART_NOHAND || result == RESTART_BLOCK);
}

/* The kernel is about to carry out a call: it is none.  What was interrupted
 * is done as the kernel does it itself: the instruction once more, with the
 * call's number or that of what is left of its time. */
int arch_write_at_return(pid_t tid, const struct arch_state *s)
{
	struct user_regs_struct core = s->core;

	if (is_restart(&core)) {
		core.rax = (long)core.rax == -RESTART_BLOCK ?
			SYS_restart_syscall : core.orig_rax;
		core.rip -= SYSCALL_SIZE;
	}
	core.orig_rax = -1;
	return write_all(tid, s, &core);
}

/* signal(7): these fail with EINTR after a stop, without any handler. */
static bool fails_at_stops(long nr)
{
	switch (nr) {
	case SYS_epoll_wait: case SYS_epoll_pwait: case SYS_recvfrom:
	case SYS_recvmsg: case SYS_accept: case SYS_accept4:
	case SYS_semop: case SYS_semtimedop: case SYS_rt_sigtimedwait:
	case SYS_io_getevents:
		return true;
	}
	return false;
}

void arch_repair(pid_t tid)
{
	struct user_regs_struct core;
	size_t size = sizeof(core);

	if (get_set(PTRACE_GETREGSET, tid, NT_PRSTATUS, &core, &size) ||
	    (long)core.rax != -EINTR || !fails_at_stops((long)core.orig_rax))
		return;
	core.rax = (unsigned long)-RESTART_SYS;
	set_core(tid, &core);
}

bool arch_restarts(const struct arch_state *s, struct arch_blocked *b,
		   uint32_t code)
{
	const struct user_regs_struct *core = &s->core;

	(void)code;
	if (!is_restart(core))
		return false;
	*b = (struct arch_blocked){
		.nr = (long)core->orig_rax,
		.args = { core->rdi, core->rsi, core->rdx, core->r10,
			  core->r8, core->r9 },
	};
	return true;
}

bool arch_in_code(const struct arch_state *s, uint32_t code)
{
	(void)code;
	return (long)s->core.orig_rax < 0 ||
		(!is_restart(&s->core) && (long)s->core.rax != -EINTR);
}

uint64_t arch_pc(const struct arch_state *s)
{
	return s->core.rip;
}

uint64_t arch_sp(const struct arch_state *s)
{
	return s->core.rsp;
}

uint64_t arch_tls(pid_t tid, const struct arch_state *s)
{
	(void)tid;
	return s->core.fs_base;
}

/* ---- The frame ---- */

/* The size of the state that the kernel takes from this thread's frames:
 * without AMX unless the thread has used it, which needs a permission. */
static uint32_t extended_in_use(const struct arch_state *s, uint64_t *features)
{
	uint32_t end = XSAVE_LEGACY + XSAVE_HEADER, a, b, c, d;
	uint64_t in_use;

	memcpy(features, s->extended + SOFTWARE_AT, sizeof(*features));
	memcpy(&in_use, s->extended + XSAVE_LEGACY, sizeof(in_use));
	if (!(in_use & ON_REQUEST))
		*features &= ~ON_REQUEST;
	for (unsigned i = 2; i < 63; i++) {
		if (!(*features >> i & 1))
			continue;
		__cpuid_count(0xd, i, a, b, c, d);
		if (a + b > end)
			end = a + b;
	}
	return end <= s->extended_size ? end : 0;
}

/* struct _fpx_sw_bytes, and the mark behind the state. */
static void mark_extended(uint8_t *at, uint32_t size, uint64_t features)
{
	uint32_t magic1 = XSTATE_MAGIC1, magic2 = XSTATE_MAGIC2;
	uint32_t whole = size + (uint32_t)sizeof(magic2);
	uint8_t *software = at + SOFTWARE_AT;

	memset(software, 0, 48);
	memcpy(software, &magic1, sizeof(magic1));
	memcpy(software + 4, &whole, sizeof(whole));
	memcpy(software + 8, &features, sizeof(features));
	memcpy(software + 16, &size, sizeof(size));
	memcpy(at + size, &magic2, sizeof(magic2));
}

/* Registers as the kernel gives them to a handler: a call that was interrupted
 * starts again from its beginning. */
static void fill_registers(mcontext_t *to, const struct user_regs_struct *core)
{
	bool again = is_restart(core);
	greg_t *g = to->gregs;

	g[REG_R8] = core->r8;
	g[REG_R9] = core->r9;
	g[REG_R10] = core->r10;
	g[REG_R11] = core->r11;
	g[REG_R12] = core->r12;
	g[REG_R13] = core->r13;
	g[REG_R14] = core->r14;
	g[REG_R15] = core->r15;
	g[REG_RDI] = core->rdi;
	g[REG_RSI] = core->rsi;
	g[REG_RBP] = core->rbp;
	g[REG_RBX] = core->rbx;
	g[REG_RDX] = core->rdx;
	g[REG_RAX] = again ? core->orig_rax : core->rax;
	g[REG_RCX] = core->rcx;
	g[REG_RSP] = core->rsp;
	g[REG_RIP] = core->rip - (again ? SYSCALL_SIZE : 0);
	g[REG_EFL] = core->eflags;
	g[REG_CSGSFS] = (core->cs & 0xffff) | (core->ss & 0xffff) << 48;
}

/*
 *   sp ->  return address        struct rt_sigframe
 *          ucontext (the kernel's: 8 bytes of mask, no alternate stack, which
 *          leaves the thread's as it is)
 *          extended state, 64-byte aligned, and its mark
 *          red zone
 */
size_t arch_frame(const struct arch_state *s, uint64_t sigreturn,
		  uint8_t *frame, size_t size, uint64_t *sp)
{
	uint64_t features, top = (s->core.rsp - RED_ZONE) & ~63ull, at;
	uint32_t extended = extended_in_use(s, &features);
	size_t context = offsetof(ucontext_t, uc_sigmask) + sizeof(s->mask);
	ucontext_t u;

	if (!extended)
		return 0;
	at = (top - extended - 4) & ~63ull;
	*sp = ((at - context) & ~15ull) - 8;
	if (top - *sp > size)
		return 0;
	memset(&u, 0, sizeof(u));
	memset(frame, 0, top - *sp);
	u.uc_flags = FRAME_FLAGS;
	fill_registers(&u.uc_mcontext, &s->core);
	u.uc_mcontext.fpregs = (fpregset_t)at;
	memcpy(&u.uc_sigmask, &s->mask, sizeof(s->mask));
	memcpy(frame, &sigreturn, sizeof(sigreturn));
	memcpy(frame + 8, &u, context);
	memcpy(frame + (at - *sp), s->extended, extended);
	mark_extended(frame + (at - *sp), extended, features);
	return top - *sp;
}

/* First the registers, at once; then the mask, which the frame would give
 * back. */
int arch_call(pid_t tid, const struct arch_state *s, uint64_t function,
	      const uint64_t args[6], uint64_t sp, uint64_t sigreturn)
{
	struct user_regs_struct core = s->core;
	int err;

	(void)sigreturn;        /* is on the stack */
	core.rdi = args[0];
	core.rsi = args[1];
	core.rdx = args[2];
	core.rcx = args[3];
	core.r8 = args[4];
	core.r9 = args[5];
	core.rsp = sp;
	core.rip = function;
	core.rax = 0;
	core.orig_rax = -1;
	core.eflags &= ~(uint64_t)(DIRECTION_FLAG | TRAP_FLAG);
	err = set_core(tid, &core);
	return err ? err : set_mask(tid, ~0ull);
}

long arch_call_number(pid_t tid, long *result)
{
	struct user_regs_struct core;
	size_t size = sizeof(core);

	if (get_set(PTRACE_GETREGSET, tid, NT_PRSTATUS, &core, &size))
		return -1;
	*result = (long)core.rax;
	return (long)core.orig_rax;
}

#endif
