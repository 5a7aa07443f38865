/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_STATS_H
#define GPUTRACE_TOOLS_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Exact statistics of non-negative integers: every value is kept (8 bytes),
 * sums are 128 bits wide, nothing passes through floating point.  Results are
 * integers, halves rounded up.
 */
struct stats_set {
	int64_t *value;
	size_t nr, cap;
};

struct stats {
	uint64_t count;
	int64_t total;          /* INT64_MAX if it is more */
	int64_t avg, median, min, max;
	int64_t stddev;         /* of a sample (n - 1); 0 for one value */
};

bool stats_add(struct stats_set *set, int64_t value);
void stats_compute(const struct stats_set *set, struct stats *out);
void stats_fini(struct stats_set *set);

/* For qsort() of int64_t, the smallest first. */
int stats_order(const void *a, const void *b);

#endif
