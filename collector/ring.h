/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_RING_H
#define GPUTRACE_COLLECTOR_RING_H

#include <stddef.h>
#include <stdint.h>

#include "collector/record.h"

/*
 * A ring of records: one thread writes (producer), one at a time reads
 * (consumer: the writer thread, or who stands in for it).
 *
 *  - Wait-free on both sides: no lock, no allocation, no system call.
 *  - A record is visible whole or not at all, in the order of commits.
 *  - When there is no room the record is dropped and counted; the producer
 *    never waits.
 *  - Records never wrap: what does not fit before the end is put at the
 *    start, behind a RECORD_PAD.
 *
 *      tail (consumer)            head (producer)
 *        v                          v
 *   [....RRRRRRRRRRRRRRRRRRRRRRRRRRR............]     both only grow; the
 *                                                     place is value & mask
 *
 * ring_commit() stores head with release order, ring_peek() loads it with
 * acquire order: the record's bytes are there when its end is seen.
 * ring_release() and ring_reserve() pair the same way for the room.
 */
struct ring;

/* size: a power of two, at least 16 KiB.  NULL without memory.
 * Context: any thread, not signal-safe. */
struct ring *ring_create(uint32_t size);
void ring_destroy(struct ring *ring);

/* Room for `size` bytes (8 more than 0, a multiple of 8), or NULL: dropped
 * and counted.  Context: producer only, signal-safe. */
void *ring_reserve(struct ring *ring, uint32_t size);

/* The last reserved record needs so many bytes (a multiple of 8) less.
 * Context: producer only, signal-safe. */
void ring_shorten(struct ring *ring, uint32_t unused);

/* Publishes what the last ring_reserve() gave.  Context: producer only. */
void ring_commit(struct ring *ring);

/* As it was created. */
uint32_t ring_size(const struct ring *ring);

/* Bytes that are free now.  Context: producer only, signal-safe. */
uint32_t ring_room(struct ring *ring);

/* The oldest record, or NULL if there is none.  Context: the consumer. */
const struct record *ring_peek(struct ring *ring);

/* Gives the peeked record's room back.  Context: the consumer. */
void ring_release(struct ring *ring);

/* Copies whole records, the oldest first, of at most `size` bytes in all, and
 * gives their room back: the producer's lines are looked at once, not once for
 * each record.  Returns bytes.  Context: as ring_peek(). */
size_t ring_move(struct ring *ring, void *to, size_t size);

/* Records dropped since the last call.  Context: the consumer. */
uint64_t ring_take_drops(struct ring *ring);

#endif
