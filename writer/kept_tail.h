/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_KEPT_TAIL_H
#define GPUTRACE_WRITER_KEPT_TAIL_H

#include <stddef.h>
#include <stdint.h>

/*
 * A file that the writer has by its descriptor alone (sink_fd.c) has no twin:
 * what comes after a commit is written over the file's tail.  A copy of it is
 * put behind that first, with a mark that says where it is:
 *
 *   committed   [ body | tail ]
 *   since then  [ body | more ... | mark | tail ]
 *
 * At every moment the file is what was committed last, or there is a mark in
 * it with which it can be made that again: who passed the descriptor does, if
 * the process was killed (tools/mend.c).
 *
 * A mark begins at a multiple of its size, so it lies in one page: SIGKILL cuts
 * a write between pages.  The last one in the file counts whose tail has the
 * sum: that behind the mark, or, before the copy is made, the one in its old
 * place.  Data alone: the command includes it, too.
 */
#define KEPT_TAIL_MAGIC "\1gputrace:tail\1"     /* in no JSON: it has \1 */

struct kept_tail {
	char magic[16];
	uint64_t body;                  /* what is in front of the tail */
	uint64_t tail_at, tail_len;
	uint64_t tail_sum, spare;
	uint64_t sum;                   /* of what is above */
};

_Static_assert(sizeof(struct kept_tail) == 64, "divides a page");
_Static_assert(sizeof(KEPT_TAIL_MAGIC) == 16, "with its zero");

#define KEPT_TAIL_SUM UINT64_C(0xcbf29ce484222325)

/* FNV-1a; of nothing: KEPT_TAIL_SUM. */
static inline uint64_t kept_tail_sum(uint64_t sum, const void *bytes,
				     size_t len)
{
	const unsigned char *at = bytes;

	while (len--)
		sum = (sum ^ *at++) * UINT64_C(0x100000001b3);
	return sum;
}

/* Of the mark itself. */
static inline uint64_t kept_tail_own_sum(const struct kept_tail *mark)
{
	return kept_tail_sum(KEPT_TAIL_SUM, mark,
			     offsetof(struct kept_tail, sum));
}

#endif
