/* SPDX-License-Identifier: MIT */
#include "collector/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* One line; the rest is cut.  A path of PATH_MAX fits beside its sentence. */
#define LINE_MAX_BYTES (PATH_MAX + 512)

static enum log_level threshold = LOG_WARN;
static char log_file[PATH_MAX];

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

bool log_enabled(enum log_level level)
{
	return level <= threshold && level != LOG_QUIET;
}

/* The file is opened for each line: a descriptor kept open could be closed,
 * and its number taken, by a program that closes all of them.  A pipe that
 * nobody reads must not hold the program up. */
static void write_line(const char *line, size_t len)
{
	int fd = STDERR_FILENO;
	ssize_t n;

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
	int cancel;

	sigemptyset(&ours);
	sigaddset(&ours, SIGPIPE);
	sigaddset(&ours, SIGXFSZ);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
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
	pthread_setcancelstate(cancel, NULL);
}

/* One line it is, whatever names are in it, and no order to a terminal. */
static void make_plain(char *line, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
}

void log_line(enum log_level level, const char *fmt, ...)
{
	static const char prefix[] = "gputrace: ";
	char line[LINE_MAX_BYTES];
	int saved = errno, n;
	size_t len = sizeof prefix - 1;
	va_list args;

	if (!log_enabled(level))
		return;
	memcpy(line, prefix, len);
	va_start(args, fmt);
	n = vsnprintf(line + len, sizeof line - len - 1, fmt, args);
	va_end(args);
	if (n > 0)
		len += (size_t)n < sizeof line - len - 1 ?
			(size_t)n : sizeof line - len - 2;
	make_plain(line, len);
	line[len++] = '\n';
	write_guarded(line, len);
	errno = saved;
}
