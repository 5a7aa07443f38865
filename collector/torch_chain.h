/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_TORCH_CHAIN_H
#define GPUTRACE_COLLECTOR_TORCH_CHAIN_H

#include <stdint.h>

#include "collector/peek.h"
#include "collector/python_calls.h"

/* The modules that a thread was in when its last operator began
 * (torch_modules.h), outermost first: call[i] is the range of level i.  Deeper
 * ones are not told.  Of another window (`epoch`): nothing.
 * Context: the thread itself; thread.c, when it takes over the state. */
#define TORCH_CHAIN_MAX 64
#define TORCH_CHAIN_LEVELS 16  /* of operators in one another */

struct torch_chain {
	uint32_t epoch;
	uint32_t nr;
	/* When the last operator of this level began: the innermost frame,
	 * which stays while it is open, and `nr`. */
	struct {
		uintptr_t top;
		uint32_t nr;
	} began[TORCH_CHAIN_LEVELS];
	struct python_call call[TORCH_CHAIN_MAX];
	struct peek peek;
	uintptr_t *pages;       /* PEEK_MORE, where operators are recorded */
};

#endif
