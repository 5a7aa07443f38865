/* SPDX-License-Identifier: MIT */
/*
 * Preloaded behind the library: of its write number KILL_WRITE into a file at
 * an offset half is done, then SIGKILL ends the process.  64 bytes lie in a
 * page, which the system does not cut.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
	static atomic_int nr;
	const char *kill_at = getenv("KILL_WRITE");

	if (kill_at && atomic_fetch_add(&nr, 1) + 1 == atoi(kill_at)) {
		len = len == 64 ? len : len / 2;
		syscall(SYS_pwrite64, fd, bytes, len, offset);
		kill(getpid(), SIGKILL);
	}
	return syscall(SYS_pwrite64, fd, bytes, len, offset);
}
