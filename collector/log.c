/* SPDX-License-Identifier: MIT */
#include "collector/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "collector/cancel.h"
#include "collector/wait.h"

/* One line; the rest is cut.  A path of PATH_MAX fits beside its sentence. */
#define LINE_MAX_BYTES (PATH_MAX + 512)

/* Lines that wait for log_carry(); when there are more, the last ones go. */
#define NR_QUEUED 32

/* A pipe that is full must not hold the program up for longer. */
#define STDERR_WAIT_MS 50

/* The end of the process waits so long for a line that another thread is
 * writing: one that finds a full pipe, and the one behind it. */
#define CARRIED_WAIT_MS (2 * STDERR_WAIT_MS)

/* Threads that have no stderr of their own. */
enum { NR_CARRIED = 4 };

static enum log_level threshold = LOG_WARN;
static char log_file[PATH_MAX];
static struct stat first_stderr;
static bool had_stderr;

static struct queued {
	_Atomic uint32_t len;           /* 0: not yet written down */
	char line[LINE_MAX_BYTES];
} queue[NR_QUEUED];
static _Atomic uint32_t nr_queued, nr_carried, is_carrying;
static _Atomic pid_t carried_tids[NR_CARRIED];
static void (*_Atomic wake_carrier)(void);

void log_keep_stderr(void)
{
	int saved = errno;

	had_stderr = !fstat(STDERR_FILENO, &first_stderr);
	errno = saved;
}

void log_init(enum log_level level, const char *file)
{
	size_t len = 0;

	threshold = level;
	if (!file)
		return;
	/* The program may change its folder later. */
	if (*file != '/' && getcwd(log_file, sizeof log_file - 1)) {
		len = strlen(log_file);
		log_file[len++] = '/';
	}
	snprintf(log_file + len, sizeof log_file - len, "%s", file);
}

