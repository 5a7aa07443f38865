/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_OSRT_NEXT_H
#define GPUTRACE_COLLECTOR_OSRT_NEXT_H

#include <stdint.h>

/*
 * What dlvsym() does, of which it is not known whether it takes memory or the
 * loader's lock that constructors run under: our wrappers are called from
 * inside allocators, and by threads that such a constructor waits for.
 */
struct next_symbol {
	const char *name;
	const char *versions[2];        /* either; "" is none */
	uint32_t gnu_hash, sysv_hash;   /* its own */
	void *direct;   /* the first in the process but for this library's */
	void *next;     /* the first behind this library, if there is any */
};

/* Fills in direct and next.  Context: any; no memory. */
void osrt_next_find(struct next_symbol *symbols, uint32_t nr);

#endif
