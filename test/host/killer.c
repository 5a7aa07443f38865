/* SPDX-License-Identifier: MIT */
/*
 * killer: runs a program and kills it at a place that is counted.
 *
 *	killer N PROGRAM ...
 *
 * The place is the N-th beginning or end of a system call by which it changes
 * another process: ptrace(), pwrite().  Exit status: 9 when it was killed, else
 * the program's.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLED = 9 };

/* The number is told only when a call begins. */
static long number_of(pid_t pid)
{
	static long number = -1;
	struct __ptrace_syscall_info call;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(call), &call) > 0 &&
	    call.op == PTRACE_SYSCALL_INFO_ENTRY)
		number = (long)call.entry.nr;
	return number;
}

static int watch(pid_t pid, long n)
{
	int status, sig = 0;
	long nr;

	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		sig = 0;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
			nr = number_of(pid);
			n -= nr == SYS_ptrace || nr == SYS_pwrite64;
		} else if (WSTOPSIG(status) != SIGTRAP) {
			sig = WSTOPSIG(status);
		} else {
			ptrace(PTRACE_SETOPTIONS, pid, NULL,
			       PTRACE_O_TRACESYSGOOD);
		}
		if (!n) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			return KILLED;
		}
		ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(long)sig);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	pid_t pid;

	if (argc < 3)
		return EXIT_FAILURE;
	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(argv[2], argv + 2);
		_exit(EXIT_FAILURE);
	}
	return watch(pid, atol(argv[1]));
}
