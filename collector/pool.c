/* SPDX-License-Identifier: MIT */
#include "collector/pool.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "collector/activity_buffer.h"
#include "collector/client_clock.h"
#include "collector/clock.h"
#include "collector/loss.h"
#include "collector/wait.h"

/*
 * The classes of buffers, each a part of the one mapping.  Spare ones are for
 * when all others are in use, one for each thread that launches meanwhile:
 * handed out like the others, their contents counted and dropped.
 */
enum class { LARGE, SMALL, SPARE, NR_CLASSES };

/*
 * Of spare ones there are never less than 4,096: refusing a thread a buffer
 * would end the program (pool.h), and of those that no thread ever takes no
 * page is there.
 */
static const struct {
	uint32_t size;
	uint32_t percent;       /* of the memory */
	uint32_t least;         /* buffers */
} shares[NR_CLASSES] = {
	[LARGE] = { POOL_BUFFER_SIZE, 80, 8 },
	[SMALL] = { POOL_SMALL_SIZE, 17, 8 },
	[SPARE] = { POOL_SPARE_SIZE, 3, 4096 },
};

/* A free list: index + 1 of the first in the low half, a turn in the high
 * half, so that a list that changed and came back is noticed. */
struct class_pool {
	uint8_t *memory;
	uint32_t first, nr;             /* slots */
	_Atomic uint64_t free_list;
};

struct slot {
	struct activity_buffer buffer;
	_Atomic uint32_t next_free;     /* index + 1; 0 ends the list */
	_Atomic uint64_t taken_ns;      /* 0: CUPTI does not hold it */
	enum class class;
	uint32_t clock;                 /* of the times in it */
};

static uint8_t *memory;
static size_t memory_size;
static struct slot *slots;
static uint32_t nr_slots, nr_useful;     /* useful: all but the spare */
static struct class_pool pools[NR_CLASSES];
static struct activity_buffer *_Atomic done_list;
static atomic_bool is_hurried;
static void (*_Atomic wake_flusher)(void);
static _Atomic uint32_t nr_outstanding, nr_done, nr_lost, arrivals, nr_flushes;
static _Atomic int discarding;
static _Atomic uint64_t forced_until_ns;

/* taken_ns of a buffer that was given up. */
#define LOST UINT64_MAX

/* Behind a forced flush what it sent may still be on its way. */
#define FORCED_AFTER_NS 1000000000u

static void give(_Atomic uint64_t *list, uint32_t i)
{
	uint64_t head = atomic_load(list), new;

	do {
		atomic_store_explicit(&slots[i].next_free, (uint32_t)head,
				      memory_order_relaxed);
		new = ((head >> 32) + 1) << 32 | (i + 1);
	} while (!atomic_compare_exchange_weak(list, &head, new));
}

static struct slot *take(_Atomic uint64_t *list)
{
	uint64_t head = atomic_load(list), new;
	uint32_t i;

	do {
		i = (uint32_t)head;
		if (!i)
			return NULL;
		new = ((head >> 32) + 1) << 32 |
			atomic_load_explicit(&slots[i - 1].next_free,
					     memory_order_relaxed);
	} while (!atomic_compare_exchange_weak(list, &head, new));
	return &slots[i - 1];
}

static void *map(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

static void init_class(enum class class, uint8_t *at, uint32_t first)
{
	struct class_pool *pool = &pools[class];
	uint32_t i;

	pool->memory = at;
	pool->first = first;
	/* Given from the last on, so that the first is taken first. */
	for (i = first + pool->nr; i-- > first; ) {
		slots[i].buffer.size = shares[class].size;
		slots[i].buffer.data = at +
			(size_t)(i - first) * shares[class].size;
		slots[i].class = class;
		give(&pool->free_list, i);
	}
}

/* Mapped memory counts against RLIMIT_AS, touched or not: the program must not
 * be left without. */
static bool is_too_much(uint64_t size)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_AS, &limit) &&
	       limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur / 12;
}

