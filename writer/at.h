/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_AT_H
#define GPUTRACE_WRITER_AT_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/*
 * All `len` bytes at a place of a file: 0, or -errno; -EIO where there is no
 * more of it, or no more fits.  The file's own position is not used.  Functions
 * alone, of no state: the command includes them, too.
 * Context: our own threads; may wait for the disk.
 */
static inline int write_at(int fd, const void *from, size_t len,
			   uint64_t offset)
{
	const char *at = from;
	ssize_t n;

	while (len) {
		n = pwrite(fd, at, len, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		at += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

static inline int read_at(int fd, void *to, size_t len, uint64_t offset)
{
	char *at = to;
	ssize_t n;

	while (len) {
		n = pread(fd, at, len, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		at += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

#endif
