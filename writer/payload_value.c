/* SPDX-License-Identifier: MIT */
#include "writer/payload_value.h"

#include <stdio.h>
#include <wchar.h>

#include "collector/nvtx_text.h"
#include "writer/json.h"

uint64_t payload_u64(const uint8_t *at, uint32_t size)
{
	uint64_t value = 0;

	memcpy(&value, at, size < sizeof(value) ? size : sizeof(value));
	return value;
}

static int64_t read_i64(const uint8_t *at, uint32_t size)
{
	unsigned int unused = 64 - 8 * (size < 8 ? size : 8);

	return (int64_t)(payload_u64(at, size) << unused) >> unused;
}

/* Viewers hold 63 bits: what has more keeps its digits as a text. */
static void add_u64(struct bytes *out, uint64_t value)
{
	char text[JSON_U64_MAX];

	if (value <= INT64_MAX)
		json_u64(out, value);
	else
		json_string(out, text,
			    (size_t)(json_put_u64(text, value) - text));
}

/* IEEE 754 binary16: 10 bits behind the point, exponents from 2^-14; those of
 * a double have 1023 added, not 15, and lie at bit 52. */
static double half(uint64_t bits)
{
	uint64_t exponent = bits >> 10 & 31, fraction = bits & 1023, wide;
	double value = (double)fraction / (1 << 24);    /* subnormal */

	if (exponent == 31) {
		value = fraction ? __builtin_nan("") : __builtin_inf();
	} else if (exponent) {
		wide = (exponent - 15 + 1023) << 52 | fraction << 42;
		memcpy(&value, &wide, sizeof(value));
	}
	return bits >> 15 ? -value : value;
}

static void add_real(struct bytes *out, const struct schema_field *field,
		     const uint8_t *at)
{
	union {
		uint32_t bits;
		float f;
		double d;
		long double l;
	} value = { .bits = 0 };

	if (field->kind == FIELD_HALF) {
		json_double(out, half(payload_u64(at, 2)));
		return;
	}
	memcpy(&value, at, field->size);
	if (field->kind == FIELD_BFLOAT)        /* a float's upper half */
		value.bits <<= 16;
	if (field->size <= sizeof(float))
		json_double(out, (double)value.f);
	else
		json_double(out, field->size == sizeof(double) ? value.d :
			    (double)value.l);
}

void payload_hex(struct bytes *out, const uint8_t *at, size_t size,
		 bool is_number)
{
	static const char digits[] = "0123456789abcdef";
	char text[2 + 2 * PAYLOAD_BYTES_MAX] = "0x", *to = text + 2;
	size_t i;

	for (i = 0; i < size && i < PAYLOAD_BYTES_MAX; i++) {
		uint8_t byte = at[is_number ? size - 1 - i : i];

		bool is_first = is_number && to == text + 2;

		if (is_first && !byte && i + 1 < size)
			continue;
		if (!is_first || byte >> 4)
			*to++ = digits[byte >> 4];
		*to++ = digits[byte & 15];
	}
	json_string(out, text, (size_t)(to - text));
}

static void add_color(struct bytes *out, uint32_t color)
{
	char text[16];

	snprintf(text, sizeof(text), "#%08x", color);
	json_text(out, text);
}

void payload_text(struct bytes *out, const uint8_t *at, uint32_t size,
		  size_t count)
{
	wchar_t wide[PAYLOAD_BYTES_MAX / 2 + 1];
	char text[2 * PAYLOAD_BYTES_MAX];
	size_t i, len;

	if (size == 1) {
		json_string(out, (const char *)at, strnlen((const char *)at,
							   count));
		return;
	}
	for (i = 0; i < count && i < PAYLOAD_BYTES_MAX / 2; i++)
		wide[i] = (wchar_t)payload_u64(at + i * size, size);
	wide[i] = 0;
	len = nvtx_utf8(text, sizeof(text), wide);
	json_string(out, text, len);
}

static uint64_t mask_of(uint32_t size)
{
	return size < 8 ? (UINT64_C(1) << 8 * size) - 1 : UINT64_MAX;
}

/* "A|B" of flags that are set, and the bits that have no name. */
static void add_flags(struct bytes *out, const struct schema *schema,
		      uint64_t bits)
{
	struct bytes text = { 0 };
	char rest[24];
	uint32_t i;

	for (i = 0; i < schema->nr; i++) {
		const struct schema_value *flag = &schema->values[i];
		uint64_t set = flag->value & mask_of(schema->size);

		if (!flag->is_flag || !set || (bits & set) != set)
			continue;
		bits &= ~set;
		bytes_add(&text, "|", text.len != 0);
		bytes_add(&text, flag->name, flag->name_len);
	}
	snprintf(rest, sizeof(rest), "%s0x%llx", text.len ? "|" : "",
		 (unsigned long long)bits);
	if (bits || !text.len)
		bytes_add(&text, rest, strlen(rest));
	json_string(out, text.data, text.len);
	bytes_fini(&text);
}

/* Its name; a number that has none stays one. */
static void add_enum(struct bytes *out, const struct schema *schema,
		     const uint8_t *at)
{
	uint64_t value = payload_u64(at, schema->size);
	bool has_flags = false;
	uint32_t i;

	for (i = 0; i < schema->nr; i++) {
		const struct schema_value *known = &schema->values[i];

		if ((known->value & mask_of(schema->size)) == value &&
		    known->name_len) {
			json_string(out, known->name, known->name_len);
			return;
		}
		has_flags |= known->is_flag;
	}
	if (has_flags)
		add_flags(out, schema, value);
	else
		json_i64(out, read_i64(at, schema->size));
}

const struct nvtx_text *payload_string(const uint8_t *at)
{
	const struct nvtx_text *string = (const void *)(uintptr_t)
		payload_u64(at, sizeof(void *));

	return nvtx_string_is(string) ? string : NULL;
}

void payload_value(struct bytes *out, const struct schema_field *field,
		   const uint8_t *at)
{
	const struct nvtx_text *string;

	switch (field->kind) {
	case FIELD_SIGNED:
		json_i64(out, read_i64(at, field->size));
		break;
	case FIELD_CHAR:
		if (field->is_signed)
			json_i64(out, read_i64(at, field->size));
		else
			json_u64(out, payload_u64(at, field->size));
		break;
	case FIELD_UNSIGNED:
		add_u64(out, payload_u64(at, field->size));
		break;
	case FIELD_REAL:
	case FIELD_HALF:
	case FIELD_BFLOAT:
		add_real(out, field, at);
		break;
	case FIELD_COLOR:
		add_color(out, (uint32_t)payload_u64(at, 4));
		break;
	case FIELD_STRING:
		string = payload_string(at);
		json_string(out, string ? string->text : "",
			    string ? string->len : 0);
		break;
	case FIELD_ENUM:
		add_enum(out, field->of, at);
		break;
	default:
		payload_hex(out, at, field->size, true);
	}
}
