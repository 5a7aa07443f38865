/* SPDX-License-Identifier: MIT */
#include "collector/started_ranges.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "collector/window.h"

#define NR_SLOTS (1u << STARTED_BITS)
#define SLOT(id) (&slots[(id) & (NR_SLOTS - 1)])

struct slot {
	_Atomic uint64_t id;            /* 0: free; RESERVED: being filled */
	_Atomic uint32_t epoch;
	_Alignas(8) uint8_t record[STARTED_BYTES];
};

#define RESERVED UINT64_MAX

static struct slot slots[NR_SLOTS];
static _Atomic uint64_t last_turn;

/* Ids are given out in order, so the slots are taken round robin; one whose
 * slot is still held by an old range has no slot. */
uint64_t started_ranges_new_id(void)
{
	return atomic_fetch_add_explicit(&last_turn, 1,
					 memory_order_relaxed) + 1;
}

struct range_record *started_ranges_add(uint64_t id, uint32_t size)
{
	uint64_t expected = 0;

	if (size > STARTED_BYTES ||
	    !atomic_compare_exchange_strong_explicit(&SLOT(id)->id, &expected,
			RESERVED, memory_order_acquire, memory_order_relaxed))
		return NULL;
	return (void *)SLOT(id)->record;
}

void started_ranges_publish(uint64_t id, uint32_t epoch)
{
	atomic_store_explicit(&SLOT(id)->epoch, epoch, memory_order_relaxed);
	/* Pairs with the acquire load in started_ranges_copy(). */
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

static size_t copy_slot(struct slot *slot, uint32_t epoch, void *out,
			size_t room)
{
	uint64_t id = atomic_load_explicit(&slot->id, memory_order_acquire);
	struct range_record *record = out;

	if (id == 0 || id == RESERVED || room < STARTED_BYTES ||
	    atomic_load_explicit(&slot->epoch, memory_order_relaxed) == epoch)
		return 0;
	copy_racing(out, slot->record, STARTED_BYTES);
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&slot->id, memory_order_relaxed) != id)
		return 0;
	record->head.t_ns = window_opened_ns(epoch);
	record->flags |= RECORD_CARRIED;
	return record->head.size;
}

size_t started_ranges_remove(uint64_t id, uint32_t epoch, void *buffer)
{
	uint64_t expected = id;
	size_t size = 0;

	if (atomic_load_explicit(&SLOT(id)->id, memory_order_relaxed) != id)
		return 0;
	if (window_is_open(epoch))
		size = copy_slot(SLOT(id), epoch, buffer, STARTED_BYTES);
	return atomic_compare_exchange_strong_explicit(&SLOT(id)->id,
		&expected, 0, memory_order_release, memory_order_relaxed) ?
		size : 0;
}

size_t started_ranges_copy(uint32_t epoch, void *buffer, size_t size)
{
	size_t used = 0;

	for (uint32_t i = 0; i < NR_SLOTS; i++)
		used += copy_slot(&slots[i], epoch, (uint8_t *)buffer + used,
				  size - used);
	return used;
}
