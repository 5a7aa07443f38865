/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_MAPS_H
#define GPUTRACE_COLLECTOR_MAPS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * /proc/self/maps, the mappings with code of a file:
 *
 *   7f12a4c28000-7f12a4dbd000 r-xp 00028000 fe:01 393257   /usr/lib/libc.so.6
 *
 * Context: attach, or one of our own threads.
 */
struct maps {
	FILE *file;
};

struct maps_entry {
	uintptr_t start, end;
	uint64_t offset, inode;
	char path[PATH_MAX];    /* "[vdso]" for the vDSO */
};

int maps_open(struct maps *maps);       /* 0 or -errno */
void maps_close(struct maps *maps);

/* False: no more. */
bool maps_next_code(struct maps *maps, struct maps_entry *entry);

#endif
