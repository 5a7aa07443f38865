/* SPDX-License-Identifier: MIT */
#include "tools/diff_test.h"

#include <stdlib.h>
#include <string.h>

#include "tools/stats.h"

static struct stats stats_of(const int64_t *value, size_t nr)
{
	const struct stats_set set = { .value = (int64_t *)value, .nr = nr };
	struct stats st;

	stats_compute(&set, &st);
	return st;
}

int64_t diff_median(const int64_t *value, size_t nr)
{
	return stats_of(value, nr).median;
}

static size_t up_to(const int64_t *value, size_t nr, int64_t limit)
{
	size_t n = 0;

	for (size_t i = 0; i < nr; i++)
		n += value[i] <= limit;
	return n;
}

/* Bisects the value: nothing is moved or copied. */
int64_t diff_low(const int64_t *value, size_t nr)
{
	size_t zeros = up_to(value, nr, 0);
	int64_t lo = 0, hi = INT64_MAX;

	while (lo < hi && zeros < nr) {
		int64_t mid = lo + (hi - lo) / 2;

		if (up_to(value, nr, mid) > zeros + (nr - zeros - 1) / 10)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

void diff_block(const int64_t *value, size_t nr, bool by_mean,
		struct diff_blocks *out)
{
	out->nr = nr < DIFF_BLOCKS ? nr : DIFF_BLOCKS;
	for (size_t i = 0; i < out->nr; i++) {
		size_t first = i * nr / out->nr;
		struct stats st = stats_of(value + first, (i + 1) * nr /
					   out->nr - first);

		out->value[i] = by_mean ? st.avg : st.median;
	}
}

/* Pairs in which the second is strictly larger. */
static size_t larger(const struct diff_blocks *a, const struct diff_blocks *b)
{
	size_t nr = 0;

	for (size_t i = 0; i < a->nr; i++)
		for (size_t j = 0; j < b->nr; j++)
			nr += b->value[j] > a->value[i];
	return nr;
}

/*
 * The probability of at least u such pairs if A and B are the same.  How many
 * orders of m and n values have which number of pairs are the coefficients of
 * Gauss' binomial, the product of (1 - q^(n + i)) / (1 - q^i), i = 1 .. m; all
 * are whole numbers below 2^53.
 */
static double tail(size_t m, size_t n, size_t u)
{
	enum { MOST = DIFF_BLOCKS * DIFF_BLOCKS };
	double ways[MOST + 1] = { 1 }, all = 0, above = 0;

	for (size_t i = 1; i <= m; i++) {
		for (size_t k = MOST; k >= n + i; k--)
			ways[k] -= ways[k - n - i];
		for (size_t k = i; k <= MOST; k++)
			ways[k] += ways[k - i];
	}
	for (size_t k = 0; k <= m * n; k++) {
		all += ways[k];
		above += k >= u ? ways[k] : 0;
	}
	return above / all;
}

double diff_rank_p(const struct diff_blocks *a, const struct diff_blocks *b)
{
	size_t up, down;
	double p;

	if (a->nr < DIFF_MIN_VALUES || b->nr < DIFF_MIN_VALUES)
		return 1;
	up = larger(a, b);
	down = larger(b, a);
	p = 2 * tail(a->nr, b->nr, up > down ? up : down);
	return p < 1 ? p : 1;
}

static int by_p(const void *a, const void *b)
{
	double x = **(double *const *)a, y = **(double *const *)b;

	return x < y ? -1 : x > y;
}

void diff_correct(double **p, size_t nr)
{
	double least = 0;

	if (nr)
		qsort(p, nr, sizeof(*p), by_p);
	for (size_t i = 0; i < nr; i++) {
		double corrected = *p[i] * (nr - i);

		corrected = corrected < 1 ? corrected : 1;
		least = corrected > least ? corrected : least;
		*p[i] = least;
	}
}