int pool_init(uint64_t bytes)
{
	uint8_t *at;
	uint32_t first = 0;

	for (int c = 0; c < NR_CLASSES; c++) {
		uint64_t nr = bytes / 100 * shares[c].percent / shares[c].size;

		pools[c].nr = nr < shares[c].least ? shares[c].least :
			(uint32_t)nr;
		nr_slots += pools[c].nr;
		nr_useful += c == SPARE ? 0 : pools[c].nr;
		memory_size += (size_t)pools[c].nr * shares[c].size;
	}
	if (is_too_much(memory_size))
		return -ENOMEM;
	memory = map(memory_size);
	slots = map(nr_slots * sizeof *slots);
	if (!memory || !slots)
		return -ENOMEM;
	at = memory;
	for (int c = 0; c < NR_CLASSES; c++) {
		init_class((enum class)c, at, first);
		at += (size_t)pools[c].nr * shares[c].size;
		first += pools[c].nr;
	}
	return 0;
}

uint8_t *pool_take(int is_small, size_t *size)
{
	struct slot *slot = take(&pools[is_small ? SMALL : LARGE].free_list);

	if (!slot)
		slot = take(&pools[is_small ? LARGE : SMALL].free_list);
	if (!slot)
		slot = take(&pools[SPARE].free_list);
	if (!slot)
		return NULL;
	atomic_fetch_add_explicit(&nr_outstanding, 1, memory_order_relaxed);
	atomic_store_explicit(&slot->taken_ns, clock_now_ns(),
			      memory_order_relaxed);
	slot->clock = client_clock_number();
	*size = slot->buffer.size;
	return slot->buffer.data;
}

static struct slot *slot_of(const uint8_t *data)
{
	if (!data || data < memory || data >= memory + memory_size)
		return NULL;
	for (int c = NR_CLASSES - 1; c >= 0; c--)
		if (data >= pools[c].memory)
			return &slots[pools[c].first + (size_t)(data -
				pools[c].memory) / shares[c].size];
	return NULL;
}

uint32_t pool_clock_of(const void *raw)
{
	const struct slot *slot = slot_of(raw);

	return slot ? slot->clock : 0;
}

bool pool_owns(const uint8_t *data)
{
	return slot_of(data) != NULL;
}

static void recycle(struct slot *slot)
{
	/* What CUPTI filled, and the page behind it, where a record may have
	 * been begun; the rest was never touched. */
	size_t used = slot->buffer.valid + 4096;

	memset(slot->buffer.data, 0, used < slot->buffer.size ? used :
	       slot->buffer.size);
	give(&pools[slot->class].free_list, (uint32_t)(slot - slots));
}

/* Spare buffers and the floor's: nobody reads them.  (Zeroing them here, on
 * CUPTI's thread, is the one cost; it does not reach the program.) */
static void throw_away(struct slot *slot)
{
	if (slot->class == SPARE && slot->buffer.valid) {
		struct activity_buffer *buffer = &slot->buffer;
		uint64_t nr = 0;

		for (const void *raw = NULL;
		     (raw = activity_next(buffer, raw)); )
			nr++;
		loss_add(LOSS_NO_BUFFER, nr);
	}
	recycle(slot);
}

/* From CUPTI; also one that was given up.  False: it was not out, and would be
 * in two lists. */
static bool take_back(struct slot *slot)
{
	uint64_t taken_ns = atomic_exchange(&slot->taken_ns, 0);

	if (taken_ns == LOST) {
		atomic_fetch_sub(&nr_lost, 1);
		loss_add(LOSS_BUFFERS_LOST, (uint64_t)-1);
	} else if (taken_ns) {
		atomic_fetch_sub_explicit(&nr_outstanding, 1,
					  memory_order_relaxed);
	}
	return taken_ns != 0;
}

static bool is_forced(void)
{
	uint64_t until_ns = atomic_load_explicit(&forced_until_ns,
						 memory_order_relaxed);

	return until_ns && clock_now_ns() < until_ns;
}

void pool_forcing(bool is_forcing)
{
	atomic_store(&forced_until_ns, is_forcing ? UINT64_MAX :
		     clock_now_ns() + FORCED_AFTER_NS);
}

