/* SPDX-License-Identifier: MIT */
#include "tools/json.h"

#include <stdlib.h>
#include <string.h>

#include "tools/jsonkeys.h"
#include "tools/jsonval.h"
#include "tools/utf8.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

const char json_cut[] = "the file ends here, inside the document";

static const char *fail(struct json *j, const char *p, const char *why)
{
	j->at = p;
	j->why = p == j->end ? json_cut : why;
	return NULL;
}

static void fault(struct json *j, enum json_fault kind, const char *p)
{
	if (!(j->faults & 1u << kind))
		j->fault_at[kind] = p;
	j->faults |= 1u << kind;
}

void json_fini(struct json *j)
{
	free(j->keys);
	j->keys = NULL;
	j->nr_keys = j->keys_cap = 0;
}

/* The next quote, backslash or control byte; *high becomes non-zero if a byte
 * above 0x7f was passed. */
#ifdef __SSE2__
static const char *string_stop(const char *p, unsigned *high)
{
	const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
	const __m128i control = _mm_set1_epi8(0x1f);

	for (;; p += 16) {
		__m128i x = _mm_loadu_si128((const __m128i *)p);
		__m128i low = _mm_cmpeq_epi8(_mm_min_epu8(x, control), x);
		__m128i stop = _mm_or_si128(_mm_cmpeq_epi8(x, quote),
					    _mm_cmpeq_epi8(x, slash));
		unsigned mask = _mm_movemask_epi8(_mm_or_si128(stop, low));
		unsigned above = _mm_movemask_epi8(x);

		if (mask) {
			*high |= above & (mask ^ (mask - 1));
			return p + __builtin_ctz(mask);
		}
		*high |= above;
	}
}
#else
static const char *string_stop(const char *p, unsigned *high)
{
	for (;; p++) {
		unsigned char c = *p;

		if (c == '"' || c == '\\' || c < 0x20)
			return p;
		*high |= c & 0x80;
	}
}
#endif

/* p is at a backslash. */
static const char *scan_escape(struct json *j, const char *p)
{
	const char *start = p++;

	if (*p != 'u')
		return *p && strchr("\"\\/bfnrt", *p) ? p + 1 :
			fail(j, p, "an escape that JSON does not have");
	for (int i = 0; i < 4; i++)
		if (jsonval_hex(*++p) < 0)
			return fail(j, p, "\\u without four hex digits");
	if ((start[2] | 0x20) == 'd' && jsonval_hex(start[3]) >= 8)
		fault(j, JSON_FAULT_SURROGATE, start);
	return p + 1;
}

/* p is behind the opening quote; returns the byte behind the closing one. */
static const char *scan_string(struct json *j, const char *p,
			       struct json_value *v)
{
	const char *start = p;
	unsigned high = 0;

	v->flags = 0;
	while (*(p = string_stop(p, &high)) != '"') {
		if (*p == '\\') {
			v->flags = JSON_ESCAPED;
			p = scan_escape(j, p);
			if (!p)
				return NULL;
		} else if (p == j->end) {
			return fail(j, p, json_cut);
		} else {
			fault(j, JSON_FAULT_CONTROL, p++);
		}
	}
	v->type = JSON_STRING;
	v->text = start;
	v->len = p - start;
	if (high) {
		v->flags |= JSON_HIGH;
		if (j->strict && utf8_valid(start, v->len) != v->len)
			fault(j, JSON_FAULT_UTF8,
			      start + utf8_valid(start, v->len));
	}
	return p + 1;
}

static inline bool is_digit(char c)
{
	return (unsigned char)(c - '0') < 10;
}

static const char *scan_digits(struct json *j, const char *p)
{
	if (!is_digit(*p))
		return fail(j, p, "a digit is missing");
	while (is_digit(*p))
		p++;
	return p;
}

static const char *scan_word(struct json *j, const char *p, const char *word,
			     struct json_value *v, enum json_type type)
{
	const char *start = p;

	for (; *word; word++, p++)
		if (*p != *word)
			return fail(j, p, "no JSON value");
	v->type = type;
	v->text = start;
	v->len = p - start;
	v->flags = 0;
	return p;
}

/* NaN and Infinity as Python and C print them: not JSON, but found in files. */
static const char *scan_nonfinite(struct json *j, const char *p,
				  struct json_value *v)
{
	static const char *const words[] = {
		"NaN", "nan", "Infinity", "inf",
	};
	const char *start = p, *stop;

	p += *p == '-';
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (*p != *words[i])
			continue;
		stop = scan_word(j, p, words[i], v, JSON_NUMBER);
		if (!stop)
			return NULL;
		v->text = start;
		v->len = stop - start;
		v->flags = JSON_REAL | JSON_NONFINITE;
		fault(j, JSON_FAULT_NONFINITE, start);
		return stop;
	}
	return fail(j, p, "no JSON value");
}

static const char *scan_number(struct json *j, const char *p,
			       struct json_value *v)
{
	const char *start = p;

	p += *p == '-';
	if (!is_digit(*p))
		return scan_nonfinite(j, start, v);
	v->flags = 0;
	if (*p == '0')
		p++;
	else
		while (is_digit(*p))
			p++;
	if (*p == '.') {
		v->flags = JSON_REAL;
		p = scan_digits(j, p + 1);
	}
	if (p && (*p == 'e' || *p == 'E')) {
		v->flags = JSON_REAL;
		p += p[1] == '+' || p[1] == '-' ? 2 : 1;
		p = scan_digits(j, p);
	}
	if (!p)
		return NULL;
	if (p == j->end)
		return fail(j, p, json_cut);
	v->type = JSON_NUMBER;
	v->text = start;
	v->len = p - start;
	return p;
}

