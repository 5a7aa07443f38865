/* SPDX-License-Identifier: MIT */
#include "collector/python_loop.h"

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

/*
 * Any bytes that look like a jump are taken for one.  In Debian's interpreters
 * 378 (3.11), 12 (3.13) and 11 (3.14) land in the seldom part, which is up to
 * 86 KB long, and at most one in any other function; interpreters built
 * without a profile of their own have none.
 */
#define JUMPS_MIN 4
#define NR_CANDIDATES 32

struct object {
	uintptr_t function;             /* looked for */
	uintptr_t start, end;           /* its segment of code */
	const uint8_t *header;          /* .eh_frame_hdr */
	uint32_t nr;
};

static int32_t number_at(const void *at)
{
	int32_t number;

	memcpy(&number, at, sizeof(number));
	return number;
}

static int take_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct object *object = arg;
	const ElfW(Phdr) *header = NULL;
	bool is_it = false;
	int i;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_GNU_EH_FRAME)
			header = part;
		if (part->p_type != PT_LOAD || object->function < start ||
		    object->function - start >= part->p_filesz)
			continue;
		object->start = start;
		object->end = start + part->p_filesz;
		is_it = true;
	}
	if (is_it && header)
		object->header = (const uint8_t *)(info->dlpi_addr +
						   header->p_vaddr);
	return is_it;
}

static bool find_object(struct object *object)
{
	static const uint8_t known[4] = { 1, 0x1b, 0x03, 0x3b };

	dl_iterate_phdr(take_object, object);
	if (!object->header || memcmp(object->header, known, sizeof(known)))
		return false;
	object->nr = (uint32_t)number_at(object->header + 8);
	return object->nr != 0;
}

static uintptr_t entry_start(const struct object *object, uint32_t i)
{
	return (uintptr_t)object->header +
	       (intptr_t)number_at(object->header + 12 + 8 * (size_t)i);
}

/* The function that holds this address; false if none does. */
static bool find_range(const struct object *object, uintptr_t address,
		       struct code_range *range)
{
	uint32_t low = 0, high = object->nr;
	const uint8_t *entry;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (entry_start(object, middle) <= address)
			low = middle;
		else
			high = middle;
	}
	range->start = entry_start(object, low);
	entry = object->header +
		number_at(object->header + 16 + 8 * (size_t)low);
	range->size = (uint32_t)number_at(entry + 12);
	/* Addresses are told in another way if this is not so. */
	return (uintptr_t)(entry + 8) + (intptr_t)number_at(entry + 8) ==
		       range->start &&
	       address - range->start < range->size;
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

static void find_seldom(const struct object *object,
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
		    target < object->start || target >= object->end)
			continue;
		if (find_range(object, target, &range) &&
		    range.start != target)
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
	struct object object = { .function = function };

	memset(range, 0, 2 * sizeof(range[0]));
	if (!find_object(&object) ||
	    !find_range(&object, function, &range[0])) {
		range[0].size = 0;
		return -ENOENT;
	}
	if (range[0].size > 6)
		find_seldom(&object, &range[0], &range[1]);
	return 0;
}
