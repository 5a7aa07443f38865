/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_PAUSE_H
#define GPUTRACE_COLLECTOR_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Stretches of a window in which another client had CUPTI: what the GPU did
 * then is in that client's profile, and the file says from when to when.
 */
struct pause {
	uint64_t begin_ns;
	uint64_t end_ns;        /* UINT64_MAX: it lasts */
};

/* Both change nothing where there is nothing to change.
 * Context: with CUPTI's control lock held (cupti.c). */
void pause_begin(void);
void pause_end(void);

/* How many have begun.  Context: any thread. */
uint32_t pause_count(void);

/* Number `n` (1, 2, ...); false: there was none, or it is older than the last
 * PAUSES_KEPT.  Context: any thread. */
#define PAUSES_KEPT 1024u
bool pause_get(uint32_t n, struct pause *pause);

#endif
