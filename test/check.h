/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TEST_CHECK_H
#define GPUTRACE_TEST_CHECK_H

#include <stdio.h>
#include <stdlib.h>

/*
 * A unit test is a program: exit 0 passed, 77 skipped, anything else failed.
 * CHECK says where and what, and goes on, so that one run shows all faults;
 * main ends with `return check_result();`.
 */
static int check_failures;

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, \
				__LINE__, #condition); \
			check_failures++; \
		} \
	} while (0)

#define CHECK_EQ(got, want) \
	do { \
		long long got_ = (long long)(got); \
		long long want_ = (long long)(want); \
		if (got_ != want_) { \
			fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", \
				__FILE__, __LINE__, #got, got_, want_); \
			check_failures++; \
		} \
	} while (0)

static inline int check_result(void)
{
	return check_failures ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
