/* SPDX-License-Identifier: MIT */
#include "tools/jsonkeys.h"

#include "tools/jsonval.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "the first byte of a word is its lowest");

/* The first 8 bytes of a key, zeros behind its end; padding follows text. */
static uint64_t first_word(const char *text, unsigned len)
{
	uint64_t word;

	memcpy(&word, text, 8);
	return len < 8 ? word & ((1ull << 8 * len) - 1) : word;
}

static uint8_t key_hash(uint64_t first, unsigned len)
{
	return ((first ^ (uint64_t)len << 40) * 0x9e3779b97f4a7c15u) >> 56;
}

void json_keys_build(struct json_keys *keys, const char *const *names,
		     unsigned nr)
{
	char text[JSON_PAD + 8];

	memset(keys, 0, sizeof(*keys));
	keys->names = names;
	keys->nr = nr;
	for (unsigned i = 0; i < nr; i++) {
		unsigned len = strlen(names[i]);
		uint8_t h;

		memset(text, 0, sizeof(text));
		memcpy(text, names[i], len);
		keys->len[i] = len;
		keys->first[i] = first_word(text, len);
		memset(text, 0xff, len);
		keys->mask[i] = first_word(text, len);
		memcpy(text, names[i], len);
		keys->last[i] = json_keys_last(text, len);
		h = key_hash(keys->first[i], len);
		while (keys->slot[h])
			h++;
		keys->slot[h] = i + 1;
	}
}

/* Two overlapping words decide up to 16 bytes. */
static int find_key(const struct json_keys *keys, const char *text,
		    unsigned len)
{
	uint64_t first = first_word(text, len);
	uint8_t h;

	for (h = key_hash(first, len); keys->slot[h]; h++) {
		unsigned i = keys->slot[h] - 1;

		if (keys->first[i] == first && keys->len[i] == len &&
		    keys->last[i] == json_keys_last(text, len) &&
		    (len <= 16 || !memcmp(keys->names[i], text, len)))
			return i;
	}
	return -1;
}

int json_keys_find(const struct json_keys *keys, const struct json_value *v)
{
	char plain[JSON_PAD + 8] = "";

	if (!keys->nr || v->len > JSON_PAD * 6)
		return -1;
	if (!(v->flags & JSON_ESCAPED))
		return v->len < JSON_PAD ? find_key(keys, v->text, v->len) :
			-1;
	/* one byte more than any key has, so that a cut one matches none */
	return find_key(keys, plain, jsonval_string(v, plain, JSON_PAD));
}
