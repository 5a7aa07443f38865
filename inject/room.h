/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_ROOM_H
#define GPUTRACE_INJECT_ROOM_H

#include <stdint.h>

/*
 * The memory that the process may have in all: the least limit of its control
 * groups (a container's), of version 2 or 1, and of RLIMIT_AS.  UINT64_MAX
 * where there is none, or it cannot be read.  Context: attach.
 */
uint64_t room_bytes(void);

#endif
