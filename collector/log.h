/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_LOG_H
#define GPUTRACE_COLLECTOR_LOG_H

#include <stdbool.h>

/*
 * Lines of text for people: one write(2) each, to stderr or the file that
 * GPUTRACE_LOG names, never to stdout.  Formatted in a buffer on the stack
 * (longer lines are cut); errno is kept.
 */
enum log_level { LOG_QUIET, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* file: NULL for stderr.  Context: attach, once. */
void log_init(enum log_level level, const char *file);
bool log_enabled(enum log_level level);

/* "gputrace: " and a newline are added.  Context: any thread, not in a signal
 * handler. */
__attribute__((format(printf, 2, 3)))
void log_line(enum log_level level, const char *fmt, ...);

#endif
