/* SPDX-License-Identifier: MIT */
#include "writer/json.h"

#include <math.h>
#include <stdio.h>

static const char digits2[] =
	"00010203040506070809101112131415161718192021222324"
	"25262728293031323334353637383940414243444546474849"
	"50515253545556575859606162636465666768697071727374"
	"75767778798081828384858687888990919293949596979899";

static const char hex[] = "0123456789abcdef";

/* U+FFFD, the replacement character. */
static const char replacement[] = "\xEF\xBF\xBD";

/* Decimal digits of a value: bits * log10(2) is right or one too few. */
static unsigned int nr_digits(uint64_t value)
{
	static const uint64_t powers[] = {
		0, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000,
		1000000000, 10000000000, 100000000000, 1000000000000,
		10000000000000, 100000000000000, 1000000000000000,
		10000000000000000, 100000000000000000, 1000000000000000000,
		10000000000000000000u,
	};
	unsigned int bits = 64 - (unsigned int)__builtin_clzll(value | 1);
	unsigned int less = bits * 1233 >> 12;  /* 1233 / 4096: log10(2) */

	return less + (value >= powers[less]);
}

char *json_put_u64(char *to, uint64_t value)
{
	unsigned int len = value ? nr_digits(value) : 1;
	char *at = to + len;

	while (value >= 100) {
		at -= 2;
		memcpy(at, digits2 + 2 * (value % 100), 2);
		value /= 100;
	}
	if (value >= 10)
		memcpy(to, digits2 + 2 * value, 2);
	else
		*to = (char)('0' + value);
	return to + len;
}

char *json_put_us(char *to, uint64_t ns)
{
	uint32_t rest = (uint32_t)(ns % 1000);

	to = json_put_u64(to, ns / 1000);
	to[0] = '.';
	to[1] = (char)('0' + rest / 100);
	memcpy(to + 2, digits2 + 2 * (rest % 100), 2);
	return to + 4;
}

void json_comma(struct bytes *out)
{
	char last = out->len ? out->data[out->len - 1] : '[';

	if (!strchr("{[:,\n", last))
		bytes_add(out, ",", 1);
}

void json_open(struct bytes *out, char bracket)
{
	json_comma(out);
	bytes_add(out, &bracket, 1);
}

void json_close(struct bytes *out, char bracket)
{
	bytes_add(out, &bracket, 1);
}

/* Length of the well-formed UTF-8 sequence at `text`, or 0: no overlong
 * forms, no surrogates, nothing above U+10FFFF (RFC 3629, section 4). */
static size_t utf8_len(const unsigned char *text, size_t len)
{
	unsigned char low = 0x80, high = 0xBF;
	size_t need, i;

	if (text[0] < 0xC2 || text[0] > 0xF4)
		return 0;
	need = text[0] < 0xE0 ? 2 : text[0] < 0xF0 ? 3 : 4;
	if (len < need)
		return 0;
	if (text[0] == 0xE0)
		low = 0xA0;
	else if (text[0] == 0xED)
		high = 0x9F;
	else if (text[0] == 0xF0)
		low = 0x90;
	else if (text[0] == 0xF4)
		high = 0x8F;
	if (text[1] < low || text[1] > high)
		return 0;
	for (i = 2; i < need; i++)
		if ((text[i] & 0xC0) != 0x80)
			return 0;
	return need;
}

/* The valid bytes from `text` on: len if all are. */
static size_t valid_len(const char *text, size_t len)
{
	size_t at = 0, n;

	while (at < len) {
		n = (unsigned char)text[at] < 0x80 ? 1 :
			utf8_len((const unsigned char *)text + at, len - at);
		if (!n)
			break;
		at += n;
	}
	return at;
}

bool json_is_utf8(const char *text, size_t len)
{
	return valid_len(text, len) == len;
}

void json_add_utf8(struct bytes *out, const char *text, size_t len)
{
	size_t n;

	while (len) {
		n = valid_len(text, len);
		bytes_add(out, text, n);
		if (n == len)
			return;
		bytes_add(out, replacement, 3);
		text += n + 1;
		len -= n + 1;
	}
}

static char *put_escape(char *to, unsigned char byte)
{
	static const char short_form[] = "\bb\ff\nn\rr\tt\"\"\\\\";
	const char *at;

	*to++ = '\\';
	for (at = short_form; *at; at += 2) {
		if ((unsigned char)*at == byte) {
			*to++ = at[1];
			return to;
		}
	}
	memcpy(to, "u00", 3);
	to[3] = hex[byte >> 4];
	to[4] = hex[byte & 15];
	return to + 5;
}

static char *put_string(char *to, const char *text, size_t len)
{
	const unsigned char *from = (const unsigned char *)text;
	const unsigned char *end = from + len;
	size_t n;

	while (from < end) {
		if (*from >= 0x20 && *from < 0x7F && *from != '"' &&
		    *from != '\\') {
			*to++ = (char)*from++;
		} else if (*from < 0x80) {
			to = put_escape(to, *from++);
		} else {
			n = utf8_len(from, (size_t)(end - from));
			memcpy(to, n ? (const char *)from : replacement,
			       n ? n : 3);
			to += n ? n : 3;
			from += n ? n : 1;
		}
	}
	return to;
}