static bool is_wanted(enum log_level level)
{
	return level <= threshold && level != LOG_QUIET;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/*
 * Descriptor 2 may be a data file or a connection by now, of a program that
 * closed it and opened another.  It is stderr while it is what it was at the
 * start, a terminal or /dev/null, or what stdout is too (a redirection).
 */
static bool is_stderr(void)
{
	struct stat now, out;

	if (fstat(STDERR_FILENO, &now))
		return false;
	return S_ISCHR(now.st_mode) ||
		(had_stderr && is_same(&now, &first_stderr)) ||
		(!fstat(STDOUT_FILENO, &out) && is_same(&now, &out));
}

/* A pipe that nobody reads, a terminal that stands still: waited for once, not
 * for each line. */
static bool has_room(void)
{
	static atomic_bool was_full;
	struct pollfd wait = { .fd = STDERR_FILENO, .events = POLLOUT };
	int ready = poll(&wait, 1, atomic_load(&was_full) ? 0 :
			 STDERR_WAIT_MS);

	atomic_store(&was_full, ready == 0);
	return ready != 0;
}

/* The file is opened for each line: a descriptor kept open could be closed,
 * and its number taken, by a program that closes all of them. */
static void write_line(const char *line, size_t len)
{
	int fd = STDERR_FILENO;
	ssize_t n;

	if (!log_file[0] && (!is_stderr() || !has_room()))
		return;
	if (log_file[0])
		fd = open(log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC |
			  O_NONBLOCK | O_NOCTTY, 0600);
	if (fd < 0)
		return;
	do
		n = write(fd, line, len);
	while (n < 0 && errno == EINTR);
	if (log_file[0])
		close(fd);
}

/* A reader that is gone (SIGPIPE) or a limit of the file size (SIGXFSZ) would
 * end the program for our line: the signal that we caused is taken back. */
static void write_guarded(const char *line, size_t len)
{
	static const struct timespec now;
	sigset_t ours, before, pending;
	int cancel = cancel_hold();

	sigemptyset(&ours);
	sigaddset(&ours, SIGPIPE);
	sigaddset(&ours, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &ours, &before);
	sigpending(&pending);
	if (sigismember(&pending, SIGPIPE))
		sigdelset(&ours, SIGPIPE);
	if (sigismember(&pending, SIGXFSZ))
		sigdelset(&ours, SIGXFSZ);
	write_line(line, len);
	while (sigtimedwait(&ours, NULL, &now) > 0)
		;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	cancel_release(cancel);
}

/* One line it is, whatever names are in it, and no order to a terminal. */
static void make_plain(char *line, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
}

/* Returns the line's length. */
static size_t write_down(char *line, const char *fmt, va_list args)
{
	static const char prefix[] = "gputrace: ";
	size_t len = sizeof prefix - 1, room = LINE_MAX_BYTES - len - 1;
	int n;

	memcpy(line, prefix, len);
	n = vsnprintf(line + len, room, fmt, args);
	if (n > 0)
		len += (size_t)n < room ? (size_t)n : room - 1;
	make_plain(line, len);
	line[len++] = '\n';
	return len;
}

static void put(const char *fmt, va_list args)
{
	uint32_t i = atomic_load(&nr_queued);
	struct queued *slot;

	do {
		if (i - atomic_load(&nr_carried) >= NR_QUEUED)
			return;
	} while (!atomic_compare_exchange_weak(&nr_queued, &i, i + 1));
	slot = &queue[i % NR_QUEUED];
	atomic_store(&slot->len,
		     (uint32_t)write_down(slot->line, fmt, args));
	if (wake_carrier)
		wake_carrier();
}

void log_set_carrier(void (*wake)(void))
{
	wake_carrier = wake;
}

static void carry_all(void)
{
	uint32_t i, len;

	for (;;) {
		i = atomic_load(&nr_carried);
		len = atomic_exchange(&queue[i % NR_QUEUED].len, 0);
		if (!len)
			return;
		write_guarded(queue[i % NR_QUEUED].line, len);
		atomic_store(&nr_carried, i + 1);
	}
}

static bool has_line(void)
{
	return atomic_load(&queue[atomic_load(&nr_carried) % NR_QUEUED].len);
}

void log_carry(void)
{
	int saved = errno;

	/* Again for a line that came after the last look, while nobody else
	 * could carry it. */
	do {
		if (atomic_exchange(&is_carrying, 1))
			break;
		carry_all();
		atomic_store(&is_carrying, 0);
	} while (has_line());
	errno = saved;
}

void log_finish(void)
{
	log_carry();
	/* Counted, not timed: no clock may be left. */
	for (int i = 0; i < CARRIED_WAIT_MS &&
	     atomic_load(&nr_carried) != atomic_load(&nr_queued); i++) {
		wait_change(&is_carrying, 1, 1000000);
		log_carry();
	}
}

void log_be_carried(void)
{
	pid_t tid = (pid_t)syscall(SYS_gettid), none = 0;

	for (int i = 0; i < NR_CARRIED; i++, none = 0)
		if (atomic_compare_exchange_strong(&carried_tids[i], &none,
						   tid))
			return;
}

static bool is_carried(void)
{
	pid_t tid = (pid_t)syscall(SYS_gettid);

	for (int i = 0; i < NR_CARRIED; i++)
		if (atomic_load(&carried_tids[i]) == tid)
			return true;
	return false;
}

void log_queue(enum log_level level, const char *fmt, ...)
{
	int saved = errno;
	va_list args;

	if (!is_wanted(level))
		return;
	va_start(args, fmt);
	put(fmt, args);
	va_end(args);
	errno = saved;
}

/* Apart, so that a queued line needs no room on the stack. */
static __attribute__((noinline)) void write_now(const char *fmt, va_list args)
{
	char line[LINE_MAX_BYTES];

	write_guarded(line, write_down(line, fmt, args));
}

void log_line(enum log_level level, const char *fmt, ...)
{
	int saved = errno;
	va_list args;

	if (!is_wanted(level))
		return;
	va_start(args, fmt);
	if (is_carried())
		put(fmt, args);
	else
		write_now(fmt, args);
	va_end(args);
	errno = saved;
}
