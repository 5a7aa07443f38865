/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_TWIN_H
#define GPUTRACE_WRITER_TWIN_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The hidden second file beside a trace (sink_file.c): its name, and whether
 * a live process holds it.  Context: writer thread.
 */

/* "/a/b.json" -> "/a/.b.json.gputrace-twin".  Returns 0 or -ENAMETOOLONG. */
int twin_path(const char *path, char *twin, size_t size);

/* True if a process that lives writes the trace at `path`. */
bool twin_is_held(const char *path);

/* Removes the twins in the folder of `path` that nobody holds: their writers
 * were killed. */
void twin_remove_stale(const char *path);

/* What an errno means, without the locale and the lock of strerror(). */
void twin_reason(int err, char *text, size_t size);

#endif
