/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_JSONKEYS_H
#define GPUTRACE_TOOLS_JSONKEYS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tools/json.h"

/*
 * The keys that a reader wants to see, found by a hash of their first bytes.
 * Keys are shorter than JSON_PAD; texts are followed by JSON_PAD bytes, so
 * that words can be loaded across their ends.
 */
enum { JSON_KEYS_MAX = 64, JSON_KEYS_FIRST = 0, JSON_KEYS_UNKNOWN = 65 };

struct json_keys {
	const char *const *names;
	unsigned nr;
	uint8_t len[JSON_KEYS_MAX];
	/* The first and the last 8 bytes of each: zeros behind a short one,
	 * and the bytes of `first` that count. */
	uint64_t first[JSON_KEYS_MAX], last[JSON_KEYS_MAX];
	uint64_t mask[JSON_KEYS_MAX];
	uint8_t slot[256];      /* hash -> index + 1 */
	/* What came behind a key the last time, because writers repeat their
	 * order: index + 1, JSON_KEYS_FIRST or _UNKNOWN -> index + 1 or 0. */
	uint8_t next[JSON_KEYS_MAX + 2];
};

void json_keys_build(struct json_keys *keys, const char *const *names,
		     unsigned nr);

/* The index of a string in the list, or -1. */
int json_keys_find(const struct json_keys *keys, const struct json_value *v);

/* The last 8 bytes of a key longer than that. */
static inline uint64_t json_keys_last(const char *text, unsigned len)
{
	uint64_t word = 0;

	if (len > 8)
		memcpy(&word, text + len - 8, 8);
	return word;
}

/* Is key i at p, behind a quote?  A right guess saves the search, and that for
 * the end of the string. */
static inline bool json_keys_is(const struct json_keys *keys, unsigned i,
				const char *p)
{
	unsigned len = keys->len[i];
	uint64_t word;

	memcpy(&word, p, 8);
	return (word & keys->mask[i]) == keys->first[i] &&
		p[len] == '"' && json_keys_last(p, len) == keys->last[i] &&
		(len <= 16 || !memcmp(keys->names[i], p, len));
}

#endif
