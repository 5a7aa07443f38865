/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_ORDER_H
#define GPUTRACE_TOOLS_ORDER_H

#include <stddef.h>
#include <stdint.h>

/* Arrays of events in order.  Most files are in it already: sorting one that
 * is costs one look at each element. */
void order_sort(void *array, size_t nr, size_t size,
		int (*order)(const void *a, const void *b));
void order_sort_by(void *array, size_t nr, size_t size,
		   int (*order)(const void *a, const void *b, void *arg),
		   void *arg);

static inline int order_of(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

/* Of two slices, x and y: by lane and start, the longer one first.  So what is
 * open on a lane is a stack. */
#define ORDER_NESTED(x, y) \
	((x)->lane != (y)->lane ? order_of((x)->lane, (y)->lane) : \
	 (x)->start != (y)->start ? order_of((x)->start, (y)->start) : \
	 order_of((y)->end, (x)->end))

#endif
