/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_STACKS_H
#define GPUTRACE_COLLECTOR_STACKS_H

#include "collector/source.h"

/*
 * Why: the source `stacks`.
 *
 *   CUDA calls that took long --\
 *   blocking calls of osrt ------+--> stack_record in the thread's ring
 *   samples of running threads --+--> stack_record in a ring of the sampler
 *
 * Stacks hold addresses and Python's frames; names come in the writer.
 */
extern const struct source stacks_source
	__attribute__((visibility("hidden")));

#endif