static void add_string(struct bytes *out, const char *text, size_t len)
{
	char *to = bytes_room(out, len * JSON_ESCAPED + 2);

	if (!to)
		return;
	*to++ = '"';
	to = put_string(to, text, len);
	*to++ = '"';
	bytes_end(out, to);
}

void json_string(struct bytes *out, const char *text, size_t len)
{
	json_comma(out);
	add_string(out, text, len);
}

void json_text(struct bytes *out, const char *text)
{
	json_string(out, text, strlen(text));
}

void json_key(struct bytes *out, const char *key)
{
	json_comma(out);
	add_string(out, key, strlen(key));
	bytes_add(out, ":", 1);
}

void json_hole(struct bytes *out)
{
	bytes_add(out, ",", 1);
}

void json_u64(struct bytes *out, uint64_t value)
{
	char *to;

	json_comma(out);
	to = bytes_room(out, JSON_U64_MAX);
	if (to)
		bytes_end(out, json_put_u64(to, value));
}

void json_i64(struct bytes *out, int64_t value)
{
	char *to;

	json_comma(out);
	to = bytes_room(out, JSON_U64_MAX + 1);
	if (!to)
		return;
	if (value < 0)
		*to++ = '-';
	bytes_end(out, json_put_u64(to, value < 0 ? 0 - (uint64_t)value :
						    (uint64_t)value));
}

void json_us(struct bytes *out, uint64_t ns)
{
	char *to;

	json_comma(out);
	to = bytes_room(out, JSON_US_MAX);
	if (to)
		bytes_end(out, json_put_us(to, ns));
}

void json_bool(struct bytes *out, bool value)
{
	json_comma(out);
	bytes_add(out, value ? "true" : "false", value ? 4 : 5);
}

/* snprintf() writes the locale's decimal point, which may be several bytes:
 * whatever is no part of a number is it. */
static size_t unlocalise(char *text)
{
	const char *from;
	char *to = text;

	for (from = text; *from; from++) {
		if (strchr("0123456789+-e", *from))
			*to++ = *from;
		else if (to == text || to[-1] != '.')
			*to++ = '.';
	}
	return (size_t)(to - text);
}

void json_double(struct bytes *out, double value)
{
	char text[64];

	if (isnan(value)) {
		json_text(out, "NaN");
	} else if (isinf(value)) {
		json_text(out, value < 0 ? "-Infinity" : "Infinity");
	} else {
		json_comma(out);
		/* 17 digits bring every double back exactly. */
		snprintf(text, sizeof(text), "%.17g", value);
		bytes_add(out, text, unlocalise(text));
	}
}

void json_ratio(struct bytes *out, uint64_t numerator, uint64_t denominator)
{
	unsigned __int128 scaled = (unsigned __int128)numerator * 1000000;
	uint64_t rest, i, unit = 100000;
	char *to;

	scaled = (scaled + denominator / 2) / denominator;
	json_comma(out);
	to = bytes_room(out, JSON_U64_MAX + 8);
	if (!to)
		return;
	to = json_put_u64(to, (uint64_t)(scaled / 1000000));
	rest = (uint64_t)(scaled % 1000000);
	*to++ = '.';
	for (i = 0; i < 6; i++, unit /= 10)
		*to++ = (char)('0' + rest / unit % 10);
	bytes_end(out, to);
}

void json_members(struct bytes *out, const char *members, size_t len)
{
	json_comma(out);
	bytes_add(out, members, len);
}

void json_member_u64(struct bytes *out, const char *key, uint64_t value)
{
	json_key(out, key);
	json_u64(out, value);
}

void json_member_i64(struct bytes *out, const char *key, int64_t value)
{
	json_key(out, key);
	json_i64(out, value);
}

void json_member_text(struct bytes *out, const char *key, const char *text)
{
	json_key(out, key);
	json_text(out, text);
}

void json_next_event(struct bytes *out)
{
	bytes_add(out, JSON_NEXT, sizeof(JSON_NEXT) - 1);
}

static void add_text(struct bytes *out, const char *text)
{
	bytes_add(out, text, strlen(text));
}

void json_begin_document(struct bytes *out, uint64_t base_ns, uint32_t rank,
			 uint32_t world_size, uint32_t local_rank)
{
	json_open(out, '{');
	json_member_u64(out, "schemaVersion", 1);
	json_member_text(out, "displayTimeUnit", "ms");
	json_member_u64(out, "baseTimeNanoseconds", base_ns);
	json_key(out, "distributedInfo");
	/* HTA finds the rank by `"rank":` with white space behind it. */
	add_text(out, "{\"rank\": ");
	bytes_room(out, JSON_U64_MAX);
	if (!out->is_cut)
		bytes_end(out, json_put_u64(out->data + out->len, rank));
	json_member_u64(out, "world_size", world_size);
	json_member_u64(out, "local_rank", local_rank);
	json_member_text(out, "backend", "nccl");
	json_close(out, '}');
	json_key(out, "traceEvents");
	add_text(out, "[\n");
}

void json_end_events(struct bytes *out)
{
	add_text(out, "\n]");
}

void json_end_document(struct bytes *out)
{
	add_text(out, "}\n");
}
