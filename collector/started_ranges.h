/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_STARTED_RANGES_H
#define GPUTRACE_COLLECTOR_STARTED_RANGES_H

#include <stddef.h>
#include <stdint.h>

#include "collector/record.h"

/*
 * The start/end ranges that are open in the process, kept also outside
 * windows so that one which opens meanwhile knows their names.  The low bits
 * of an id name its slot, so that an end finds it at once; a slot that an old
 * range still holds is not taken, the new range then is not carried.
 * Lock-free.
 */
#define STARTED_BITS 12         /* 4,096 slots */
#define STARTED_BYTES 256       /* a record longer than this is not carried */

/* A new id (never 0), with or without a slot for the record.
 * Context: any thread, signal-safe. */
uint64_t started_ranges_new_id(void);

/* Where to put the RANGE_START record of `size` bytes, or NULL (no slot, or
 * too large).  Visible to the writer after started_ranges_publish(). */
struct range_record *started_ranges_add(uint64_t id, uint32_t size);
void started_ranges_publish(uint64_t id, uint32_t epoch);

/* Unknown ids are ignored.  Returns the size of the record, in `buffer` of
 * STARTED_BYTES, if the range was started before `epoch`, which is inside a
 * window: it must be carried into that now; else 0. */
size_t started_ranges_remove(uint64_t id, uint32_t epoch, void *buffer);

/* Those started before `epoch`, with RECORD_CARRIED and the time at which its
 * window opened.  Returns bytes.  Context: writer thread. */
size_t started_ranges_copy(uint32_t epoch, void *buffer, size_t size);

#endif
