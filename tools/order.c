/* SPDX-License-Identifier: MIT */
#include "tools/order.h"

#include <stdbool.h>
#include <stdlib.h>

typedef int order_fn(const void *a, const void *b, void *arg);

static bool is_sorted(const void *array, size_t nr, size_t size,
		      order_fn *order, void *arg)
{
	const char *at = array;

	for (size_t i = 1; i < nr; i++, at += size)
		if (order(at, at + size, arg) > 0)
			return false;
	return true;
}

void order_sort_by(void *array, size_t nr, size_t size, order_fn *order,
		   void *arg)
{
	if (!is_sorted(array, nr, size, order, arg))
		qsort_r(array, nr, size, order, arg);
}

struct plain {
	int (*order)(const void *a, const void *b);
};

static int by_plain(const void *a, const void *b, void *arg)
{
	const struct plain *plain = arg;

	return plain->order(a, b);
}

void order_sort(void *array, size_t nr, size_t size,
		int (*order)(const void *a, const void *b))
{
	struct plain plain = { order };

	if (!is_sorted(array, nr, size, by_plain, &plain))
		qsort(array, nr, size, order);
}
