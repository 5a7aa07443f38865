/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_OSRT_RECORD_H
#define GPUTRACE_COLLECTOR_OSRT_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/osrt_calls.h"

/* Context: attach, once; as the source's open and close. */
void osrt_record_prepare(void);
void osrt_record_open(bool is_open);

/* A call took long.  call: its first two arguments and its result.  Keeps
 * errno.  Context: wherever the program made that call, a signal handler or an
 * allocator with its lock held included: no memory, no lock. */
void osrt_record(enum osrt_id id, uint64_t start_ns, uint64_t end_ns,
		 const long call[3]);

#endif
