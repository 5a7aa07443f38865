/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_DIFF_TEST_H
#define GPUTRACE_TOOLS_DIFF_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Is a difference more than noise?  Steps of a program are no independent
 * samples: clocks and neighbours change slowly, so that a thousand steps of one
 * run say less of the next run than their number promises.  Therefore:
 *
 *      values of the steps, in the order of time
 *      | 1 | 2 | ... | 12 |       at most 12 equal blocks, a median (or mean)
 *                                 of each
 *      blocks of A : blocks of B  the exact test of Mann and Whitney, two
 *                                 sides, ties counted against a difference
 *      p of all rows of a table   Holm's correction
 *
 * The larger p of the test of medians and of that of means counts, and both
 * must point the same way: a program that is held up and catches up has many
 * short steps and few long ones, so that its median step is shorter though it
 * became slower.  A neighbour that loads the machine adds to most times, but
 * not to the shortest: so the fast end has to move as well (diff_low()).
 *
 * With 12 blocks each, p is 7.4e-7 where all of B are above all of A: after
 * the correction for a thousand names still below 0.001.
 */
enum {
	DIFF_BLOCKS = 12,
	/* Fewer values cannot pass: 2 / C(12, 6) = 0.002. */
	DIFF_MIN_VALUES = 6,
};

struct diff_blocks {
	int64_t value[DIFF_BLOCKS];
	size_t nr;
};

/* nr > 0 values >= 0; halves are rounded up. */
int64_t diff_median(const int64_t *value, size_t nr);
/* The fast end of them: a tenth of what is not 0 is as small or smaller (a step
 * without the name was not a fast one). */
int64_t diff_low(const int64_t *value, size_t nr);
void diff_block(const int64_t *value, size_t nr, bool by_mean,
		struct diff_blocks *out);

/* 1 if either has less than DIFF_MIN_VALUES. */
double diff_rank_p(const struct diff_blocks *a, const struct diff_blocks *b);

/* Holm: replaces each *p[i] by its corrected value.  Sorts the pointers. */
void diff_correct(double **p, size_t nr);

#endif
