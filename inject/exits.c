/* SPDX-License-Identifier: MIT */
#include "inject/exits.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inject/ending.h"

/*
 * _exit and _Exit, which run no exit handler (os._exit of Python, the end of
 * many a worker): the trace is completed first.  Where nothing is traced, in
 * a child of any kind and in a program that does not use CUDA, they are the
 * real ones at once.  Callable where those are: signal handlers, children of
 * vfork.
 */
#define EXPORT __attribute__((visibility("default")))

static void (*real_exit)(int status);

void exits_prepare(void)
{
	real_exit = (void (*)(int))dlsym(RTLD_NEXT, "_exit");
}

static _Noreturn void end(int status)
{
	ending_run();
	if (real_exit)
		real_exit(status);
	for (;;)
		syscall(SYS_exit_group, status);
}

EXPORT _Noreturn void _exit(int status)
{
	end(status);
}

EXPORT _Noreturn void _Exit(int status)
{
	end(status);
}
