/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_NAMES_H
#define GPUTRACE_WRITER_NAMES_H

#include <stdint.h>

#include "writer/bytes.h"
#include "writer/writer.h"

/*
 * Names of kernels: what CUPTI gives (mangled), what the symbol says in full,
 * and what the file calls it (GPUTRACE_NAMES):
 *
 *   mangled  _ZN2at6native29vectorized_elementwise_kernelILi8ENS0_15CUDA...
 *   full     void at::native::vectorized_elementwise_kernel<8, at::native::
 *            CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int, ...
 *   short    vectorized_elementwise_kernel<8, CUDAFunctor_add<BFloat16>,
 *            array<char*, 3>>
 *
 * Two full names that shorten alike get different shorts: " #" and four hex
 * digits are added to the second.  So do two that differ only in bytes which
 * are no UTF-8: both full forms have U+FFFD there.
 *
 * What is longer than 64 KiB is cut, counted, and ends in "... #" and sixteen
 * hex digits.  All names together hold max_bytes; then new ones have none.
 * Context: writer thread.
 */
struct name {
	struct name *next_in_bucket;
	struct name *next;              /* of all, newest first */
	char *mangled;
	char *full;                     /* = mangled if that cannot be undone */
	char *text;                     /* as the style wants it */
	uint64_t hash;                  /* of mangled */
	/* In the tables by full and by text; an alias has both from another
	 * name with the same full form (another module's copy). */
	struct name *next_full, *next_text;
	uint64_t full_hash, text_hash;
	uint32_t is_alias;
	uint32_t is_selected;           /* GPUTRACE_KERNELS */
};

struct names {
	enum name_style style;
	const char *globs;              /* GPUTRACE_KERNELS or NULL */
	struct name *list;
	struct name **buckets, **by_full, **by_text;
	uint32_t nr;
	uint64_t bytes, max_bytes;      /* of all texts; 0: no bound */
	/* CUPTI's pointers are good while we hold its buffers */
	struct name_place {
		const char *pointer;
		struct name *name;
	} *places;
	struct name unknown;            /* no name, no memory */
};

int names_init(struct names *names, enum name_style style, const char *globs);
void names_fini(struct names *names);

/* The name behind CUPTI's pointer.  Never NULL. */
const struct name *names_get(struct names *names, const char *mangled);

/* The pointers may mean other names from here on (buffers were recycled). */
void names_forget_pointers(struct names *names);

/* full into out (short form, at most 120 bytes); see above. */
void name_shorten(const char *full, struct bytes *out);

/* The full form of a mangled name.  False if it is none, or too long.
 * Longest output kept: 16 KiB (the longest seen in PyTorch is 3009). */
bool name_demangle(const char *mangled, struct bytes *out);

#endif
