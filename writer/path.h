/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_PATH_H
#define GPUTRACE_WRITER_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The name of the trace file.
 *
 *   GPUTRACE_OUT   %p pid   %h host   %r rank   %n program   %t start time
 *                  (UTC, 20261129T191500)   %w window   %% percent
 *
 * A name made from a pattern never replaces a file of another run: "-2", "-3"
 * come before the extension.  An exact name does, unless a live process
 * writes it: then "-PID".
 * Context: writer thread.
 */
struct path_values {
	uint32_t pid, rank;
	const char *host, *program;
	uint64_t start_ns;              /* epoch */
	uint32_t window;                /* its number, from 1 */
};

/* Each window has a name of its own: %w. */
bool path_has_window(const char *pattern);

/* Returns 0 or -ENAMETOOLONG; *is_pattern if something was filled in. */
int path_expand(const char *pattern, const struct path_values *values,
		char *path, size_t size, bool *is_pattern);

/* "a/b.json.gz" and "-2" -> "a/b-2.json.gz". */
int path_insert(const char *path, const char *what, char *out, size_t size);

/* Opens the sink for a new file.  `path` is made by path_expand(); where it
 * is taken, it becomes the name that was free.  NULL: *error says why. */
struct sink *path_open_sink(char *path, size_t size, bool is_pattern,
			    uint32_t pid, int *error);

#endif
