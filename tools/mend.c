/* SPDX-License-Identifier: MIT */
#include "tools/mend.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "writer/at.h"
#include "writer/kept_tail.h"

enum {
	MARK = sizeof(struct kept_tail),
	CHUNK = 64 << 10,               /* a multiple of MARK */
	/* Behind a mark there are a tail or two, and it is not looked for
	 * further; a tail has the full names of some thousand kernels. */
	SEARCH_MAX = 256 << 20,
	/* The writer leaves two at most; a hostile file has any number. */
	TRIES_MAX = 4,
};

/* A mark, with all that it names in the file, and nothing twice. */
static bool is_mark(const struct kept_tail *mark, uint64_t at, uint64_t size)
{
	if (memcmp(mark->magic, KEPT_TAIL_MAGIC, sizeof(mark->magic)) ||
	    mark->sum != kept_tail_own_sum(mark))
		return false;
	if (!mark->tail_len || mark->tail_len > at ||
	    mark->body > at - mark->tail_len)
		return false;
	return mark->tail_at == mark->body ||
		(mark->tail_at == at + MARK &&
		 mark->tail_len <= size - mark->tail_at);
}

/* Runs over the tail: its sum; and puts it back where it was, if `is_copied`.
 * 0 or -errno. */
static int run_over(int fd, const struct kept_tail *mark, bool is_copied,
		    uint64_t *sum)
{
	static char bytes[CHUNK];
	uint64_t done, left;
	size_t n;
	int err = 0;

	*sum = KEPT_TAIL_SUM;
	for (done = 0; !err && done < mark->tail_len; done += n) {
		left = mark->tail_len - done;
		n = left < sizeof(bytes) ? (size_t)left : sizeof(bytes);
		err = read_at(fd, bytes, n, mark->tail_at + done);
		if (!err)
			*sum = kept_tail_sum(*sum, bytes, n);
		if (!err && is_copied)
			err = write_at(fd, bytes, n, mark->body + done);
	}
	return err;
}

/* 1: there is its tail. */
static int has_tail(int fd, const struct kept_tail *mark)
{
	uint64_t sum;
	int err = run_over(fd, mark, false, &sum);

	return err ? err : sum == mark->tail_sum;
}

/* The last mark that is good.  1, 0 or -errno. */
static int find(int fd, uint64_t size, struct kept_tail *mark)
{
	static char bytes[CHUNK];
	uint64_t end = size - size % MARK;
	uint64_t least = end > SEARCH_MAX ? end - SEARCH_MAX : 0;
	int found = 0, tries = 0;
	size_t n, i;

	for (; end > least && !found && tries < TRIES_MAX; end -= n) {
		n = end < CHUNK ? (size_t)end : CHUNK;
		found = read_at(fd, bytes, n, end - n);
		for (i = n; i && !found && tries < TRIES_MAX; i -= MARK) {
			memcpy(mark, bytes + i - MARK, MARK);
			if (!is_mark(mark, end - n + i - MARK, size))
				continue;
			tries++;
			found = has_tail(fd, mark);
		}
	}
	return found;
}

int mend_tail(int fd)
{
	struct kept_tail mark;
	struct stat st;
	uint64_t sum;
	int found, err;

	if (fstat(fd, &st))
		return -errno;
	found = find(fd, (uint64_t)st.st_size, &mark);
	if (found <= 0)
		return found;
	err = mark.tail_at == mark.body ? 0 : run_over(fd, &mark, true, &sum);
	if (!err && ftruncate(fd, (off_t)(mark.body + mark.tail_len)))
		err = -errno;
	return err ? err : 1;
}
