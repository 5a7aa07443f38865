/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_PYTHON_CALLS_H
#define GPUTRACE_COLLECTOR_PYTHON_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/peek.h"

/*
 * The calls of one Python function, f(self, *args, **kwargs), that the calling
 * thread is in, out of its frames (python.h), for a thread that is inside C
 * code which Python called: its frames stand still, and all that they point to
 * lives.  So a page that was found to be there stays for as long as the
 * caller keeps its struct peek (a thread's, for a window), and a look costs a
 * system call only where it meets a new one.  What remains are daemon threads
 * of an interpreter that ends, which is asked for first: see python.h.
 *
 * Two calls may have their frames in the same place, and the same self.  They
 * are told apart by the version of the kwargs, which is another for each
 * dictionary of the process (CPython 3.9 to 3.13); without one (3.14) by the
 * first of the args, an object that in a call of the same module on another
 * tensor is another, and on the same one is not.
 */
struct python_call {
	uintptr_t frame;
	uintptr_t self;         /* 0: it cannot be read */
	uint64_t serial;
};

struct python_function {
	const char *name, *qualified;   /* 3.9 and 3.10 know only the first */
	const char *file;               /* the end of its path */
};

/* -ENOSYS and so on as python_prepare_frames().  Context: the same. */
int python_calls_prepare(const struct python_function *function);

/* True where `serial` tells calls apart whatever they are called with. */
bool python_calls_are_exact(void);

/* The innermost frame of the thread, which tells whether it is elsewhere than
 * at the last look; 0: none, or no interpreter.
 * Context: as above; signal-safe; sets errno. */
uintptr_t python_calls_top(struct peek *peek);

/* The calls from the frame `top` on, innermost first, until `stop` says of one
 * that it is known, and with it what is around it (that one is not told), or
 * `max` are found.  `frame` and `serial` are set when it is asked.
 * Returns how many.  Context: as above. */
int python_calls_walk(struct peek *peek, uintptr_t top,
		      struct python_call *calls, int max,
		      bool (*stop)(const struct python_call *call, void *of),
		      void *of);

#endif
