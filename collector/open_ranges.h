/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_OPEN_RANGES_H
#define GPUTRACE_COLLECTOR_OPEN_RANGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/record.h"

/*
 * The ranges that are open on one thread, kept inside and outside windows, so
 * that a window which opens inside a range knows its name.
 *
 *   entries  | 0 | 1 | 2 | ...     each: where its RANGE_PUSH record lies
 *   bytes    |push  |push    |push|   in `bytes`, in the order of the pushes
 *
 * The thread itself changes it; the writer copies it, and notices by `turn`
 * (odd while the thread changes something) that its copy is torn.
 */
#define OPEN_RANGES_MAX 256     /* deeper nesting is counted, not kept */
#define OPEN_RANGES_DOMAINS 32  /* that nest deeper at once; see below */
#define OPEN_RANGES_BYTES 28672 /* 28 KiB: 64 B and a name for 256 ranges */

struct open_range {
	uint32_t offset;
	uint16_t is_closed;     /* popped below others (another domain's) */
	uint16_t is_passing;    /* ends with what is around it, and with the
				 * window: nvtx_domain.ends_inside */
};

struct range_stack {
	_Atomic uint32_t turn;
	_Atomic uint32_t epoch; /* the window that has these ranges */
	uint32_t nr;
	uint32_t used;
	uint32_t nr_passing;    /* of those that are open */
	uint64_t not_kept;      /* open ranges beyond the bounds: in all, */
	struct {                /* and of each domain */
		const struct nvtx_domain *domain;
		uint64_t nr;
	} deeper[OPEN_RANGES_DOMAINS];
	struct open_range entries[OPEN_RANGES_MAX];
	_Alignas(8) uint8_t bytes[OPEN_RANGES_BYTES];
};

/*
 * Inlined: an NVTX call outside windows costs little more than these.
 *
 * False where the thread is already inside (a signal handler that uses NVTX
 * interrupted it): drop the call.  Context: the thread itself.
 */
static inline bool open_ranges_enter(struct range_stack *stack)
{
	uint32_t turn = atomic_load_explicit(&stack->turn,
					     memory_order_relaxed);

	if (turn & 1)
		return false;
	atomic_store_explicit(&stack->turn, turn + 1, memory_order_relaxed);
	/* The odd turn is seen before any change (pairs with the acquire
	 * fence in open_ranges_copy()). */
	atomic_thread_fence(memory_order_release);
	return true;
}

static inline void open_ranges_leave(struct range_stack *stack)
{
	atomic_store_explicit(&stack->turn,
		atomic_load_explicit(&stack->turn, memory_order_relaxed) + 1,
		memory_order_release);
}

static inline struct range_record *
open_ranges_at(struct range_stack *stack, uint32_t i)
{
	return (void *)(stack->bytes + stack->entries[i].offset);
}

/* The innermost open entry of the domain, or -1. */
static inline int64_t open_ranges_find(struct range_stack *stack,
				       const struct nvtx_domain *domain)
{
	for (int64_t i = (int64_t)stack->nr - 1; i >= 0; i--)
		if (!stack->entries[i].is_closed &&
		    open_ranges_at(stack, (uint32_t)i)->domain == domain)
			return i;
	return -1;
}

/*
 * Beyond the bounds.  A range above one of its domain that is not kept is not
 * kept either, since pops come in order; one of another domain may be.  From
 * the 32nd domain on they share a count, and with it levels.
 */
bool open_ranges_push_deeper(struct range_stack *stack,
			     const struct nvtx_domain *domain, uint32_t size,
			     uint64_t *level);
/* False: the innermost of the domain is kept. */
bool open_ranges_pop_deeper(struct range_stack *stack,
			    const struct nvtx_domain *domain, int64_t *level);

/* Room for a push record of `size` bytes, or NULL where it cannot be kept;
 * its level in any case.  Between enter and leave. */
static inline struct range_record *
open_ranges_push(struct range_stack *stack, const struct nvtx_domain *domain,
		 uint32_t size, uint64_t *level)
{
	int64_t outer = open_ranges_find(stack, domain);
	struct range_record *record;

	*level = outer < 0 ? 0 : open_ranges_at(stack, (uint32_t)outer)->id + 1;
	if ((stack->not_kept || stack->nr == OPEN_RANGES_MAX ||
	     size > OPEN_RANGES_BYTES - stack->used) &&
	    open_ranges_push_deeper(stack, domain, size, level))
		return NULL;
	stack->entries[stack->nr].offset = stack->used;
	stack->entries[stack->nr].is_closed = 0;
	stack->entries[stack->nr].is_passing = domain && domain->ends_inside;
	stack->nr_passing += stack->entries[stack->nr].is_passing;
	record = open_ranges_at(stack, stack->nr++);
	stack->used += size;
	return record;
}

static inline void open_ranges_trim(struct range_stack *stack)
{
	while (stack->nr && stack->entries[stack->nr - 1].is_closed)
		stack->used = stack->entries[--stack->nr].offset;
}

/* The domain of the innermost passing range inside the domain's innermost one;
 * NULL: there is none.  Between enter and leave. */
const struct nvtx_domain *open_ranges_inside(struct range_stack *stack,
					     const struct nvtx_domain *domain);

/* Closes the innermost range of the domain.  Returns its level, or -1 if
 * there is none.  Between enter and leave. */
static inline int64_t open_ranges_pop(struct range_stack *stack,
				      const struct nvtx_domain *domain)
{
	int64_t i = open_ranges_find(stack, domain);
	int64_t level = i < 0 ? -1 :
		(int64_t)open_ranges_at(stack, (uint32_t)i)->id;

	if (stack->not_kept && open_ranges_pop_deeper(stack, domain, &level))
		return level;
	if (i < 0)
		return -1;
	stack->entries[i].is_closed = 1;
	stack->nr_passing -= stack->entries[i].is_passing;
	open_ranges_trim(stack);
	return level;
}

/* The next open range to be carried (*at 0: the outermost), or NULL. */
const struct range_record *open_ranges_next(const struct range_stack *stack,
					    uint32_t *at);

/* Copies all that are open, unless the thread has moved on since or is in
 * `epoch`, or a later one, already.  Returns bytes.  Context: writer thread. */
size_t open_ranges_copy(struct range_stack *stack, uint32_t epoch,
			void *buffer, size_t size);

#endif
