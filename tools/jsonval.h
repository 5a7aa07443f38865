/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_JSONVAL_H
#define GPUTRACE_TOOLS_JSONVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/json.h"

/*
 * What a scanned value means.  Numbers are read by integer arithmetic from
 * their decimal text: no floating point, no locale, no digit lost.
 */

/* An integer without fraction or exponent that fits.  Returns false if the
 * value is anything else. */
bool jsonval_int(const struct json_value *v, int64_t *out);

/* A number times 10^power as an integer, half rounded away from zero: a time
 * in us becomes ns with power 3.  Returns false if it is no finite number or
 * does not fit. */
bool jsonval_scaled(const struct json_value *v, int power, int64_t *out);

/* A number that a double can hold (1e999 is not). */
bool jsonval_finite(const struct json_value *v);

/* Nearly the number, for comparisons with a tolerance. */
double jsonval_real(const struct json_value *v);

/* A string with its escapes resolved, cut at size - 1 bytes, NUL behind it.
 * Returns its length; the full length is at most v->len. */
size_t jsonval_string(const struct json_value *v, char *out, size_t size);

bool jsonval_is(const struct json_value *v, const char *text);

/* Of a string's resolved bytes: equal strings have equal hashes. */
uint64_t jsonval_hash(const struct json_value *v);

/* Steps through an array or object that has been scanned: *at starts NULL.
 * Returns false at its end.  key may be NULL for arrays. */
bool jsonval_next(const struct json_value *v, const char **at,
		  struct json_value *key, struct json_value *value);

/* A member of a scanned object; JSON_NONE if there is none.  Several, by one
 * walk over it: found[i] is that of keys[i]. */
struct json_value jsonval_member(const struct json_value *v, const char *key);
void jsonval_members(const struct json_value *v, const char *const *keys,
		     size_t nr, struct json_value *found);

int jsonval_hex(char c);        /* 0 .. 15, or -1 */

#endif
