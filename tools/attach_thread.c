/* SPDX-License-Identifier: MIT */
#include "tools/attach_thread.h"

#include <dirent.h>
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/doctor_look.h"
#include "tools/proc_status.h"

#define MS 1000000ull
#define STOP_NS (200 * MS)      /* a thread that waits stops in some 10 us */
#define PATIENCE_NS (300 * MS)  /* before a thread is taken that runs */
enum { YIELDS = 200, LOOK_US = 50, ROUND_US = 2000 };
enum { THREADS_MAX = 4096 };

/* The frame, and what pthread_create() needs: some KiB. */
enum { ROOM = 32 << 10, FRAME_MAX = 20 << 10, SCAN_MAX = 256 << 10 };

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

uint64_t thread_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- Stops ---- */

/* 0, -ETIMEDOUT, or -ESRCH: it has ended. */
static int wait_stop(pid_t tid, uint64_t deadline_ns, int *status)
{
	for (int i = 0; ; i++) {
		pid_t got = waitpid(tid, status, __WALL | WNOHANG);

		if (got < 0 && errno != EINTR)
			return -ESRCH;
		if (got == tid)
			return WIFSTOPPED(*status) ? 0 : -ESRCH;
		if (thread_now_ns() > deadline_ns)
			return -ETIMEDOUT;
		/* Most stops are some us away. */
		if (i < YIELDS)
			sched_yield();
		else
			usleep(LOOK_US);
	}
}

static bool is_event_stop(int status)
{
	return status >> 16 == PTRACE_EVENT_STOP;
}

static bool is_syscall_stop(int status)
{
	return WSTOPSIG(status) == (SIGTRAP | 0x80);
}

/* Goes on after a stop that is none of ours: a signal is passed on, a stop of
 * the whole process (SIGSTOP) stays one. */
static void pass_on(pid_t tid, int status, int request)
{
	long sig = 0;

	if (is_event_stop(status) && WSTOPSIG(status) != SIGTRAP)
		request = PTRACE_LISTEN;
	else if (!is_event_stop(status) && !is_syscall_stop(status))
		sig = WSTOPSIG(status);
	ptrace(request, tid, NULL, (void *)sig);
}

/* Stops a thread that is ours by PTRACE_SEIZE. */
static int stop(pid_t tid)
{
	uint64_t deadline = thread_now_ns() + STOP_NS;
	int status, err;

	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL))
		return -errno;
	for (;;) {
		err = wait_stop(tid, deadline, &status);
		if (err || (is_event_stop(status) &&
			    WSTOPSIG(status) == SIGTRAP))
			return err;
		pass_on(tid, status, PTRACE_CONT);
	}
}

/* ---- What the threads do ---- */

enum grade {
	WAITS,          /* goes on exactly where it was */
	WAITS_TIMED,    /* the same, if we live */
	WAITS_FRAGILE,  /* is cut short by a stop, and made to start over */
	RUNS,
	UNFIT,
};

static const struct { long nr; uint8_t timeout; uint8_t grade; } waits[] = {
	/* timeout: number of the argument that is 0 (poll: -1) without one */
	{ SYS_read, 0, WAITS },
	{ SYS_futex, 4, WAITS },
	{ SYS_ppoll, 3, WAITS },
	{ SYS_pselect6, 5, WAITS },
	{ SYS_wait4, 0, WAITS },
	{ SYS_waitid, 0, WAITS },
	{ SYS_rt_sigsuspend, 0, WAITS },
	{ SYS_recvfrom, 0, WAITS_FRAGILE },
	{ SYS_recvmsg, 0, WAITS_FRAGILE },
	{ SYS_accept, 0, WAITS_FRAGILE },
	{ SYS_accept4, 0, WAITS_FRAGILE },
	{ SYS_nanosleep, 0, WAITS_TIMED },
	{ SYS_clock_nanosleep, 0, WAITS_TIMED },
	{ SYS_epoll_pwait, 0, WAITS_FRAGILE },
	{ SYS_rt_sigtimedwait, 0, WAITS_FRAGILE },
#ifdef SYS_poll
	/* x86-64: of a call that was stopped before, the rest of its time */
	{ SYS_restart_syscall, 0, WAITS_TIMED },
	{ SYS_poll, 0, WAITS_TIMED },
	{ SYS_select, 5, WAITS },
	{ SYS_pause, 0, WAITS },
	{ SYS_epoll_wait, 0, WAITS_FRAGILE },
#endif
};

