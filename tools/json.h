/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_JSON_H
#define GPUTRACE_TOOLS_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A JSON scanner over bytes in memory.  It builds nothing: a value is a place
 * in the text, checked against the grammar and stepped over.
 *
 * - The text ends with a NUL byte at `end`, and JSON_PAD readable bytes follow:
 *   the loops need no other bound.
 * - What breaks the grammar ends the scan (NULL, `why` and `at` say the cause).
 *   Running into `end` is `why == json_cut`: the caller may have more bytes.
 * - What strict readers refuse but a reader can step over is a fault: a bit in
 *   `faults`, its first place in `fault_at`.  Two of them cost time and are
 *   looked for only if `strict` is set: JSON_BAD_UTF8 and JSON_KEY_TWICE.
 * - Nesting is limited to JSON_DEPTH: a hostile file cannot exhaust the stack.
 */
#define JSON_PAD 64
#define JSON_DEPTH 512

enum json_type {
	JSON_NONE, JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING,
	JSON_ARRAY, JSON_OBJECT,
};

enum json_flag {
	JSON_ESCAPED = 1,       /* a string with a backslash */
	JSON_HIGH = 2,          /* a string with bytes above 0x7f */
	JSON_REAL = 4,          /* a number with a fraction or an exponent */
	JSON_NONFINITE = 8,     /* NaN, Infinity */
};

enum json_fault {
	JSON_FAULT_NONFINITE, JSON_FAULT_CONTROL, JSON_FAULT_UTF8,
	JSON_FAULT_SURROGATE, JSON_FAULT_TWICE, JSON_FAULTS,
};

struct json_value {
	const char *text;       /* of a string: behind the quote */
	uint32_t len;           /* bytes; of a string: without its quotes */
	uint8_t type;           /* enum json_type */
	uint8_t flags;          /* enum json_flag */
};

struct json {
	const char *end;        /* where the NUL is */
	const char *at;         /* of the error */
	const char *why;        /* what is wrong there */
	bool strict;
	unsigned faults;        /* bits, 1 << enum json_fault */
	const char *fault_at[JSON_FAULTS];
	uint64_t *keys;         /* hashes of the keys of open objects */
	size_t nr_keys, keys_cap;
};

struct json_keys;

/* The members of one object whose keys are in a list. */
struct json_members {
	uint64_t have;          /* bit i: value[i] is set */
	unsigned nr;            /* members, known and unknown */
	bool numbers_only;      /* every value is a finite number */
	struct json_value *value;
};

extern const char json_cut[];

void json_fini(struct json *j);

static inline const char *json_space(const char *p)
{
	while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')
		p++;
	return p;
}

/* Steps over the value that begins at p (no space before it).  Returns the
 * byte behind it, or NULL. */
const char *json_scan(struct json *j, const char *p, struct json_value *v,
		      int depth);

/* The same for an object, of which the listed members are kept; of a key that
 * comes twice the last counts.  A value at nested_key that is an object is
 * kept too, in `nested` by its own list (either may be NULL). */
struct json_nested {
	unsigned key;
	struct json_keys *keys;
	struct json_members *members;
};
const char *json_object(struct json *j, const char *p,
			struct json_keys *keys, struct json_members *m,
			const struct json_nested *nested, int depth);

#endif
