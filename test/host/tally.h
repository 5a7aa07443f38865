/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TEST_HOST_TALLY_H
#define GPUTRACE_TEST_HOST_TALLY_H

#include <stdatomic.h>

/*
 * What a host program did, counted at the places where it does it, so that a
 * test can compare a trace with the program's own word.  Counters live at
 * their call sites (a static structure each) and are put on one list at the
 * first use; they may be used by any thread.
 *
 *	TALLY("ranges", "step", 1);
 *	tally_print();       {"ranges": {"step": 10}, ...}
 */
struct tally {
	const char *section;
	const char *name;
	_Atomic long count;
	atomic_flag listed;
	struct tally *next;
};

#define TALLY(section_, name_, n) do {					\
	static struct tally tally_ = {					\
		.section = (section_), .name = (name_),			\
		.listed = ATOMIC_FLAG_INIT,				\
	};								\
	tally_add(&tally_, (n));					\
} while (0)

/* Context: any thread. */
void tally_add(struct tally *tally, long n);

/* One line of JSON on stdout: an object of sections, each an object of
 * counts; equal names are added up.  Context: when nothing counts any more. */
void tally_print(void);

#endif
