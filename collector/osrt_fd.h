/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_OSRT_FD_H
#define GPUTRACE_COLLECTOR_OSRT_FD_H

#include <stdbool.h>
#include <stdint.h>

/* What a descriptor is of. */
#define OSRT_FD_KINDS(X) \
	X(UNKNOWN, "unknown") X(REGULAR, "regular") \
	X(DIRECTORY, "directory") X(PIPE, "pipe") X(SOCKET, "socket") \
	X(BLOCK, "block device") X(DEVICE, "device") X(ANON, "anon") \
	X(EVENTFD, "eventfd") X(EPOLL, "eventpoll") X(TIMERFD, "timerfd") \
	X(SIGNALFD, "signalfd") X(INOTIFY, "inotify") X(PIDFD, "pidfd") \
	X(IO_URING, "io_uring")

enum osrt_fd_kind {
#define X(id, word) OSRT_FD_##id,
	OSRT_FD_KINDS(X)
#undef X
	OSRT_FD_NR
};

extern const char *const osrt_fd_kinds[];

struct osrt_fd {
	enum osrt_fd_kind kind;
	const char *driver;     /* "/dev/nvidia0", or NULL: none of CUDA's */
};

/* Looks which devices are the driver's.  Context: attach, once. */
void osrt_fd_prepare(void);

/* One system call (0.2 us), two (1.3) where it is of no file system: what has
 * been waited for is longer than that.  It is asked after the call that is
 * recorded: another thread may have closed the descriptor meanwhile.
 * Context: any, signal-safe; changes errno. */
struct osrt_fd osrt_fd_look(int fd);

#endif