static const char *scan_array(struct json *j, const char *p, int depth)
{
	struct json_value v;

	p = json_space(p + 1);
	if (*p == ']')
		return p + 1;
	for (;;) {
		p = json_scan(j, p, &v, depth);
		if (!p)
			return NULL;
		p = json_space(p);
		if (*p == ']')
			return p + 1;
		if (*p != ',')
			return fail(j, p, "',' or ']' is missing");
		p = json_space(p + 1);
	}
}

/* The key of a member up to its value; p is where the key must begin.  *place
 * is that of the last key in json_keys.next, and becomes that of this one. */
static const char *scan_key(struct json *j, const char *p,
			    struct json_keys *keys, struct json_value *key,
			    unsigned *place)
{
	unsigned guess = keys->next[*place];
	int id;

	if (*p != '"')
		return fail(j, p, "a key is missing");
	if (guess && json_keys_is(keys, guess - 1, p + 1)) {
		key->text = p + 1;
		key->len = keys->len[guess - 1];
		key->flags = 0;
		p += key->len + 2;
		*place = guess;
	} else {
		p = scan_string(j, p + 1, key);
		if (!p)
			return NULL;
		id = json_keys_find(keys, key);
		if (id >= 0)
			keys->next[*place] = id + 1;
		*place = id < 0 ? JSON_KEYS_UNKNOWN : id + 1;
	}
	p = json_space(p);
	if (*p != ':')
		return fail(j, p, "':' is missing");
	return json_space(p + 1);
}

static int by_hash(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Notes the key of an open object; the first that does not fit in memory is
 * no reason to stop. */
static void key_note(struct json *j, const struct json_value *key)
{
	if (j->nr_keys == j->keys_cap) {
		size_t cap = j->keys_cap ? 2 * j->keys_cap : 64;
		uint64_t *keys = realloc(j->keys, cap * sizeof(*keys));

		if (!keys)
			return;
		j->keys = keys;
		j->keys_cap = cap;
	}
	j->keys[j->nr_keys++] = jsonval_hash(key);
}

/* Ends an object whose keys begin at `first`. */
static void keys_judge(struct json *j, size_t first, const char *p)
{
	size_t nr = j->nr_keys - first;
	uint64_t *keys;

	if (nr < 2) {
		j->nr_keys = first;
		return;
	}
	keys = j->keys + first;
	qsort(keys, nr, sizeof(*keys), by_hash);
	for (size_t i = 1; i < nr; i++)
		if (keys[i] == keys[i - 1])
			fault(j, JSON_FAULT_TWICE, p);
	j->nr_keys = first;
}

/* One member's value, kept if its key is known. */
static const char *scan_member(struct json *j, const char *p, int id,
			       struct json_members *m,
			       const struct json_nested *nested, int depth)
{
	struct json_value other, *v = id < 0 ? &other : &m->value[id];
	const char *start = p;

	if (nested && id == (int)nested->key && *p == '{') {
		p = json_object(j, p, nested->keys, nested->members, NULL,
				depth + 1);
		v->type = JSON_OBJECT;
		v->flags = 0;
		v->text = start;
		v->len = p ? p - start : 0;
	} else {
		p = json_scan(j, p, v, depth);
	}
	if (id >= 0)
		m->have |= 1ull << id;
	if (p && (v->type != JSON_NUMBER || v->flags & JSON_NONFINITE))
		m->numbers_only = false;
	return p;
}

const char *json_object(struct json *j, const char *p,
			struct json_keys *keys, struct json_members *m,
			const struct json_nested *nested, int depth)
{
	size_t first = j->nr_keys;
	const char *start = p;
	struct json_value key;
	unsigned place = JSON_KEYS_FIRST;

	m->have = 0;
	m->nr = 0;
	m->numbers_only = true;
	if (depth >= JSON_DEPTH)
		return fail(j, p, "nested too deeply");
	p = json_space(p + 1);
	if (*p == '}')
		return p + 1;
	for (;;) {
		p = scan_key(j, p, keys, &key, &place);
		if (!p)
			break;
		if (j->strict)
			key_note(j, &key);
		m->nr++;
		p = scan_member(j, p, place == JSON_KEYS_UNKNOWN ? -1 :
				(int)place - 1, m, nested, depth);
		if (!p)
			break;
		p = json_space(p);
		if (*p != ',')
			break;
		p = json_space(p + 1);
	}
	if (p && *p != '}')
		p = fail(j, p, "',' or '}' is missing");
	if (j->strict)
		keys_judge(j, first, start);
	return p ? p + 1 : NULL;
}

static struct json_keys no_keys;        /* never changes: it has none */

const char *json_scan(struct json *j, const char *p, struct json_value *v,
		      int depth)
{
	struct json_members none;
	const char *start = p;

	switch (*p) {
	case '"':
		return scan_string(j, p + 1, v);
	case 't':
		return scan_word(j, p, "true", v, JSON_TRUE);
	case 'f':
		return scan_word(j, p, "false", v, JSON_FALSE);
	case 'n':
		if (p[1] == 'a')
			return scan_nonfinite(j, p, v);
		return scan_word(j, p, "null", v, JSON_NULL);
	case '{':
	case '[':
		if (depth >= JSON_DEPTH)
			return fail(j, p, "nested too deeply");
		v->type = *p == '{' ? JSON_OBJECT : JSON_ARRAY;
		p = *p == '[' ? scan_array(j, p, depth + 1) :
			json_object(j, p, &no_keys, &none, NULL, depth + 1);
		v->flags = 0;
		v->text = start;
		v->len = p ? p - start : 0;
		return p;
	default:
		return scan_number(j, p, v);
	}
}
