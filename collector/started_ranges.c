/* SPDX-License-Identifier: MIT */
#include "collector/started_ranges.h"

#include <stdatomic.h>

#include "collector/window.h"

#define NR_SLOTS (1u << STARTED_BITS)
#define SLOT(id) (&slots[(id) & (NR_SLOTS - 1)])

/* Ids that are tried for a free slot: one after another, so that few ranges
 * which stay open for long are in nobody's way. */
#define NR_TRIES 32

struct slot {
	_Atomic uint64_t id;            /* 0: free; RESERVED: being filled */
	_Atomic uint32_t epoch;
	_Atomic uint16_t size;
	_Atomic uint16_t in_long;       /* 1 + index of `longs`; 0: here */
	_Alignas(8) uint8_t record[STARTED_BYTES];
};

struct long_record {
	_Atomic uint32_t is_taken;
	_Alignas(8) uint8_t record[STARTED_MAX];
};

#define RESERVED UINT64_MAX

static struct slot slots[NR_SLOTS];
static struct long_record longs[STARTED_LONGS];
static _Atomic uint64_t last_turn;
static _Atomic uint32_t next_long;

uint64_t started_ranges_new_id(void)
{
	uint64_t id = 0;

	for (int i = 0; i < NR_TRIES; i++) {
		id = atomic_fetch_add_explicit(&last_turn, 1,
					       memory_order_relaxed) + 1;
		if (!atomic_load_explicit(&SLOT(id)->id,
					  memory_order_relaxed))
			break;
	}
	return id;
}

/* 1 + its index, or 0. */
static uint16_t take_long(void)
{
	uint32_t first = atomic_fetch_add_explicit(&next_long, 1,
						   memory_order_relaxed);

	for (uint32_t i = 0; i < STARTED_LONGS; i++) {
		uint32_t at = (first + i) % STARTED_LONGS, is_free = 0;

		if (atomic_compare_exchange_strong_explicit(
				&longs[at].is_taken, &is_free, 1,
				memory_order_acquire, memory_order_relaxed))
			return (uint16_t)(at + 1);
	}
	return 0;
}

static uint8_t *record_of(struct slot *slot, uint16_t in_long)
{
	return in_long ? longs[in_long - 1].record : slot->record;
}

struct range_record *started_ranges_add(uint64_t id, uint32_t size,
					uint32_t *room)
{
	struct slot *slot = SLOT(id);
	uint64_t expected = 0;
	uint16_t in_long = 0;

	if (!atomic_compare_exchange_strong_explicit(&slot->id, &expected,
			RESERVED, memory_order_acquire, memory_order_relaxed))
		return NULL;
	if (size > STARTED_BYTES)
		in_long = take_long();
	*room = in_long ? STARTED_MAX : STARTED_BYTES;
	atomic_store_explicit(&slot->size,
		(uint16_t)(size < *room ? size : *room), memory_order_relaxed);
	atomic_store_explicit(&slot->in_long, in_long, memory_order_relaxed);
	/* The old id is gone before its record is written over (pairs with
	 * the acquire fence in copy_slot()). */
	atomic_thread_fence(memory_order_release);
	return (void *)record_of(slot, in_long);
}

void started_ranges_publish(uint64_t id, uint32_t epoch)
{
	atomic_store_explicit(&SLOT(id)->epoch, epoch, memory_order_relaxed);
	/* Pairs with the acquire load in is_old(). */
	atomic_store_explicit(&SLOT(id)->id, id, memory_order_release);
}

/* A plain copy that may race with the next user of the slot; the id tells. */
__attribute__((no_sanitize("thread")))
static void copy_racing(void *to, const uint8_t *from, size_t size)
{
	for (size_t i = 0; i < size; i += 8)
		*(uint64_t *)((uint8_t *)to + i) = __atomic_load_n(
			(const uint64_t *)(from + i), __ATOMIC_RELAXED);
}

static bool is_old(struct slot *slot, uint64_t id, uint32_t epoch)
{
	return id && id != RESERVED &&
		atomic_load_explicit(&slot->id, memory_order_acquire) == id &&
		atomic_load_explicit(&slot->epoch, memory_order_relaxed) <
		epoch;
}

static bool copy_slot(struct slot *slot, uint64_t id, uint32_t epoch,
		      void *out, uint32_t size)
{
	uint16_t in_long = atomic_load_explicit(&slot->in_long,
						memory_order_relaxed);
	struct range_record *record = out;

	if (size > STARTED_BYTES && !in_long)
		return false;           /* the next user's */
	copy_racing(out, record_of(slot, in_long), size);
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&slot->id, memory_order_relaxed) != id)
		return false;
	record->head.t_ns = window_opened_ns(epoch);
	record->flags |= RECORD_CARRIED;
	return true;
}

uint32_t started_ranges_old(uint64_t id, uint32_t epoch)
{
	return is_old(SLOT(id), id, epoch) ?
		atomic_load_explicit(&SLOT(id)->size, memory_order_relaxed) :
		0;
}

bool started_ranges_get(uint64_t id, uint32_t epoch, void *out, uint32_t size)
{
	return copy_slot(SLOT(id), id, epoch, out, size);
}

void started_ranges_remove(uint64_t id)
{
	struct slot *slot = SLOT(id);
	uint64_t expected = id;
	uint16_t in_long = atomic_load_explicit(&slot->in_long,
						memory_order_relaxed);

	if (id == RESERVED ||
	    !atomic_compare_exchange_strong_explicit(&slot->id, &expected, 0,
			memory_order_acq_rel, memory_order_relaxed))
		return;
	/* Of this id still: it was published after in_long was set. */
	if (in_long)
		atomic_store_explicit(&longs[in_long - 1].is_taken, 0,
				      memory_order_release);
}

size_t started_ranges_copy(uint32_t epoch, void *buffer, size_t size)
{
	size_t used = 0;

	for (uint32_t i = 0; i < NR_SLOTS; i++) {
		struct slot *slot = &slots[i];
		uint64_t id = atomic_load_explicit(&slot->id,
						   memory_order_relaxed);
		uint32_t need = is_old(slot, id, epoch) ?
			atomic_load_explicit(&slot->size,
					     memory_order_relaxed) : 0;

		if (need && need <= size - used &&
		    copy_slot(slot, id, epoch, (uint8_t *)buffer + used, need))
			used += need;
	}
	return used;
}
