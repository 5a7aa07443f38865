/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_OSRT_H
#define GPUTRACE_COLLECTOR_OSRT_H

#include <stdatomic.h>
#include <stdint.h>

#include "collector/osrt_calls.h"

/*
 * The source `osrt`: C library calls that kept a thread waiting.
 *
 *   program: read() --> osrt_slots[].entry --+--> C library's    source off
 *                                            `--> our wrapper --> .next
 *   libgputrace: read() --> osrt_slots[].direct --> C library's
 *
 * The program finds our read() first (inject/interpose_osrt.c), which jumps to
 * wherever `entry` points: with the source off the next one in line after us,
 * the C library's or another tool's.  Our own calls never pass through there.
 * Before anything is known, all three point to what looks it up, so that a
 * call may come at any time: from the constructor of a library that is loaded
 * before ours, or from an allocator that is just being set up.
 */
struct osrt_slot {
	void *_Atomic entry;
	void *_Atomic next;
	void *_Atomic direct;
};
extern struct osrt_slot osrt_slots[OSRT_NR]
	__attribute__((visibility("hidden")));

#define OSRT_JUMP(name, nr, to) \
	((long (*)(OSRT_P##nr))atomic_load_explicit( \
		&osrt_slots[OSRT_##name].to, memory_order_relaxed)) \
		(OSRT_A##nr)

/* Looks all of them up; what is known already stays.  Context: any, no memory,
 * the loader's lock for a moment. */
void osrt_resolve(void);

extern const struct source osrt_source;

#endif
