/* SPDX-License-Identifier: MIT */
#include "tools/vec.h"

#include <stdlib.h>
#include <string.h>

bool vec_room_by(vec_resize *resize, void **array, size_t *cap, size_t nr,
		 size_t element_size)
{
	size_t wider = *cap + *cap / 2 + 16;
	void *moved;

	if (nr < *cap)
		return true;
	if (wider > SIZE_MAX / element_size)
		return false;
	moved = resize(*array, *cap * element_size, wider * element_size);
	if (!moved)
		return false;
	*array = moved;
	*cap = wider;
	return true;
}

static void *resize_plainly(void *array, size_t old_bytes, size_t bytes)
{
	(void)old_bytes;
	return realloc(array, bytes);
}

bool vec_room(void **array, size_t *cap, size_t nr, size_t element_size)
{
	return vec_room_by(resize_plainly, array, cap, nr, element_size);
}

static size_t pair_hash(uint64_t a, uint64_t b)
{
	uint64_t h = (a ^ (b << 32 | b >> 32)) * 0x9e3779b97f4a7c15u;

	h = (h ^ h >> 29 ^ b) * 0xbf58476d1ce4e5b9u;
	return h ^ h >> 32;
}

static struct pair_slot *pair_slot(const struct pairs *p, uint64_t a,
				   uint64_t b)
{
	size_t i = pair_hash(a, b) & (p->cap - 1);

	while (p->slot[i].used && (p->slot[i].a != a || p->slot[i].b != b))
		i = (i + 1) & (p->cap - 1);
	return &p->slot[i];
}

static bool pairs_widen(struct pairs *p)
{
	struct pairs wider = { .cap = p->cap ? 2 * p->cap : 64 };

	wider.slot = calloc(wider.cap, sizeof(*wider.slot));
	if (!wider.slot)
		return false;
	for (size_t i = 0; i < p->cap; i++)
		if (p->slot[i].used)
			*pair_slot(&wider, p->slot[i].a, p->slot[i].b) =
				p->slot[i];
	wider.nr = p->nr;
	free(p->slot);
	*p = wider;
	return true;
}

uint32_t pairs_put(struct pairs *p, uint64_t a, uint64_t b, uint32_t fresh,
		   bool *is_new)
{
	struct pair_slot *slot;

	*is_new = false;
	if (p->nr * 4 >= p->cap * 3 && !pairs_widen(p))
		return UINT32_MAX;
	slot = pair_slot(p, a, b);
	if (!slot->used) {
		*slot = (struct pair_slot){ a, b, fresh, 1 };
		p->nr++;
		*is_new = true;
	}
	return slot->value;
}

uint32_t pairs_find(const struct pairs *p, uint64_t a, uint64_t b)
{
	const struct pair_slot *slot;

	if (!p->cap)
		return UINT32_MAX;
	slot = pair_slot(p, a, b);
	return slot->used ? slot->value : UINT32_MAX;
}

void pairs_fini(struct pairs *p)
{
	free(p->slot);
	memset(p, 0, sizeof(*p));
}
