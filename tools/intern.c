/* SPDX-License-Identifier: MIT */
#include "tools/intern.h"

#include <stdlib.h>
#include <string.h>

#include "tools/jsonval.h"
#include "tools/utf8.h"
#include "tools/vec.h"

enum { BLOCK = 256 << 10 };

struct intern_block {
	struct intern_block *next;
	size_t used, size;
	char text[];
};

/* Eight bytes a step: kernel names reach 3,000 characters, in each event. */
static uint32_t hash_text(const char *text, size_t len)
{
	uint64_t h = len * 0x9e3779b97f4a7c15u, word;

	for (; len >= 8; text += 8, len -= 8) {
		memcpy(&word, text, 8);
		h = (h ^ word) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	word = 0;
	memcpy(&word, text, len);
	h = (h ^ word) * 0xff51afd7ed558ccdu;
	return h ^ h >> 32;
}

static char *store(struct intern *in, const char *text, size_t len)
{
	struct intern_block *b = in->blocks;
	size_t size = len + 1 > BLOCK ? len + 1 : BLOCK;
	char *at;

	if (!b || b->size - b->used < len + 1) {
		b = malloc(sizeof(*b) + size);
		if (!b)
			return NULL;
		b->next = in->blocks;
		b->used = 0;
		b->size = size;
		in->blocks = b;
	}
	at = b->text + b->used;
	memcpy(at, text, len);
	at[len] = '\0';
	b->used += len + 1;
	return at;
}

static uint32_t *find(const struct intern *in, const char *text, size_t len,
		      uint32_t hash)
{
	size_t i = hash & (in->nr_slots - 1);
	const struct intern_string *s;

	for (; in->slot[i]; i = (i + 1) & (in->nr_slots - 1)) {
		s = &in->string[in->slot[i] - 1];
		if (s->hash == hash && s->len == len &&
		    !memcmp(s->text, text, len))
			break;
	}
	return &in->slot[i];
}

static int widen(struct intern *in)
{
	size_t nr = in->nr_slots ? 2 * in->nr_slots : 256;
	uint32_t *slot = calloc(nr, sizeof(*slot));

	if (!slot)
		return -1;
	for (size_t i = 0; i < in->nr; i++) {
		size_t at = in->string[i].hash & (nr - 1);

		while (slot[at])
			at = (at + 1) & (nr - 1);
		slot[at] = i + 1;
	}
	free(in->slot);
	in->slot = slot;
	in->nr_slots = nr;
	return 0;
}

uint32_t intern_text(struct intern *in, const char *text, size_t len)
{
	uint32_t hash = hash_text(text, len), *slot;
	struct intern_string *s;

	if (in->nr * 2 >= in->nr_slots && widen(in))
		return INTERN_NONE;
	slot = find(in, text, len, hash);
	if (*slot)
		return *slot - 1;
	if (len > UINT32_MAX || in->nr >= UINT32_MAX - 1 ||
	    !VEC_ROOM(in->string, in->nr, in->cap))
		return INTERN_NONE;
	s = &in->string[in->nr];
	s->text = store(in, text, len);
	if (!s->text)
		return INTERN_NONE;
	s->len = len;
	s->hash = hash;
	*slot = ++in->nr;
	return in->nr - 1;
}

/* Replaces what is no UTF-8; `to` has room for three times the length. */
static size_t repair(const char *text, size_t len, char *to)
{
	size_t out = 0, i = 0;

	while (i < len) {
		unsigned n = utf8_char(text + i, len - i);

		if (n) {
			memcpy(to + out, text + i, n);
			out += n;
			i += n;
		} else {
			out += utf8_encode(0xfffd, to + out);
			i++;
		}
	}
	return out;
}

uint32_t intern_value(struct intern *in, const struct json_value *v)
{
	size_t len = v->len;
	char *plain, *valid;
	uint32_t id;

	if (!(v->flags & (JSON_ESCAPED | JSON_HIGH)))
		return intern_text(in, v->text, len);
	plain = malloc(4 * len + 4);
	if (!plain)
		return INTERN_NONE;
	valid = plain + len + 1;
	len = jsonval_string(v, plain, len + 1);
	len = repair(plain, len, valid);
	id = intern_text(in, valid, len);
	free(plain);
	return id;
}

void intern_fini(struct intern *in)
{
	struct intern_block *next;

	for (; in->blocks; in->blocks = next) {
		next = in->blocks->next;
		free(in->blocks);
	}
	free(in->string);
	free(in->slot);
	memset(in, 0, sizeof(*in));
}
