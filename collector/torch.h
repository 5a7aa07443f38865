/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_TORCH_H
#define GPUTRACE_COLLECTOR_TORCH_H

#include "collector/source.h"

/*
 * PyTorch's operators, as cpu_op slices on the threads that ran them, and the
 * program's record_function() ranges and profiler steps, as annotations; and
 * what its caching allocator does (torch_memory.h).
 *
 * Once the process has torch, and while a window is open, two callbacks are in
 * torch's own list of global ones (the list that is made for observers like
 * this): every thread's operators call them from the next one on.  Between
 * windows none is there, and an operator costs what it always did.
 */
extern const struct source torch_source;

#endif
