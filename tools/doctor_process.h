/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_DOCTOR_PROCESS_H
#define GPUTRACE_TOOLS_DOCTOR_PROCESS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/doctor_look.h"

/* A file that the process has mapped. */
struct mapped {
	const char *path;
	uint64_t inode;
	bool is_deleted;
};

/* A snapshot of /proc/PID.  What could not be read is empty. */
struct process {
	long pid;
	char folder[32];                /* "/proc/PID" */
	char name[32];
	char state;
	long uid;                       /* effective */
	long inner_pid;                 /* in its own PID namespace */
	long tracer;                    /* who ptraces it, 0: nobody */
	uint64_t capabilities;          /* effective */
	bool has_writer, has_flush;     /* threads of ours */
	bool has_socket, has_attach;
	char writer_files[48];          /* "task/TID/fd" of the first */
	bool has_gpu;                   /* /dev/nvidia* is open */
	uint64_t gpus;                  /* bit N: /dev/nvidiaN is, N < 64 */
	char twin[PATH_MAX];            /* a trace that is open: its name */
	struct mapped *mapped;
	size_t nr_mapped, cap_mapped;
	char *maps, *environ_text;
	const char **environment;
};

/* Reads the process.  NULL: `why` says in a line why it cannot be looked at.
 * The text of `why` is not to be trusted with a terminal. */
struct process *process_read(const struct look *machine, long pid, char *why,
			     size_t why_size);
void process_free(struct process *p);

/* The first mapped file from `from` on whose path holds `part`; NULL. */
const struct mapped *process_find(const struct process *p, const char *part,
				  const struct mapped *from);

/* The value of a variable; `environment`, which ends with NULL, may be NULL.
 * NULL: it is not set. */
const char *process_variable(const char *const *environment,
			     const char *name);

/* The path of a file that the writer has open, whose name matches a
 * shell pattern; false if there is none. */
bool process_open_file(const struct look *machine, const struct process *p,
		       const char *pattern, char *path, size_t size);

/* An entry of the auxiliary vector, 0 if it has none. */
unsigned long process_auxv(const struct look *machine,
			   const struct process *p, unsigned long type);

#endif
