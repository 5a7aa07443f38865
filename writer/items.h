/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_ITEMS_H
#define GPUTRACE_WRITER_ITEMS_H

#include <stddef.h>
#include <stdint.h>

/*
 * A list of activities and its order.  They come from several threads' buffers,
 * each nearly sorted: natural merge sort on {start, activity}.
 * Context: writer thread.
 */
struct item {
	uint64_t start_ns;
	const void *raw;
};

struct items {
	struct item *list;
	size_t nr, size;
};

/* Without memory it is counted as lost. */
void items_add(struct items *items, uint64_t start_ns, const void *raw);

/* By start, stable.  `spare` is room to work in, kept for the next time;
 * without memory for it they stay as they are. */
void items_sort(struct items *items, struct items *spare);

#endif
