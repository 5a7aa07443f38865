/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_NVTX_LATE_H
#define GPUTRACE_COLLECTOR_NVTX_LATE_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Users of NVTX 3 that made their first call before we came.
 *
 * NVTX 3 is a header: each program and library that uses it has a structure
 * of its own, hidden, in its initialised data (nvtxGlobals_v3 in
 * nvtx3/nvtxDetail/nvtxImpl.h).  Its first call looks for a tool; where there
 * is none, all its pointers to functions become NULL, and it never looks
 * again.  So we look for it:
 *
 *	word  0  state of its start: 2 when it is through
 *	      1  16, the size of the next two; a function that gives tables
 *	      3  24, the size of the next three; version 3; a function
 *	      6  pointers to functions: these become ours if all are NULL
 *	      t  NULL, the addresses of words 6 to 20, NULL: the first table
 *
 * The table that points back at its own structure is what nothing else looks
 * like.  A structure that another tool, or we, fill already stays as it is;
 * so does one that was not used yet: it finds us by its variable.
 */
struct nvtx_late {
	/* Where the next pass begins: the module by its number, the address
	 * in it; zeroed at first. */
	size_t module;
	uintptr_t resume;
	uint64_t removed;       /* modules unloaded, as the loader counts */
	size_t left;            /* bytes that are looked at in this pass */
	size_t seen;            /* of this pass: modules */
	/* What was found: */
	unsigned int filled;    /* ours now */
	unsigned int taken;     /* somebody's already */
	unsigned int busy;      /* in the middle of its first call */
};

/* Looks through the initialised writable memory of one module, from
 * late->resume on and late->left bytes, and fills what it finds.  False: there
 * is more of it.  Memory that cannot be read is passed over, whatever is in
 * the rest.
 * Context: one of our own threads, with the loader's lock held (in
 * dl_iterate_phdr()), so that the module stays. */
bool nvtx_late_look(struct nvtx_late *late, const struct dl_phdr_info *module);

/*
 * Users of NVTX 2 share a library, libnvToolsExt.so.1, of which no source is
 * known.  In its data are tables of addresses likewise, and a table of those:
 * NULL, then six, of 15, 8, 14, 6, 14 and 6 functions (seen in those of CUDA
 * 11.8 and 12.4).  Nothing of it is called: what it exports by the name
 * nvtxGetExportTable is not what it gives to a tool.
 */

/* Looks through all modules, in passes that hold the loader's lock for some
 * 0.1 ms each, and 256 MiB at most; again while one is in its first call, for
 * a second at most.  Returns how many were filled.
 * Context: one of our own threads, not in a constructor. */
unsigned int nvtx_late_attach(void);

#endif
