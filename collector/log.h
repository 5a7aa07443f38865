/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_LOG_H
#define GPUTRACE_COLLECTOR_LOG_H

/*
 * Lines of text for people: one write(2) each, to stderr or the file that
 * GPUTRACE_LOG names, never to stdout.  Formatted in a buffer on the stack
 * (longer lines are cut); errno is kept.
 */
enum log_level { LOG_QUIET, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Remembers what stderr is, before the program can close it and get its number
 * for a file of its own.  Context: constructor. */
void log_keep_stderr(void);

/* file: NULL for stderr.  Context: attach, once. */
void log_init(enum log_level level, const char *file);

/* "gputrace: " and a newline are added.  Context: any thread, not in a signal
 * handler. */
__attribute__((format(printf, 2, 3)))
void log_line(enum log_level level, const char *fmt, ...);

/* As log_line(), but a thread that can writes it with log_carry(): from those
 * that have no stderr (own_thread_part_files()) or no room on their stack.
 * Context: any thread; signal-safe where its values are. */
__attribute__((format(printf, 2, 3)))
void log_queue(enum log_level level, const char *fmt, ...);

/* Lines of the calling thread are queued from now on.
 * Context: four threads of ours at most, once each. */
void log_be_carried(void);

/* A thread that calls log_carry() in its loop, and how to wake it.
 * Context: attach, once. */
void log_set_carrier(void (*wake)(void));

/* Writes what is queued.  Context: any thread that has the program's
 * descriptors; signal-safe. */
void log_carry(void);

/* Writes what is queued and waits, at most 0.1 s, until what another thread
 * was writing is out too.  Context: the exiting thread; signal-safe. */
void log_finish(void);

#endif