static enum grade grade_of(const struct arch_blocked *b)
{
	/* A lock (of malloc, of the loader) is waited for with FUTEX_WAIT. */
	if (b->nr == SYS_futex &&
	    (b->args[1] & FUTEX_CMD_MASK) != FUTEX_WAIT_BITSET)
		return UNFIT;
	for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++) {
		if (waits[i].nr != b->nr)
			continue;
		if (waits[i].timeout && b->args[waits[i].timeout - 1])
			return WAITS_TIMED;
		return (enum grade)waits[i].grade;
	}
	return UNFIT;
}

/* "running", or "NR 0xARG ... 0xSP 0xPC"; NR is -1 outside of a call. */
static enum grade look_at(pid_t pid, pid_t tid, struct arch_blocked *b)
{
	struct look machine = { .fd = -1 };
	char path[64], text[256], *at;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	b->nr = -1;
	if (look_read(&machine, path, text, sizeof(text)) <= 0)
		return UNFIT;
	if (!strncmp(text, "running", 7))
		return RUNS;
	b->nr = strtol(text, &at, 10);
	for (int i = 0; i < 6; i++)
		b->args[i] = strtoull(at, &at, 16);
	return b->nr < 0 ? RUNS : grade_of(b);
}

/* A signal that waits for the thread, and is not blocked. */
static bool has_signal(pid_t pid, pid_t tid)
{
	struct look machine = { .fd = -1 };
	char status[PROC_STATUS_SIZE];

	if (proc_status_read_thread(&machine, pid, tid, status))
		return true;
	return (proc_status_mask(status, "SigPnd") |
		proc_status_mask(status, "ShdPnd")) &
		~proc_status_mask(status, "SigBlk");
}

/* ---- Is this a place to call from? ---- */

/* A thread's own stack, which glibc puts below its TLS block; not that of a
 * coroutine. */
static bool has_stack(const struct thread *t)
{
	uint64_t sp = arch_sp(&t->own), tls = arch_tls(t->tid, &t->own);
	const struct region *r = memory_at(t->memory, sp);

	if (!r || !r->is_write)
		return false;
	if (!strcmp(r->path, "[stack]"))
		return true;
	return sp - r->start > ROOM && tls > sp && tls < r->end;
}

/* The return address of a handler is that of the code which we return by. */
static bool in_handler(const struct thread *t)
{
	uint64_t sp = arch_sp(&t->own) & ~7ull, *words;
	const struct region *r = memory_at(t->memory, sp);
	size_t size = r->end - sp < SCAN_MAX ? r->end - sp : SCAN_MAX;
	bool found = false;

	words = malloc(size);
	if (!words || !memory_read(t->memory, sp, words, size))
		found = true;
	for (size_t i = 0; !found && i < size / 8; i++)
		found = words[i] == t->sigreturn;
	free(words);
	return found;
}

/* Not in whatever defines malloc, or the loader. */
static bool in_program(const struct thread *t)
{
	const struct region *r = memory_at(t->memory, arch_pc(&t->own));

	if (!r)
		return false;
	if (!*r->path)
		return true;
	return *r->path == '/' && !strstr(r->path, "/ld-") &&
		!strstr(r->path, "/libpthread") &&
		!memory_symbol(t->memory, r->base, "malloc");
}

static bool is_safe(struct thread *t, struct arch_blocked *b)
{
	uint32_t code = 0;

	memory_read(t->memory, arch_pc(&t->own), &code, sizeof(code));
	if (arch_restarts(&t->own, b, code)) {
		if (grade_of(b) == UNFIT)
			return false;
	} else if (!arch_in_code(&t->own, code) || !in_program(t)) {
		return false;
	}
	return has_stack(t) && !in_handler(t);
}

static bool write_frame(struct thread *t)
{
	static uint8_t frame[FRAME_MAX];
	size_t size = arch_frame(&t->own, t->sigreturn, frame, sizeof(frame),
				 &t->sp);

	return size && memory_write(t->memory, t->sp, frame, size);
}

/* 0: taken.  -EAGAIN: goes on as if nothing had been. */
static int try_thread(struct thread *t, pid_t tid, struct arch_blocked *b)
{
	int err;

	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD))
		return errno == ESRCH ? -EAGAIN : -errno;
	err = stop(tid);
	if (err)
		return err == -ESRCH ? -EAGAIN : err;
	t->tid = tid;
	if (!has_signal(t->pid, tid))
		arch_repair(tid);
	err = arch_read(tid, &t->own);
	if (!err && is_safe(t, b) && write_frame(t))
		return 0;
	ptrace(PTRACE_DETACH, tid, NULL, NULL);
	t->tid = 0;
	return err && err != -ESRCH ? err : -EAGAIN;
}

/* ---- Taking one ---- */

