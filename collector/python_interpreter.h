/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_PYTHON_INTERPRETER_H
#define GPUTRACE_COLLECTOR_PYTHON_INTERPRETER_H

#include <stdint.h>

#include "collector/peek.h"
#include "collector/python_layout.h"

/* What python_prepare() found, for the files that read Python's memory. */
struct python_interpreter {
	void *(*this_thread)(void);
	int (*is_initialized)(void);    /* 0 again from its end on */
	uintptr_t loop;
	struct python_layout layout;
	struct python_types types;
};

/* NULL: none is known.  Context: any thread, signal-safe. */
const struct python_interpreter *python_interpreter(void);

/* The calling thread's innermost frame, 0: it runs no Python.
 * Context: as peek_copy(), once an interpreter is known. */
uintptr_t python_first_frame(struct peek *peek);

#endif
