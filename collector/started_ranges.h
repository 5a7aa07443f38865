/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_STARTED_RANGES_H
#define GPUTRACE_COLLECTOR_STARTED_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/record.h"

/*
 * The start/end ranges that are open in the process, kept also outside
 * windows so that one which opens meanwhile knows their names.  The low bits
 * of an id name its slot, so that an end finds it at once; ids whose slot an
 * old range still holds are passed over.
 *
 *   slots   | id, record of 256 bytes | ...   4,096
 *             id, -----.
 *   longs             `-> | a whole record | ...   256, for long names
 *
 * Lock-free.
 */
#define STARTED_BITS 12         /* 4,096 slots; more are not carried */
#define STARTED_BYTES 256       /* of a slot: names up to 192 bytes */
#define STARTED_LONGS 256       /* 1 MiB, of which only what is used is there */
#define STARTED_MAX (sizeof(struct range_record) + RECORD_TEXT_MAX)

/* A new id (never 0), with or without a slot for the record.
 * Context: any thread, signal-safe. */
uint64_t started_ranges_new_id(void);

/* Where to put the RANGE_START record of `size` bytes, or NULL (no slot).
 * *room: how many there are; fewer than `size` where too many have long
 * names.  Visible to the writer after started_ranges_publish(). */
struct range_record *started_ranges_add(uint64_t id, uint32_t size,
					uint32_t *room);
void started_ranges_publish(uint64_t id, uint32_t epoch);

/* The size of the record if the range was started before `epoch`, which is
 * inside a window, and is open; else 0. */
uint32_t started_ranges_old(uint64_t id, uint32_t epoch);

/* Copies it, of that size, with RECORD_CARRIED and the time at which the
 * epoch's window opened.  False: it has ended meanwhile. */
bool started_ranges_get(uint64_t id, uint32_t epoch, void *out, uint32_t size);

/* Unknown ids are ignored. */
void started_ranges_remove(uint64_t id);

/* Those started before `epoch`, as above.  Returns bytes.
 * Context: writer thread. */
size_t started_ranges_copy(uint32_t epoch, void *buffer, size_t size);

#endif
