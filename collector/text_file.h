/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_TEXT_FILE_H
#define GPUTRACE_COLLECTOR_TEXT_FILE_H

#include <stddef.h>

/* The text of a small file of the kernel's (/proc, /sys/fs/cgroup), cut at
 * size - 1; empty if it cannot be read.
 * Context: any thread but the program's hot path; three system calls. */
void text_file_read(const char *path, char *text, size_t size);

#endif
