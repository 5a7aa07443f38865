/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_CONTROL_FOLDER_H
#define GPUTRACE_INJECT_CONTROL_FOLDER_H

#include <stddef.h>
#include <stdint.h>

/*
 * Which paths a client may name: files in the folder of GPUTRACE_OUT, or below
 * it, all links followed; nothing else of the process's files is reachable.
 */

/* out: GPUTRACE_OUT, with its %x.  Context: attach, once. */
void control_folder_init(const char *out, uint32_t rank);

/* "name.json" or an absolute path -> the absolute path without links.  0, or
 * -EACCES and a sentence in `why`.  Context: our own threads. */
int control_folder_resolve(const char *path, char *resolved, size_t size,
			   char *why, size_t why_size);

#endif
