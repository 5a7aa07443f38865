/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_OWN_THREAD_H
#define GPUTRACE_COLLECTOR_OWN_THREAD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Starts one of our own threads: detached, named (15 characters at most), all
 * signals blocked so that the program's handlers never run on it, on a small
 * stack.  The caller's signal mask is as before.  Returns 0 or -errno.
 * Context: attach.
 */
int own_thread_start(const char *name, void *(*run)(void *), void *argument);

/* True on such a thread.  Context: any, signal-safe. */
bool own_thread_is_self(void);

/* True for one of them that is alive, or was a second ago.  One that is being
 * started is in /proc before we know its number: then is_starting() is true.
 * Context: any thread, signal-safe. */
bool own_thread_is(uint32_t tid);
bool own_thread_is_starting(void);

/* The one of them that calls the CUDA driver: what CUPTI tells of such calls is
 * none of the program's doing.  Context: that thread; any. */
void own_thread_calls_driver(uint32_t tid);
bool own_thread_is_caller(uint32_t tid);

/* In the child of a fork there are none.  Context: atfork child. */
void own_thread_forget_all(void);

/* ThreadSanitizer takes equal numbers for one file: all stay shared. */
#if defined(__SANITIZE_THREAD__)
#define OWN_THREAD_SHARES_FILES 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define OWN_THREAD_SHARES_FILES 1
#endif
#endif

/*
 * Gives the calling thread a table of descriptors of its own, with nothing but
 * /dev/null in 0 to 2.  A program that closes all descriptors and reuses their
 * numbers (a daemon) then cannot meet ours, and its pipes end when it closes
 * them.  The thread has no stderr from here on: log_be_carried().
 * Returns 0 or -errno, where the system refuses: all is shared as before; so
 * it is under a seccomp filter, which may end the process for such a call.
 * Context: one of our own threads that has no descriptor open.
 */
int own_thread_part_files(void);

/* True if the writer's descriptors are apart from the program's. */
bool own_thread_files_are_apart(void);

#endif
