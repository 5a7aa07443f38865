/* SPDX-License-Identifier: MIT */
/*
 * A bad disk for the trace alone: preloaded before the library, it stands
 * before the writes of the thread `gputrace-writer`.
 *
 *	DISK_STALL=SECONDS      the first write takes so long
 *	DISK_ERROR=ERRNO@BYTES  writes fail once so much was written
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_writer(void)
{
	char name[16] = "";

	prctl(PR_GET_NAME, name);
	return !strcmp(name, "gputrace-writer");
}

static void stall(void)
{
	static int has_stalled;
	const char *seconds = getenv("DISK_STALL");

	if (seconds && !has_stalled) {
		has_stalled = 1;
		usleep((useconds_t)(atof(seconds) * 1e6));
	}
}

static int error_of(size_t more)
{
	const char *error = getenv("DISK_ERROR");
	const char *at = error ? strchr(error, '@') : NULL;
	static size_t written;

	written += more;
	return at && written > strtoul(at + 1, NULL, 10) ? atoi(error) : 0;
}

static ssize_t bad_pwrite(int fd, const void *bytes, size_t len, off_t at)
{
	int error;

	if (is_writer()) {
		stall();
		error = error_of(len);
		if (error) {
			errno = error;
			return -1;
		}
	}
	return syscall(SYS_pwrite64, fd, bytes, len, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at)
{
	return bad_pwrite(fd, bytes, len, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t at)
{
	return bad_pwrite(fd, bytes, len, at);
}
