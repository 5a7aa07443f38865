/* SPDX-License-Identifier: MIT */
#include "tools/jsonval.h"

#include <string.h>

#include "tools/utf8.h"

/* A number as digits * 10^exp.  19 digits always fit in 64 bits; what follows
 * them only moves the exponent. */
struct decimal {
	uint64_t digits;
	int exp;
	bool negative;
};

enum { MAX_DIGITS = 19, MAX_EXP = 100000 };

static const uint64_t power_of_10[MAX_DIGITS + 1] = {
	1ull, 10ull, 100ull, 1000ull, 10000ull, 100000ull, 1000000ull,
	10000000ull, 100000000ull, 1000000000ull, 10000000000ull,
	100000000000ull, 1000000000000ull, 10000000000000ull,
	100000000000000ull, 1000000000000000ull, 10000000000000000ull,
	100000000000000000ull, 1000000000000000000ull,
	10000000000000000000ull,
};

static const char *read_exponent(const char *p, const char *end, int *exp)
{
	bool negative = *p == '-';
	int n = 0;

	p += *p == '-' || *p == '+';
	for (; p < end; p++)
		if (n < MAX_EXP)
			n = n * 10 + (*p - '0');
	*exp += negative ? -n : n;
	return p;
}

/* Returns false for what is no finite number. */
static bool read_decimal(const struct json_value *v, struct decimal *d)
{
	const char *p = v->text, *end = v->text + v->len;
	bool fraction = false;
	int nr = 0;

	if (v->type != JSON_NUMBER || v->flags & JSON_NONFINITE)
		return false;
	d->digits = 0;
	d->exp = 0;
	d->negative = *p == '-';
	for (p += d->negative; p < end; p++) {
		if (*p == '.') {
			fraction = true;
		} else if (*p == 'e' || *p == 'E') {
			read_exponent(p + 1, end, &d->exp);
			break;
		} else if (nr < MAX_DIGITS) {
			d->digits = d->digits * 10 + (*p - '0');
			nr += d->digits != 0;
			d->exp -= fraction;
		} else {
			d->exp += !fraction;
		}
	}
	return true;
}

bool jsonval_int(const struct json_value *v, int64_t *out)
{
	const char *p = v->text, *end = v->text + v->len;
	uint64_t n = 0;
	bool negative;

	if (v->type != JSON_NUMBER || v->flags & JSON_REAL)
		return false;
	negative = *p == '-';
	p += negative;
	if (end - p > MAX_DIGITS)
		return false;
	while (p < end)
		n = n * 10 + (*p++ - '0');
	if (n > INT64_MAX)
		return false;
	*out = negative ? -(int64_t)n : (int64_t)n;
	return true;
}

/* digits * 10^exp, rounded; false if above INT64_MAX. */
static bool scale(uint64_t digits, int exp, uint64_t *out)
{
	uint64_t n = digits, unit, rest;

	for (; exp > 0 && n; exp--)
		if (__builtin_mul_overflow(n, 10, &n))
			return false;
	if (exp < -MAX_DIGITS) {
		n = 0;
	} else if (exp < 0) {
		unit = power_of_10[-exp];
		rest = n % unit;
		n = n / unit + (rest >= unit - rest);
	}
	*out = n;
	return n <= INT64_MAX;
}

/* "5116305776701.735": digits, a point, up to three digits; false for any
 * other form. */
static bool read_plain_us(const struct json_value *v, int64_t *ns)
{
	const char *p = v->text, *end = v->text + v->len;
	static const int64_t scale[] = { 1000, 100, 10, 1 };
	int64_t n = 0;
	int part = 0;

	if (v->len > 18)
		return false;
	for (; p < end && (unsigned char)(*p - '0') < 10; p++)
		n = n * 10 + (*p - '0');
	if (p < end && *p == '.')
		for (p++; p < end && (unsigned char)(*p - '0') < 10; part++)
			n = n * 10 + (*p++ - '0');
	if (p < end || part > 3)
		return false;
	/* 18 digits times 1000 would not fit */
	return !__builtin_mul_overflow(n, scale[part], ns);
}

bool jsonval_scaled(const struct json_value *v, int power, int64_t *out)
{
	struct decimal d;
	uint64_t n;

	if (power == 3 && v->type == JSON_NUMBER && read_plain_us(v, out))
		return true;
	if (!read_decimal(v, &d) || !scale(d.digits, d.exp + power, &n))
		return false;
	*out = d.negative ? -(int64_t)n : (int64_t)n;
	return true;
}

