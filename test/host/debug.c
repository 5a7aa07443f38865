/* SPDX-License-Identifier: MIT */
/*
 * debug PROGRAM [ARGUMENTS]: runs it under ptrace, as a debugger without a
 * breakpoint does, and ends with its status.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* The stop behind exec is the debugger's own. */
static long signal_of(int status)
{
	int number = WSTOPSIG(status);

	return number == SIGTRAP ? 0 : number;
}

int main(int argc, char **argv)
{
	pid_t child = argc > 1 ? fork() : -1;
	int status;

	if (child == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(argv[1], argv + 1);
		_exit(EXIT_FAILURE);
	}
	while (child > 0 && waitpid(child, &status, 0) == child) {
		if (WIFEXITED(status))
			return WEXITSTATUS(status);
		if (WIFSIGNALED(status))
			break;
		ptrace(PTRACE_CONT, child, NULL, signal_of(status));
	}
	fprintf(stderr, "debug: nothing ran to its end\n");
	return EXIT_FAILURE;
}
