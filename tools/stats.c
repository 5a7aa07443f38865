/* SPDX-License-Identifier: MIT */
#include "tools/stats.h"

#include <stdlib.h>
#include <string.h>

#include "tools/big.h"

typedef unsigned __int128 u128;

bool stats_add(struct stats_set *set, int64_t value)
{
	if (!BIG_ROOM(set->value, set->nr, set->cap))
		return false;
	set->value[set->nr++] = value;
	return true;
}

void stats_fini(struct stats_set *set)
{
	big_free(set->value);
	memset(set, 0, sizeof(*set));
}

static u128 square_root(u128 x)
{
	u128 root = 0, bit = (u128)1 << 126;

	while (bit > x)
		bit >>= 2;
	for (; bit; bit >>= 2) {
		if (x >= root + bit) {
			x -= root + bit;
			root = (root >> 1) + bit;
		} else {
			root >>= 1;
		}
	}
	return root;
}

/* The k-th smallest value (from 0) by its bytes from the top: each pass counts
 * the next byte of those that begin like the result.  Time is linear whatever
 * the values are; sorting would not be, and nothing is moved. */
static int64_t select_kth(const struct stats_set *set, size_t k, int64_t max)
{
	uint64_t prefix = 0;
	int shift = 56;

	while (shift && !((uint64_t)max >> shift))
		shift -= 8;
	for (; shift >= 0; shift -= 8) {
		size_t count[256] = { 0 };
		unsigned byte = 0;

		for (size_t i = 0; i < set->nr; i++) {
			uint64_t v = set->value[i];

			if (shift == 56 || v >> (shift + 8) == prefix)
				count[v >> shift & 0xff]++;
		}
		for (; k >= count[byte]; byte++)
			k -= count[byte];
		prefix = prefix << 8 | byte;
	}
	return prefix;
}

/* The (k + 1)-th smallest, given the k-th. */
static int64_t select_next(const struct stats_set *set, size_t k, int64_t kth)
{
	int64_t next = INT64_MAX;
	size_t up_to = 0;

	for (size_t i = 0; i < set->nr; i++) {
		if (set->value[i] <= kth)
			up_to++;
		else if (set->value[i] < next)
			next = set->value[i];
	}
	return up_to > k + 1 ? kth : next;
}

static int64_t median(const struct stats_set *set, int64_t max)
{
	size_t k = (set->nr - 1) / 2;
	int64_t low = select_kth(set, k, max), high;

	if (set->nr % 2)
		return low;
	high = select_next(set, k, low);
	return low + (high - low + 1) / 2;
}

/*
 * With m = floor(mean), r = sum - n m, S = sum of (x - m)^2:
 *      variance = (S - r^2 / n) / (n - 1)
 * and round(sqrt(v)) = (floor(sqrt(4 v)) + 1) / 2.  Values that no trace has
 * saturate S.
 */
static int64_t deviation(const struct stats_set *set, u128 sum)
{
	u128 n = set->nr, m = sum / n, r = sum % n, squares = 0, limit;

	if (n < 2)
		return 0;
	limit = ~(u128)0 >> 2;
	for (size_t i = 0; i < set->nr; i++) {
		u128 x = set->value[i], d = x > m ? x - m : m - x;

		squares = d * d > limit - squares ? limit : squares + d * d;
	}
	squares = 4 * squares - (4 * r * r + n - 1) / n;
	return (square_root(squares / (n - 1)) + 1) / 2;
}

void stats_compute(const struct stats_set *set, struct stats *out)
{
	u128 sum = 0;

	memset(out, 0, sizeof(*out));
	if (!set->nr)
		return;
	out->count = set->nr;
	out->min = INT64_MAX;
	for (size_t i = 0; i < set->nr; i++) {
		int64_t v = set->value[i];

		sum += v;
		out->min = v < out->min ? v : out->min;
		out->max = v > out->max ? v : out->max;
	}
	out->total = sum > INT64_MAX ? INT64_MAX : (int64_t)sum;
	out->avg = (2 * sum + set->nr) / (2 * (u128)set->nr);
	out->median = median(set, out->max);
	out->stddev = deviation(set, sum);
}

int stats_order(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}
