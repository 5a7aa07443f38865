/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_GAPS_H
#define GPUTRACE_WRITER_GAPS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What is taken on a lane, so that slices which arrive out of order find a
 * gap, and go to another lane only when there is none.
 *
 *   gaps: slices that must not overlap at all (work on a stream)
 *   nest: slices that may lie inside one another but must not cross
 *
 * Both remember a bounded past; what would fall into a forgotten stretch is
 * refused, which costs a lane and never a wrong picture.
 * Context: writer thread.
 */
struct gap {
	uint64_t start_ns, end_ns;
};

struct gaps {
	struct gap *slots;      /* sorted, disjoint */
	uint32_t nr, size;
	uint32_t limit;         /* of size; 0: GAPS_MAX */
	uint64_t floor_ns;      /* nothing fits before it */
};

/* 4096 x 16 bytes: 64 KiB for a busy lane; a tenth of a second of 5 us
 * kernels on one stream from threads whose buffers come one after another. */
#define GAPS_MAX 4096

/* Takes [start, end] if nothing there overlaps.  Two of no length may stand
 * at one time; one of no length may not stand inside, or at the start of,
 * another. */
bool gaps_place(struct gaps *gaps, uint64_t start_ns, uint64_t end_ns);
void gaps_fini(struct gaps *gaps);

#define NEST_DEPTH 64

struct nest {
	struct gaps outer;      /* the outermost slices of earlier batches */
	struct gap *stack;      /* NEST_DEPTH, of this batch, outermost first;
				 * made at the first use: 1 KiB a lane */
	uint32_t depth;
	uint32_t batch;
	uint64_t last_start_ns;
};

/* The same for slices that may nest.  Within a batch (any number that
 * changes) slices come sorted by start, longer first, and nest exactly; those
 * of earlier batches may be enclosed as a whole or stay outside. */
bool nest_place(struct nest *nest, uint32_t batch, uint64_t start_ns,
		uint64_t end_ns);
/* The same in any order, for what is nearly always disjoint: what lies inside
 * an earlier one is refused too. */
bool nest_place_whole(struct nest *nest, uint64_t start_ns, uint64_t end_ns);
void nest_fini(struct nest *nest);

#endif