struct choice {
	pid_t tid;
	enum grade grade;
	struct arch_blocked blocked;
	int nr, nr_running;
};

/* The best thread, of equals another one in each round. */
static struct choice choose(pid_t pid, unsigned round)
{
	struct choice best = { .grade = UNFIT };
	struct arch_blocked b;
	char path[32];
	struct dirent *entry;
	unsigned nr_equal = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)) && best.nr < THREADS_MAX) {
		pid_t tid = atoi(entry->d_name);
		enum grade grade = tid ? look_at(pid, tid, &b) : UNFIT;

		best.nr += tid != 0;
		best.nr_running += tid && grade == RUNS;
		nr_equal = grade == best.grade ? nr_equal + 1 : 1;
		if (grade == UNFIT || grade > best.grade ||
		    (grade == best.grade && round % nr_equal))
			continue;
		best.tid = tid;
		best.grade = grade;
		best.blocked = b;
	}
	if (dir)
		closedir(dir);
	return best;
}

static int gave_up(const struct choice *c, char *why, size_t size)
{
	snprintf(why, size, "of its %d threads %d run, and none was at a place "
		 "where it could be interrupted safely (in a system call that "
		 "waits, outside of a signal handler)", c->nr, c->nr_running);
	return -EAGAIN;
}

int thread_take(struct thread *t, pid_t pid, struct memory *m,
		uint64_t deadline_ns, char *why, size_t why_size)
{
	uint64_t patience = thread_now_ns() + PATIENCE_NS;
	struct choice c;
	int err;

	t->pid = pid;
	t->memory = m;
	t->tid = 0;
	for (unsigned round = 0; ; round++) {
		c = choose(pid, round);
		if (!c.nr)
			return -ESRCH;
		if (thread_now_ns() > deadline_ns)
			return gave_up(&c, why, why_size);
		err = -EAGAIN;
		if (c.grade < WAITS_FRAGILE || (c.grade < UNFIT &&
						thread_now_ns() > patience))
			err = try_thread(t, c.tid, &c.blocked);
		if (err != -EAGAIN)
			return err;
		usleep(ROUND_US);
		/* A thread that is new has a stack that is new. */
		if (round % 16 == 15 && memory_map(m, pid))
			return -ESRCH;
	}
}

/* ---- Calls ---- */

static bool is_fault(int status)
{
	int sig = WSTOPSIG(status);

	return !is_event_stop(status) && (sig == SIGSEGV || sig == SIGBUS ||
					  sig == SIGILL || sig == SIGFPE);
}

static bool is_call(long nr, long wanted)
{
	return nr == wanted || (wanted == SYS_clone && nr == SYS_clone3);
}

/* Until the return from the frame.  Stops at system calls come in pairs. */
static int run_call(struct thread *t, long nr, long *result,
		    uint64_t deadline_ns)
{
	int status, err;
	long value, at;

	for (;;) {
		err = wait_stop(t->tid, deadline_ns, &status);
		if (err)
			return err;
		if (is_fault(status))
			return -EFAULT;
		if (is_syscall_stop(status)) {
			t->in_syscall = !t->in_syscall;
			at = arch_call_number(t->tid, &value);
			if (t->in_syscall && at == SYS_rt_sigreturn)
				return 0;
			if (!t->in_syscall && is_call(at, nr))
				*result = value;
		}
		pass_on(t->tid, status, PTRACE_SYSCALL);
	}
}

int thread_call(struct thread *t, uint64_t function, const uint64_t args[6],
		long nr, long *result, uint64_t deadline_ns)
{
	int err = arch_call(t->tid, &t->own, function, args, t->sp,
			    t->sigreturn);

	*result = -ENOSYS;
	if (err)
		return err;
	t->in_call = true;
	if (ptrace(PTRACE_SYSCALL, t->tid, NULL, NULL))
		return -errno;
	err = run_call(t, nr, result, deadline_ns);
	t->is_lost = err == -ESRCH;
	/* A fault's stop is one to go back from. */
	if (err == -ETIMEDOUT && stop(t->tid))
		t->is_lost = true;
	if (err)
		t->in_syscall = false;
	return err;
}

int thread_release(struct thread *t)
{
	int err = 0;

	if (!t->tid)
		return 0;
	if (t->is_lost)
		err = -ESRCH;
	else if (t->in_call && t->in_syscall)
		err = arch_write_at_return(t->tid, &t->own);
	else if (t->in_call)
		err = arch_write(t->tid, &t->own);
	if (ptrace(PTRACE_DETACH, t->tid, NULL, NULL) && !err)
		err = -errno;
	t->tid = 0;
	return err;
}
