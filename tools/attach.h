/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_ATTACH_H
#define GPUTRACE_TOOLS_ATTACH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/attach_memory.h"
#include "tools/doctor_process.h"

/*
 * Brings libgputrace.so into a process that runs without it:
 *
 *   attach_check.c    may it, can it, need it?     nothing is touched
 *   attach_place.c    the library where the process sees it
 *   attach.c          a thread of the process is borrowed for three short
 *                     calls (attach_thread.c): mmap, mprotect, pthread_create
 *   attach_stub.c     the new thread calls dlopen() and gputrace_attach(),
 *                     untraced, while all other threads run
 *
 * Every function that can refuse leaves a sentence in `why`.
 */
enum { LIBRARY_MAX = 64 << 20 }; /* bytes of the library's file */

struct attach {
	struct process *process;
	struct memory memory;
	bool force;             /* also where it makes no sense */
	const char *library;    /* for us */
	const char *settings;   /* lines of NAME=VALUE */

	uint64_t libc;          /* its base */
	char path[PATH_MAX];    /* of the library, for the process; "": it is
				 * handed over in memory (memfd) */
	bool is_copy;           /* made by us just now */
	char why[1024];
};

/* Why, and then -1. */
int attach_refuse(struct attach *a, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Reads the process, and checks all that can be checked.  0; 1: the library is
 * there already (`path`); -1. */
int attach_check(struct attach *a, long pid);

/* Why ptrace is not permitted, and how it would be; -1. */
int attach_denied(struct attach *a, long pid);

/* Finds the library in the process's files, or puts it there.  0 or -1. */
int attach_place(struct attach *a);

/* Removes what attach_place() put there: the library was not loaded. */
void attach_unplace(struct attach *a);

/* Loads it.  0 or -1. */
int attach_load(struct attach *a);

/* True if the process has a thread of that name. */
bool attach_has_thread(pid_t pid, const char *name);

#endif
