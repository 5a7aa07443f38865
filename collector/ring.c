/* SPDX-License-Identifier: MIT */
#include "collector/ring.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

/* Head and tail on cache lines of their own: each side writes one. */
struct ring {
	uint32_t size;
	_Alignas(64) _Atomic uint64_t head;     /* producer writes */
	uint64_t reserved;                      /* producer's own */
	uint64_t seen_tail;                     /* producer's copy of tail */
	_Atomic uint64_t drops;
	_Alignas(64) _Atomic uint64_t tail;     /* consumer writes */
	uint64_t taken_drops;                   /* consumer's own */
	_Alignas(64) uint8_t bytes[];
};

struct ring *ring_create(uint32_t size)
{
	struct ring *ring = mmap(NULL, sizeof *ring + size,
				 PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (ring == MAP_FAILED)
		return NULL;
	ring->size = size;
	return ring;
}

void ring_destroy(struct ring *ring)
{
	if (ring)
		munmap(ring, sizeof *ring + ring->size);
}

uint32_t ring_size(const struct ring *ring)
{
	return ring->size;
}

static void write_pad(struct ring *ring, uint64_t at, uint32_t size)
{
	struct record *pad = (void *)(ring->bytes + (at & (ring->size - 1)));

	/* A pad can be as short as 8 bytes: only kind and size are there.
	 * A size beyond 16 bits is written as 0: to the end of the ring. */
	pad->kind = RECORD_PAD;
	pad->size = size <= UINT16_MAX ? (uint16_t)size : 0;
}

void *ring_reserve(struct ring *ring, uint32_t size)
{
	uint64_t head = atomic_load_explicit(&ring->head,
					     memory_order_relaxed);
	uint32_t to_end = ring->size - (uint32_t)(head & (ring->size - 1));
	uint32_t pad = to_end < size ? to_end : 0;
	uint64_t end = head + pad + size;

	if (end - ring->seen_tail > ring->size) {
		/* Pairs with the release store in ring_release(). */
		ring->seen_tail = atomic_load_explicit(&ring->tail,
						       memory_order_acquire);
		if (end - ring->seen_tail > ring->size) {
			atomic_store_explicit(&ring->drops,
				atomic_load_explicit(&ring->drops,
					memory_order_relaxed) + 1,
				memory_order_relaxed);
			return NULL;
		}
	}
	if (pad)
		write_pad(ring, head, pad);
	ring->reserved = end;
	/* The writer has read the lines that come next: they lie in another
	 * core's cache.  Ask for them before the next record is due. */
	__builtin_prefetch(ring->bytes + ((end + 128) & (ring->size - 1)), 1);
	__builtin_prefetch(ring->bytes + ((end + 192) & (ring->size - 1)), 1);
	return ring->bytes + ((head + pad) & (ring->size - 1));
}

void ring_shorten(struct ring *ring, uint32_t unused)
{
	ring->reserved -= unused;
}

void ring_commit(struct ring *ring)
{
	/* Pairs with the acquire load in ring_peek(). */
	atomic_store_explicit(&ring->head, ring->reserved,
			      memory_order_release);
}

static uint32_t step(const struct ring *ring, uint64_t at,
		     const struct record *record)
{
	return record->size ? record->size :
		ring->size - (uint32_t)(at & (ring->size - 1));
}

uint32_t ring_room(struct ring *ring)
{
	uint64_t head = atomic_load_explicit(&ring->head,
					     memory_order_relaxed);

	return ring->size - (uint32_t)(head -
		atomic_load_explicit(&ring->tail, memory_order_acquire));
}

const struct record *ring_peek(struct ring *ring)
{
	uint64_t tail = atomic_load_explicit(&ring->tail,
					     memory_order_relaxed);
	/* Pairs with the release store in ring_commit(). */
	uint64_t head = atomic_load_explicit(&ring->head,
					     memory_order_acquire);

	while (tail != head) {
		const struct record *record =
			(void *)(ring->bytes + (tail & (ring->size - 1)));

		if (record->kind != RECORD_PAD)
			return record;
		tail += step(ring, tail, record);
		atomic_store_explicit(&ring->tail, tail,
				      memory_order_release);
	}
	return NULL;
}

void ring_release(struct ring *ring)
{
	uint64_t tail = atomic_load_explicit(&ring->tail,
					     memory_order_relaxed);
	const struct record *record =
		(void *)(ring->bytes + (tail & (ring->size - 1)));

	/* Pairs with the acquire load in ring_reserve(). */
	atomic_store_explicit(&ring->tail, tail + step(ring, tail, record),
			      memory_order_release);
}

size_t ring_move(struct ring *ring, void *to, size_t size)
{
	uint64_t tail = atomic_load_explicit(&ring->tail,
					     memory_order_relaxed);
	/* Pairs with the release store in ring_commit(). */
	uint64_t head = atomic_load_explicit(&ring->head,
					     memory_order_acquire);
	const struct record *record;
	size_t used = 0;

	for (; tail != head; tail += step(ring, tail, record)) {
		record = (void *)(ring->bytes + (tail & (ring->size - 1)));
		if (record->kind == RECORD_PAD)
			continue;
		if (record->size > size - used)
			break;
		memcpy((uint8_t *)to + used, record, record->size);
		used += record->size;
	}
	/* Pairs with the acquire load in ring_reserve(). */
	atomic_store_explicit(&ring->tail, tail, memory_order_release);
	return used;
}

uint64_t ring_take_drops(struct ring *ring)
{
	uint64_t all = atomic_load_explicit(&ring->drops,
					    memory_order_relaxed);
	uint64_t news = all - ring->taken_drops;

	ring->taken_drops = all;
	return news;
}
