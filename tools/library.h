/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_LIBRARY_H
#define GPUTRACE_TOOLS_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* Finds libgputrace.so: beside the command (the build folder), or in ../lib
 * (installed).  False: `path` is the folder of the command, or "" where that
 * is not known. */
bool library_beside(char *path, size_t size);

#endif
