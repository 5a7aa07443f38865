/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_JSON_H
#define GPUTRACE_WRITER_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/bytes.h"

/*
 * The only place that knows JSON's punctuation.  What comes out is strict
 * JSON whatever goes in: strings are made UTF-8 (a byte that is none becomes
 * U+FFFD), control characters are escaped, numbers never depend on a locale,
 * and a comma is put wherever the byte before asks for one.
 *
 * The functions on `struct bytes` are for anything; those on `char *` are for
 * the hot path: the caller has made room, they return where they stopped.
 */
#define JSON_U64_MAX 20         /* digits of 2^64 - 1 */
#define JSON_US_MAX 21          /* the same with a point in it */
#define JSON_ESCAPED 6          /* one byte becomes at most \u00xx */

void json_open(struct bytes *out, char bracket);
void json_close(struct bytes *out, char bracket);

/* Separates from what stands before, if that is a value. */
void json_comma(struct bytes *out);
void json_key(struct bytes *out, const char *key);

void json_string(struct bytes *out, const char *text, size_t len);

/* Whether a string goes out as it is; and as what it goes out, unescaped. */
bool json_is_utf8(const char *text, size_t len);
void json_add_utf8(struct bytes *out, const char *text, size_t len);
void json_text(struct bytes *out, const char *text);
void json_u64(struct bytes *out, uint64_t value);
void json_i64(struct bytes *out, int64_t value);
void json_bool(struct bytes *out, bool value);

/* A finite number, or the strings "NaN", "Infinity", "-Infinity". */
void json_double(struct bytes *out, double value);

/* numerator / denominator with 6 digits behind the point; denominator > 0. */
void json_ratio(struct bytes *out, uint64_t numerator, uint64_t denominator);

/* Nanoseconds as microseconds: "12.345". */
void json_us(struct bytes *out, uint64_t ns);

/* Members of an object that are JSON already. */
void json_members(struct bytes *out, const char *members, size_t len);

/* "key": value, for the members that repeat. */
void json_member_u64(struct bytes *out, const char *key, uint64_t value);
void json_member_i64(struct bytes *out, const char *key, int64_t value);
void json_member_text(struct bytes *out, const char *key, const char *text);

/* Between two events of traceEvents: each has a line of its own. */
void json_next_event(struct bytes *out);

/* The document around the events: everything up to and including the bracket
 * of traceEvents; rank_first is what a search for `"rank": N` must find. */
void json_begin_document(struct bytes *out, uint64_t base_ns, uint32_t rank,
			 uint32_t world_size, uint32_t local_rank);
void json_end_events(struct bytes *out);
void json_end_document(struct bytes *out);

char *json_put_u64(char *to, uint64_t value);
char *json_put_us(char *to, uint64_t ns);

/*
 * Pieces of events that are cut where numbers change, so that a hot event is
 * a few copies and numbers:
 *
 *   {"ph":"X",...,"ts":  N  ,"dur":  N  ,"args":{ ... "correlation":  N ...}}
 *   ^ head               ^ JSON_DUR       ^ tail
 */
#define JSON_NEXT ",\n"
#define JSON_DUR ",\"dur\":"
#define JSON_ARROW_START JSON_NEXT "{\"ph\":\"s\",\"cat\":\"ac2g\"," \
	"\"name\":\"ac2g\",\"id\":"
#define JSON_ARROW_END JSON_NEXT "{\"ph\":\"f\",\"bp\":\"e\"," \
	"\"cat\":\"ac2g\",\"name\":\"ac2g\",\"id\":"
#define JSON_TS ",\"ts\":"
#define JSON_END "}"
#define JSON_END_ARGS "}}"
#define JSON_NODE ",\"graph node id\":"
#define JSON_NOT_TRACED ",\"launch not traced\":true"
#define JSON_BEFORE_LAUNCH ",\"before launch ns\":"
#define JSON_EXTERNAL_ID ",\"External id\":"
#define JSON_RESULT ",\"result\":"

#define json_put(to, literal) \
	((char *)memcpy(to, literal, sizeof(literal) - 1) + sizeof(literal) - 1)

/* A value will be put in here, behind json_key(); what follows begins with
 * its comma. */
void json_hole(struct bytes *out);

#endif
