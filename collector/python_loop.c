/* SPDX-License-Identifier: MIT */
#include "collector/python_loop.h"

#include <errno.h>
#include <string.h>

#include "collector/unwind_row.h"

/*
 * Any bytes that look like a jump are taken for one.  In Debian's interpreters
 * 378 (3.11), 12 (3.13) and 11 (3.14) land in the seldom part, which is up to
 * 86 KB long, and at most one in any other function; interpreters built
 * without a profile of their own have none.
 */
#define JUMPS_MIN 4
#define NR_CANDIDATES 32

static int32_t number_at(const void *at)
{
	int32_t number;

	memcpy(&number, at, sizeof(number));
	return number;
}

/* How many bytes the instruction at `at` jumps on, from `at`; 0: no jump. */
static int64_t jump(const uint8_t *at)
{
#if defined(__x86_64__)
	if (at[0] == 0xe9)
		return (int64_t)number_at(at + 1) + 5;
	if (at[0] == 0x0f && (at[1] & 0xf0) == 0x80)
		return (int64_t)number_at(at + 2) + 6;
#elif defined(__aarch64__)
	uint32_t code = (uint32_t)number_at(at);

	if ((uintptr_t)at % 4)
		return 0;
	if (code >> 26 == 0x05)                         /* b */
		return ((int32_t)(code << 6) >> 6) * (int64_t)4;
	/* b.cond, cbz, cbnz */
	if (code >> 24 == 0x54 || (code >> 25 & 0x3f) == 0x1a)
		return ((int32_t)(code << 8) >> 13) * (int64_t)4;
#else
	(void)at;
#endif
	return 0;
}

struct candidate {
	struct code_range range;
	unsigned int nr;
};

static void count(struct candidate *candidates, const struct code_range *range)
{
	int i;

	for (i = 0; i < NR_CANDIDATES; i++) {
		if (!candidates[i].nr)
			candidates[i].range = *range;
		if (candidates[i].range.start == range->start) {
			candidates[i].nr++;
			return;
		}
	}
}

static void find_seldom(const struct module *module,
			const struct code_range *loop,
			struct code_range *seldom)
{
	struct candidate candidates[NR_CANDIDATES] = { 0 };
	const uint8_t *at = (const uint8_t *)loop->start;
	const uint8_t *last = at + loop->size - 6;
	struct code_range range;
	uintptr_t target;
	int i, most = 0;

	for (; at < last; at++) {
		target = (uintptr_t)at + (uintptr_t)jump(at);
		if (target - loop->start < loop->size ||
		    target < module->start || target >= module->end)
			continue;
		if (unwind_function_find(module, target, &range.start,
					 &range.size) && range.start != target)
			count(candidates, &range);
	}
	for (i = 1; i < NR_CANDIDATES; i++)
		if (candidates[i].nr > candidates[most].nr)
			most = i;
	if (candidates[most].nr >= JUMPS_MIN)
		*seldom = candidates[most].range;
}

int python_loop_find(uintptr_t function, struct code_range range[2])
{
	const struct modules *modules = modules_enter();
	const struct module *module = modules_find(modules, function);

	memset(range, 0, 2 * sizeof(range[0]));
	if (module && unwind_function_find(module, function, &range[0].start,
					   &range[0].size) && range[0].size > 6)
		find_seldom(module, &range[0], &range[1]);
	modules_leave();
	return range[0].size ? 0 : -ENOENT;
}
