/* SPDX-License-Identifier: MIT */
#include "collector/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* One line; the rest is cut.  A path of PATH_MAX fits beside its sentence. */
#define LINE_MAX_BYTES (PATH_MAX + 512)

static enum log_level threshold = LOG_WARN;
static char log_file[PATH_MAX];

void log_init(enum log_level level, const char *file)
{
	threshold = level;
	if (file)
		snprintf(log_file, sizeof log_file, "%s", file);
}

bool log_enabled(enum log_level level)
{
	return level <= threshold && level != LOG_QUIET;
}

/* The file is opened for each line: a descriptor kept open could be closed,
 * and its number taken, by a program that closes all of them. */
static void write_line(const char *line, size_t len)
{
	int fd = STDERR_FILENO;
	ssize_t n;

	if (log_file[0])
		fd = open(log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC,
			  0600);
	if (fd < 0)
		return;
	do
		n = write(fd, line, len);
	while (n < 0 && errno == EINTR);
	if (log_file[0])
		close(fd);
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
	line[len++] = '\n';
	write_line(line, len);
	errno = saved;
}
