/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_LOSS_H
#define GPUTRACE_COLLECTOR_LOSS_H

#include <stdint.h>

/*
 * What could not be kept, counted by cause.  The key is what users see in the
 * file (gputrace.losses), at the end on stderr and in `gputrace check`.
 */
#define LOSSES(X) \
	X(LOSS_RING_FULL, "ring full")               /* NVTX, a source outran the writer */ \
	X(LOSS_NO_THREAD_STATE, "no thread state")   /* over the bound; ended */ \
	X(LOSS_NO_BUFFER, "activity buffers full")   /* at the memory bound */ \
	X(LOSS_CUPTI_DROPPED, "dropped by CUPTI")    /* GetNumDroppedRecords */ \
	X(LOSS_INVALID, "invalid activity")          /* unreadable, or unknown kind */ \
	X(LOSS_NO_TIME, "without time")              /* start or end 0 */ \
	X(LOSS_REVERSED, "end before start")         \
	X(LOSS_BEFORE_BASE, "before the trace")      /* earlier than the base */ \
	X(LOSS_FUTURE, "after the present")          /* a minute, or years */ \
	X(LOSS_UNFINISHED, "unfinished GPU work")    /* in flight at a forced flush */ \
	X(LOSS_BUFFERS_LOST, "buffers never returned") \
	X(LOSS_TABLE_FULL, "table full")             /* pending work, open ranges */ \
	X(LOSS_SWITCHES, "context switches")         /* outran the sampler */ \
	X(LOSS_TEXT_CUT, "names cut")                \
	X(LOSS_PAYLOAD, "payloads incomplete")       /* unknown, or too long */ \
	X(LOSS_STACKS, "call stacks")                /* too many at once */ \
	X(LOSS_WRITE, "not written")                 /* disk full, write errors */ \
	X(LOSS_ROTATED, "events in files rotated away")

enum loss {
#define X(id, key) id,
	LOSSES(X)
#undef X
	LOSS_NR
};

/* Context: any thread, signal-safe. */
void loss_add(enum loss cause, uint64_t n);
uint64_t loss_get(enum loss cause);
const char *loss_key(enum loss cause);

#endif
