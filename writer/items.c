/* SPDX-License-Identifier: MIT */
#include "writer/items.h"

#include <stdbool.h>
#include <stdlib.h>

#include "collector/loss.h"

static bool items_have_room(struct items *items, size_t nr)
{
	size_t size = items->size ? items->size : 1024;
	struct item *list;

	while (size < nr)
		size *= 2;
	if (size == items->size)
		return true;
	list = realloc(items->list, size * sizeof(*list));
	if (!list)
		return false;
	items->list = list;
	items->size = size;
	return true;
}

void items_add(struct items *items, uint64_t start_ns, const void *raw)
{
	if (!items_have_room(items, items->nr + 1)) {
		loss_add(LOSS_TABLE_FULL, 1);
		return;
	}
	items->list[items->nr].start_ns = start_ns;
	items->list[items->nr++].raw = raw;
}

/* The end of the sorted run that begins at `at`. */
static size_t run_end(const struct items *items, size_t at)
{
	while (++at < items->nr &&
	       items->list[at - 1].start_ns <= items->list[at].start_ns)
		;
	return at < items->nr ? at : items->nr;
}

static void merge(const struct item *from, size_t middle, size_t end,
		  struct item *to)
{
	size_t a = 0, b = middle;

	while (a < middle && b < end)
		*to++ = from[b].start_ns < from[a].start_ns ? from[b++] :
			from[a++];
	while (a < middle)
		*to++ = from[a++];
	while (b < end)
		*to++ = from[b++];
}

/* One round: neighbouring runs become one.  Returns how many are left. */
static size_t merge_runs(struct items *items, struct items *to)
{
	size_t at = 0, middle, end, runs = 0;

	while (at < items->nr) {
		middle = run_end(items, at);
		end = middle < items->nr ? run_end(items, middle) : middle;
		merge(items->list + at, middle - at, end - at, to->list + at);
		at = end;
		runs++;
	}
	to->nr = items->nr;
	return runs;
}

void items_sort(struct items *items, struct items *spare)
{
	struct items swap;
	size_t runs;

	if (run_end(items, 0) >= items->nr)
		return;
	if (!items_have_room(spare, items->nr))
		return;                 /* unsorted: more lanes, no loss */
	do {
		runs = merge_runs(items, spare);
		swap = *items;
		*items = *spare;
		*spare = swap;
	} while (runs > 1);
}
