/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_CORRELATE_H
#define GPUTRACE_WRITER_CORRELATE_H

#include <stddef.h>
#include <stdint.h>

/*
 * From a correlation id to the call that launched: where its slice stands and
 * which range it was in.  One call may have launched many operations (a
 * graph), so an entry stays until another id needs its place.
 *
 * Direct-mapped by the low bits of the id: ids count up, and the last 2^20
 * calls are known.  32 bytes an entry, 32 MiB in all, of which only the pages
 * that ids have touched are there.
 * Context: writer thread.
 */
enum {
	CALL_WRITTEN = 1 << 0,  /* its slice is in the file (`serial`) */
	CALL_OUTSIDE = 1 << 1,  /* began outside every window */
	CALL_RUNTIME = 1 << 2,
	CALL_HELD = 1 << 3,     /* a driver call that waits for its runtime */
	CALL_PENDING = 1 << 4,  /* counted in its range's pending launches */
};

struct call {
	uint64_t start_ns;
	struct lane *lane;
	uint32_t correlation;   /* 0: no call */
	uint32_t node;          /* index in the table of ranges; 0: none */
	uint32_t node_turn;
	uint16_t cbid;
	uint8_t flags;
	uint8_t serial;         /* of the files, its low bits */
};

_Static_assert(sizeof(struct call) == 32 || sizeof(void *) != 8,
	       "the comment above counts on it");

struct calls {
	struct call *entries;
	uint32_t mask;
	size_t size;
};

/* bytes: what the table may take at most.  Returns 0 or -ENOMEM. */
int calls_init(struct calls *calls, uint64_t bytes);
void calls_fini(struct calls *calls);

/* The entry of a call, or NULL if it is not (or no longer) known. */
static inline struct call *calls_find(struct calls *calls, uint32_t correlation)
{
	struct call *call = &calls->entries[correlation & calls->mask];

	return call->correlation == correlation && correlation ? call : NULL;
}

/* The place for a new call, whatever stood there. */
static inline struct call *calls_slot(struct calls *calls, uint32_t correlation)
{
	return &calls->entries[correlation & calls->mask];
}

#endif
