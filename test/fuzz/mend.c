/* SPDX-License-Identifier: MIT */
/*
 * A file of a process that was killed, which the command makes whole again: it
 * may have any bytes and any marks.  Marks get their sums here, which no
 * mutation would find; that of the tail, where the spare word says so.
 */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/fuzz/fuzz.h"
#include "tools/mend.h"
#include "writer/kept_tail.h"

static void sign(uint8_t *bytes, size_t size, size_t at)
{
	struct kept_tail mark;

	memcpy(&mark, bytes + at, sizeof(mark));
	if (memcmp(mark.magic, KEPT_TAIL_MAGIC, sizeof(mark.magic)))
		return;
	if (mark.spare & 1 && mark.tail_at <= size &&
	    mark.tail_len <= size - mark.tail_at)
		mark.tail_sum = kept_tail_sum(KEPT_TAIL_SUM,
					      bytes + mark.tail_at,
					      mark.tail_len);
	mark.sum = kept_tail_own_sum(&mark);
	memcpy(bytes + at, &mark, sizeof(mark));
}

/* Nothing but the tail moved, and it is one that a mark names. */
static void check(const uint8_t *bytes, size_t size, int fd)
{
	struct kept_tail mark;
	size_t at, left;
	uint8_t *now;
	struct stat st;
	bool is_named = false;

	MUST(!fstat(fd, &st) && (size_t)st.st_size < size);
	left = (size_t)st.st_size;
	now = malloc(left + 1);
	MUST(now && pread(fd, now, left, 0) == (ssize_t)left);
	for (at = 0; at + sizeof(mark) <= size && !is_named;
	     at += sizeof(mark)) {
		memcpy(&mark, bytes + at, sizeof(mark));
		is_named = !memcmp(mark.magic, KEPT_TAIL_MAGIC, 16) &&
			mark.tail_len <= left &&
			mark.body == left - mark.tail_len &&
			mark.tail_at <= size - mark.tail_len &&
			!memcmp(now, bytes, mark.body) &&
			!memcmp(now + mark.body, bytes + mark.tail_at,
				mark.tail_len);
	}
	MUST(is_named);
	free(now);
}

int LLVMFuzzerTestOneInput(const uint8_t *from, size_t size)
{
	int fd = memfd_create("draft", 0), made;
	uint8_t *bytes = malloc(size + 1);
	size_t at;

	MUST(fd >= 0 && bytes);
	memcpy(bytes, from, size);
	for (at = 0; at + sizeof(struct kept_tail) <= size;
	     at += sizeof(struct kept_tail))
		sign(bytes, size, at);
	MUST(write(fd, bytes, size) == (ssize_t)size);
	made = mend_tail(fd);
	MUST(made == 0 || made == 1);
	if (made)
		check(bytes, size, fd);
	free(bytes);
	close(fd);
	return 0;
}