double jsonval_real(const struct json_value *v)
{
	struct decimal d;
	double x;

	if (!read_decimal(v, &d))
		return 0;
	x = d.digits;
	for (; d.exp > 0 && x && x < 1e308; d.exp--)
		x *= 10;
	for (; d.exp < 0 && x; d.exp++)
		x /= 10;
	return d.negative ? -x : x;
}

bool jsonval_finite(const struct json_value *v)
{
	struct decimal d;

	if (!read_decimal(v, &d))
		return false;
	if (!(v->flags & JSON_REAL))
		return true;
	while (d.digits && d.digits >= 10) {
		d.digits /= 10;
		d.exp++;
	}
	return !d.digits || d.exp <= 308;
}

int jsonval_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static uint32_t read_hex4(const char *p)
{
	uint32_t n = 0;

	for (int i = 0; i < 4; i++)
		n = n << 4 | jsonval_hex(p[i]);
	return n;
}

/* *p is behind \u; a pair of surrogates is one character, a lone one becomes
 * the replacement character. */
static uint32_t read_unicode(const char **p, const char *end)
{
	uint32_t c = read_hex4(*p), low;

	*p += 4;
	if (c < 0xd800 || c > 0xdfff)
		return c;
	if (c < 0xdc00 && end - *p >= 6 && (*p)[0] == '\\' &&
	    (*p)[1] == 'u') {
		low = read_hex4(*p + 2);
		if (low >= 0xdc00 && low <= 0xdfff) {
			*p += 6;
			return 0x10000 + ((c - 0xd800) << 10) + low - 0xdc00;
		}
	}
	return 0xfffd;
}

/* One character of a string, escaped or not; returns its bytes in `out`. */
static unsigned read_char(const char **p, const char *end, char out[4])
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *found;

	if (**p != '\\') {
		out[0] = *(*p)++;
		return 1;
	}
	*p += 2;
	if ((*p)[-1] == 'u')
		return utf8_encode(read_unicode(p, end), out);
	found = strchr(from, (*p)[-1]);
	out[0] = found ? to[found - from] : (*p)[-1];
	return 1;
}

size_t jsonval_string(const struct json_value *v, char *out, size_t size)
{
	const char *p = v->text, *end = p + v->len;
	size_t len = 0;
	char c[4];

	while (p < end) {
		unsigned n = read_char(&p, end, c);

		if (len + n >= size)
			break;
		memcpy(out + len, c, n);
		len += n;
	}
	out[len] = '\0';
	return len;
}

bool jsonval_is(const struct json_value *v, const char *text)
{
	return v->type == JSON_STRING && v->len == strlen(text) &&
		!memcmp(v->text, text, v->len);
}

uint64_t jsonval_hash(const struct json_value *v)
{
	const char *p = v->text, *end = p + v->len;
	uint64_t h = 0xcbf29ce484222325u;
	char c[4];

	while (p < end) {
		unsigned n = read_char(&p, end, c);

		for (unsigned i = 0; i < n; i++)
			h = (h ^ (unsigned char)c[i]) * 0x100000001b3u;
	}
	return h;
}

bool jsonval_next(const struct json_value *v, const char **at,
		  struct json_value *key, struct json_value *value)
{
	struct json j = { .end = v->text + v->len };
	const char *p;

	if (v->type != JSON_ARRAY && v->type != JSON_OBJECT)
		return false;
	p = json_space(*at ? *at : v->text + 1);
	if (*at && *p == ',')
		p = json_space(p + 1);
	if (*p == ']' || *p == '}')
		return false;
	if (v->type == JSON_OBJECT) {
		struct json_value ignored;

		p = json_scan(&j, p, key ? key : &ignored, 0);
		p = p ? json_space(json_space(p) + 1) : NULL;
	}
	*at = p ? json_scan(&j, p, value, 0) : NULL;
	return *at;
}

void jsonval_members(const struct json_value *v, const char *const *keys,
		     size_t nr, struct json_value *found)
{
	struct json_value name, value;
	const char *at = NULL;

	for (size_t i = 0; i < nr; i++)
		found[i] = (struct json_value){ .text = "" };
	if (v->type != JSON_OBJECT)
		return;
	while (jsonval_next(v, &at, &name, &value))
		for (size_t i = 0; i < nr; i++)
			if (jsonval_is(&name, keys[i]))
				found[i] = value;
}

struct json_value jsonval_member(const struct json_value *v, const char *key)
{
	struct json_value found;

	jsonval_members(v, &key, 1, &found);
	return found;
}
