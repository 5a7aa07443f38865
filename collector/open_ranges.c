/* SPDX-License-Identifier: MIT */
#include "collector/open_ranges.h"

#include <stdatomic.h>
#include <string.h>

/* The domain's place among those that nest deeper, or a free one. */
static uint32_t deeper_place(const struct range_stack *stack,
			     const struct nvtx_domain *domain)
{
	uint32_t last = OPEN_RANGES_DOMAINS - 1, free_place = last;

	for (uint32_t i = 0; i < last; i++) {
		if (!stack->deeper[i].nr)
			free_place = free_place < i ? free_place : i;
		else if (stack->deeper[i].domain == domain)
			return i;
	}
	return free_place;
}

bool open_ranges_push_deeper(struct range_stack *stack,
			     const struct nvtx_domain *domain, uint32_t size,
			     uint64_t *level)
{
	uint32_t i;

	if (!stack->not_kept)   /* what is there is of another thread */
		memset(stack->deeper, 0, sizeof stack->deeper);
	i = deeper_place(stack, domain);
	if (!stack->deeper[i].nr && stack->nr < OPEN_RANGES_MAX &&
	    size <= OPEN_RANGES_BYTES - stack->used)
		return false;
	stack->deeper[i].domain = domain;
	*level += stack->deeper[i].nr++;
	stack->not_kept++;
	return true;
}

bool open_ranges_pop_deeper(struct range_stack *stack,
			    const struct nvtx_domain *domain, int64_t *level)
{
	uint32_t i = deeper_place(stack, domain);

	if (!stack->deeper[i].nr)
		return false;
	*level += (int64_t)stack->deeper[i].nr--;
	stack->not_kept--;
	return true;
}

const struct nvtx_domain *open_ranges_inside(struct range_stack *stack,
					     const struct nvtx_domain *domain)
{
	int64_t outer = open_ranges_find(stack, domain);

	for (int64_t i = stack->nr; outer >= 0 && --i > outer;)
		if (stack->entries[i].is_passing &&
		    !stack->entries[i].is_closed)
			return open_ranges_at(stack, (uint32_t)i)->domain;
	return NULL;
}

const struct range_record *open_ranges_next(const struct range_stack *stack,
					    uint32_t *at)
{
	while (*at < stack->nr) {
		const struct open_range *entry = &stack->entries[(*at)++];

		if (!entry->is_closed && !entry->is_passing)
			return (const void *)(stack->bytes + entry->offset);
	}
	return NULL;
}

/* A plain copy that may race with the thread; the turn tells if it did. */
__attribute__((no_sanitize("thread")))
static void copy_racing(void *to, const void *from, size_t size)
{
	uint64_t *out = to;
	const uint64_t *in = from;

	for (size_t i = 0; i < size / 8; i++)
		out[i] = __atomic_load_n(&in[i], __ATOMIC_RELAXED);
}

__attribute__((no_sanitize("thread")))
size_t open_ranges_copy(struct range_stack *stack, uint32_t epoch,
			void *buffer, size_t size)
{
	uint32_t turn = atomic_load_explicit(&stack->turn,
					     memory_order_acquire);
	uint32_t nr = stack->nr < OPEN_RANGES_MAX ? stack->nr :
		OPEN_RANGES_MAX;
	size_t used = 0;

	/* Later: it has gone on to the next window, with other ranges. */
	if ((turn & 1) || atomic_load_explicit(&stack->epoch,
				memory_order_relaxed) >= epoch)
		return 0;
	for (uint32_t i = 0; i < nr; i++) {
		struct open_range entry = stack->entries[i];
		const struct record *head =
			(const void *)(stack->bytes + entry.offset);

		if (entry.offset > OPEN_RANGES_BYTES - sizeof *head)
			break;
		if (entry.is_closed || entry.is_passing)
			continue;
		if (head->size > size - used ||
		    head->size > OPEN_RANGES_BYTES - entry.offset)
			break;
		copy_racing((uint8_t *)buffer + used, head, head->size);
		used += head->size;
	}
	/* Pairs with the fence in open_ranges_enter(): if a change was seen,
	 * so is its turn. */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&stack->turn, memory_order_relaxed) ==
		turn ? used : 0;
}
