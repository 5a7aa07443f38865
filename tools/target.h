/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_TARGET_H
#define GPUTRACE_TOOLS_TARGET_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/container.h"
#include "tools/doctor_look.h"

/*
 * Processes that can be traced, or are: found in /proc, from outside their
 * containers.  Nothing here changes a process.
 *
 *   targets_find()      by PID, --match or --all       target_find.c
 *   target_read()       one of them                    target.c
 *   target_socket()     the way to its control socket      target_socket.c
 *
 * Texts are plain (tools/plain.h): printable, UTF-8.
 */
enum target_state {
	STATE_UNTRACED,         /* the library is not in it */
	STATE_WAITING,          /* the library waits for CUDA's start */
	STATE_ASIDE,            /* CUDA has started, the library did not */
	STATE_SLEEPING, STATE_RECORDING, STATE_RECORDER, STATE_STOPPING,
	STATE_STOPPED,          /* the process is: SIGSTOP, a debugger */
	NR_STATES
};

enum target_reach { REACH_NO, REACH_SOCKET, REACH_SIGNAL, REACH_ATTACH };

struct target {
	bool is_known;          /* false: it could not be looked at, see why */
	long pid;               /* as we count */
	long inner_pid;         /* as it counts itself */
	long uid, inner_uid;    /* effective, likewise */
	long socket_uid;        /* whose the socket is */
	uint64_t started;       /* field 22 of its stat: clock ticks */
	char name[64];          /* of the process: Name of its status */
	char program[256];      /* name of the file that it executes */
	char command[1024];     /* arguments, with spaces between them */
	struct container container;
	uint64_t gpus;          /* bit N: /dev/nvidiaN is open, N < 64 */
	char visible[64];       /* CUDA_VISIBLE_DEVICES, "" if not set */
	bool has_library, has_cuda;
	enum target_state state;
	enum target_reach reach;
	bool may_come;          /* its socket, which is not there: a program
				 * that has just begun looks like that */
	char why[256];          /* NO: why not, and what to do */
	char signal[16];        /* GPUTRACE_SIGNAL: "USR2" or "" */
	char socket[PATH_MAX];  /* its path behind "/proc/PID/root"; "" if
				 * it has none of ours */
};

/*
 * Asks the process for its state through its socket: 0, and the word of the
 * reply ("sleeping"); or -errno.  Must not wait for longer than some 100 ms.
 */
typedef int target_ask(const struct look *machine, const struct target *t,
		       char *state, size_t size);

/* Fills `t` from /proc/PID (a thread's PID: its process).  `ask` may be NULL.
 * What cannot be looked at is not is_known, and REACH_NO with the reason. */
void target_read(const struct look *machine, long pid, target_ask *ask,
		 struct target *t);

/* The socket as an O_PATH descriptor, to be named /proc/self/fd/N in
 * connect(): no length limits it, and no link leads out of the process's root.
 * -ENOENT: none; -EPERM: not its user's; another -errno. */
int target_socket(const struct look *machine, const struct target *t);

/* Sets REACH_NO and the reason why target_socket() finds none; may_come where
 * nothing tells it. */
void target_no_socket(const struct look *machine, struct target *t);

/* "sleeping", ... */
const char *target_state_name(enum target_state state);
/* "socket", "signal", "attach", "no" */
const char *target_reach_name(enum target_reach reach);

/* The open GPUs: "0,3"; else CUDA_VISIBLE_DEVICES; "" if neither tells. */
void target_gpus(const struct target *t, char *text, size_t size);

/* Which processes are meant: those with these PIDs, whatever they are; or all
 * that carry the library or use CUDA. */
struct target_choice {
	const long *pids;
	size_t nr_pids;
	/* Of all those of which this shell pattern fits the name, the program,
	 * a word of the command or the last part of its path, or the whole
	 * command; NULL: any. */
	const char *match;
	bool reachable;         /* of all those with a socket or a signal */
};

struct targets {
	struct target *target;  /* in the order of pids, else by pid */
	size_t nr, cap;
	size_t nr_unseen;       /* processes that we may not look at */
};

/* A PID that comes twice is in there once.
 * 0, or -errno: no /proc, no memory.  targets_fini() in every case. */
int targets_find(const struct look *machine,
		 const struct target_choice *choice, target_ask *ask,
		 struct targets *found);
void targets_fini(struct targets *found);

/* "12 processes of other users were not looked at: ..."; "" if none. */
void targets_unseen(const struct targets *found, char *text, size_t size);

#endif