void pool_complete(uint8_t *data, uint64_t valid)
{
	struct slot *slot = slot_of(data);
	struct activity_buffer *buffer;

	if (!slot || !take_back(slot))
		return;
	buffer = &slot->buffer;
	buffer->is_forced = is_forced();
	buffer->valid = valid <= buffer->size ? (size_t)valid : 0;
	if (slot->class == SPARE || !buffer->valid ||
	    atomic_load_explicit(&discarding, memory_order_relaxed)) {
		throw_away(slot);
		return;
	}
	buffer->next = atomic_load(&done_list);
	/* Pairs with the exchange in activity_take(). */
	while (!atomic_compare_exchange_weak(&done_list, &buffer->next,
					     buffer))
		;
	if (atomic_fetch_add(&nr_done, 1) == nr_useful / 8)
		activity_wake();
}

bool activity_is_crowded(void)
{
	return atomic_load(&nr_done) >= nr_useful / 8;
}

uint32_t activity_arrivals(void)
{
	return atomic_load(&arrivals);
}

void activity_wait(uint32_t seen, uint64_t timeout_ns)
{
	if (!activity_is_crowded())
		wait_change(&arrivals, seen, timeout_ns);
}

void activity_wake(void)
{
	wait_wake(&arrivals);
}

void activity_set_hurry(void (*wake)(void))
{
	atomic_store(&wake_flusher, wake);
}

void activity_hurry(void)
{
	void (*wake_up)(void) = atomic_load(&wake_flusher);

	atomic_store(&is_hurried, true);
	if (wake_up)
		wake_up();
}

bool activity_is_hurried(void)
{
	return atomic_exchange(&is_hurried, false);
}

void activity_flushed(void)
{
	atomic_fetch_add(&nr_flushes, 1);
	activity_wake();
}

uint32_t activity_flushes(void)
{
	return atomic_load(&nr_flushes);
}

struct activity_buffer *activity_take(void)
{
	struct activity_buffer *newest = atomic_exchange(&done_list, NULL);
	struct activity_buffer *oldest = NULL, *next;

	/* So that the times in them lie between two pairs. */
	if (newest)
		client_clock_sample();
	for (; newest; newest = next) {
		next = newest->next;
		newest->next = oldest;
		oldest = newest;
	}
	return oldest;
}

void activity_recycle(struct activity_buffer *buffer)
{
	struct slot *slot = slot_of(buffer->data);

	if (!slot)
		return;
	atomic_fetch_sub_explicit(&nr_done, 1, memory_order_relaxed);
	recycle(slot);
}

uint32_t pool_outstanding(void)
{
	return atomic_load_explicit(&nr_outstanding, memory_order_relaxed);
}

uint64_t pool_oldest_ns(void)
{
	uint64_t oldest = UINT64_MAX, taken_ns;

	for (uint32_t i = 0; i < nr_slots && pool_outstanding(); i++) {
		taken_ns = atomic_load_explicit(&slots[i].taken_ns,
						memory_order_relaxed);
		if (taken_ns && taken_ns < oldest)
			oldest = taken_ns;
	}
	return oldest;
}

void pool_give_up(uint64_t before_ns)
{
	uint64_t taken_ns;

	for (uint32_t i = 0; i < nr_slots && pool_outstanding(); i++) {
		taken_ns = atomic_load(&slots[i].taken_ns);
		if (!taken_ns || taken_ns >= before_ns ||
		    !atomic_compare_exchange_strong(&slots[i].taken_ns,
						    &taken_ns, LOST))
			continue;
		atomic_fetch_sub(&nr_outstanding, 1);
		atomic_fetch_add(&nr_lost, 1);
		loss_add(LOSS_BUFFERS_LOST, 1);
	}
}

uint32_t pool_lost(void)
{
	return atomic_load(&nr_lost);
}

uint32_t pool_buffers(void)
{
	return nr_useful;
}

uint32_t pool_use(void)
{
	uint32_t used = pool_outstanding() + pool_lost() +
		atomic_load_explicit(&nr_done, memory_order_relaxed);

	return nr_useful ? used * 100 / nr_useful : 0;
}

void pool_discard(int discard)
{
	atomic_store(&discarding, discard);
}
