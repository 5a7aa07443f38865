/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_STACK_OF_CALL_H
#define GPUTRACE_COLLECTOR_STACK_OF_CALL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* NULL where the source `stacks` is off (stacks.c). */
typedef void (*stack_of_call_fn)(uint64_t took_ns);
extern _Atomic(stack_of_call_fn) stack_of_call_taker
	__attribute__((visibility("hidden")));

/* The caller's stack, if its call took long, belongs to the slice on its
 * thread's row of osrt that it tells next.
 * Context: any thread of the program that may write into its ring, not
 * signal-safe; errno may change. */
static inline void stack_of_call(uint64_t took_ns)
{
	/* Pairs with the store in stacks.c: what was armed is seen. */
	stack_of_call_fn take = atomic_load_explicit(&stack_of_call_taker,
						     memory_order_acquire);

	if (take)
		take(took_ns);
}

#endif
