/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_VEC_H
#define GPUTRACE_TOOLS_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes room for element `nr` of an array that grows by half.  Returns false
 * when memory ends; the array is then as it was. */
bool vec_room(void **array, size_t *cap, size_t nr, size_t element_size);

/* The same with a realloc() of the caller's, which is told the bytes that the
 * array had. */
typedef void *vec_resize(void *array, size_t old_bytes, size_t bytes);
bool vec_room_by(vec_resize *resize, void **array, size_t *cap, size_t nr,
		 size_t element_size);

#define VEC_ROOM(v, nr, cap) \
	vec_room((void **)&(v), &(cap), (nr), sizeof(*(v)))

/* A table from pairs of integers to small numbers that the caller gives out
 * (open addressing; nothing is ever removed). */
struct pairs {
	struct pair_slot { uint64_t a, b; uint32_t value, used; } *slot;
	size_t nr, cap;
};

/* The value of a pair; if it is new, `fresh` becomes its value and *is_new
 * true.  Returns UINT32_MAX when memory ends. */
uint32_t pairs_put(struct pairs *p, uint64_t a, uint64_t b, uint32_t fresh,
		   bool *is_new);
/* The value of a pair, or UINT32_MAX. */
uint32_t pairs_find(const struct pairs *p, uint64_t a, uint64_t b);
void pairs_fini(struct pairs *p);

#endif
