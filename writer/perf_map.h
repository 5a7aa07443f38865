/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_PERF_MAP_H
#define GPUTRACE_WRITER_PERF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What code that was made at run time is called, as its maker writes it for
 * perf: lines of "START SIZE NAME" in /tmp/perf-PID.map, numbers in hex.  The
 * last line about an address wins; 8 MiB are read at most, each once, of which
 * up to 4 MiB of table stay.
 * Context: writer thread.
 */
bool perf_map_find(uint32_t pid, uint64_t address, char *name, size_t size);

#endif
