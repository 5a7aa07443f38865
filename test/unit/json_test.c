/* SPDX-License-Identifier: MIT */
/*
 * JSON: every byte, random bytes and every sequence of two come back through
 * python3's json as Python's own UTF-8 decoder understands them; numbers at
 * their edges, against snprintf() and by hand.
 */
#include "writer/json.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>

#include "test/check.h"

static struct bytes out;

static void expect(const char *want)
{
	bytes_add(&out, "", 1);
	if (strcmp(out.data, want)) {
		fprintf(stderr, "got %s, want %s\n", out.data, want);
		check_failures++;
	}
	bytes_clear(&out);
}

static void test_integers(void)
{
	char want[32];
	uint64_t value = 1;
	int i, k;

	for (i = 0; i < 64; i++) {
		for (k = -2; k <= 2; k++) {
			uint64_t v = (UINT64_C(1) << i) + (uint64_t)(int64_t)k;

			json_u64(&out, v);
			snprintf(want, sizeof(want), "%" PRIu64, v);
			expect(want);
			json_i64(&out, (int64_t)v);
			snprintf(want, sizeof(want), "%" PRId64, (int64_t)v);
			expect(want);
		}
	}
	for (i = 0; i < 20; i++, value *= 10) {
		for (k = -1; k <= 1; k++) {
			json_u64(&out, value + (uint64_t)(int64_t)k);
			snprintf(want, sizeof(want), "%" PRIu64,
				 value + (uint64_t)(int64_t)k);
			expect(want);
		}
	}
}

static void test_times(void)
{
	static const struct {
		uint64_t ns;
		const char *want;
	} table[] = {
		{ 0, "0.000" }, { 1, "0.001" }, { 999, "0.999" },
		{ 1000, "1.000" }, { 1001, "1.001" }, { 12345678, "12345.678" },
		{ 1000010, "1000.010" },
		{ UINT64_MAX, "18446744073709551.615" },
	};
	size_t i;

	for (i = 0; i < sizeof(table) / sizeof(*table); i++) {
		json_us(&out, table[i].ns);
		expect(table[i].want);
	}
}

static void test_ratios(void)
{
	json_ratio(&out, 4096, 10000);
	expect("0.409600");
	json_ratio(&out, 1, 3);
	expect("0.333333");
	json_ratio(&out, 2, 3);
	expect("0.666667");
	json_ratio(&out, 999999999, 1000000000);
	expect("1.000000");
	json_ratio(&out, UINT64_MAX, 1);
	expect("18446744073709551615.000000");
	json_ratio(&out, 0, 7);
	expect("0.000000");
}

static void test_doubles(void)
{
	json_double(&out, 0.5);
	expect("0.5");
	json_double(&out, -1e300);
	expect("-1.0000000000000001e+300");
	json_double(&out, NAN);
	expect("\"NaN\"");
	json_double(&out, -INFINITY);
	expect("\"-Infinity\"");
	/* A locale with a comma, where there is one. */
	if (setlocale(LC_NUMERIC, "de_DE.UTF-8") ||
	    setlocale(LC_NUMERIC, "fr_FR.UTF-8")) {
		json_double(&out, 0.5);
		expect("0.5");
		setlocale(LC_NUMERIC, "C");
	}
}

static void test_commas(void)
{
	json_open(&out, '{');
	json_member_u64(&out, "a", 1);
	json_key(&out, "b");
	json_open(&out, '[');
	json_u64(&out, 1);
	json_bool(&out, false);
	json_open(&out, '{');
	json_close(&out, '}');
	json_text(&out, "x,");
	json_text(&out, "[");
	json_close(&out, ']');
	json_member_text(&out, "c", "");
	json_close(&out, '}');
	expect("{\"a\":1,\"b\":[1,false,{},\"x,\",\"[\"],\"c\":\"\"}");
}

/* Python reads pairs of lines: the bytes in hexadecimal, the JSON string. */
static const char judge[] =
	"import json, sys\n"
	"bad = n = 0\n"
	"for line in sys.stdin.buffer:\n"
	"    raw, text = line.rstrip(b'\\n').split(b' ', 1)\n"
	"    raw = bytes.fromhex(raw.decode())\n"
	"    want = raw.decode('utf-8', 'replace')\n"
	"    got = json.loads(text.decode('utf-8', 'strict'))\n"
	"    strip = lambda s: s.replace('\\ufffd', '')\n"
	"    n += 1\n"
	"    good = strip(got) == strip(want) and (got == raw.decode('utf-8')\n"
	"        if '\\ufffd' not in want else '\\ufffd' in got)\n"
	"    if not good or any(c < 32 or c == 127 for c in text):\n"
	"        bad += 1\n"
	"        print(raw, text, got, want, file=sys.stderr)\n"
	"sys.exit(bad > 0 or n < 60000)\n";

static void send(FILE *file, const unsigned char *text, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		fprintf(file, "%02x", text[i]);
	json_string(&out, (const char *)text, len);
	fprintf(file, " %.*s\n", (int)out.len, out.data);
	bytes_clear(&out);
}

static void test_strings(void)
{
	unsigned char text[64];
	uint64_t random = 88172645463325252;
	unsigned int i, k;
	char command[2048];
	FILE *file;

	snprintf(command, sizeof(command), "python3 -c \"%s\"", judge);
	file = popen(command, "w");
	CHECK(file);
	send(file, text, 0);
	for (i = 0; i < 65536; i++) {
		text[0] = (unsigned char)(i >> 8);
		text[1] = (unsigned char)i;
		send(file, text, 2);
	}
	for (i = 0; i < 256; i++) {
		text[0] = (unsigned char)i;
		send(file, text, 1);
	}
	for (i = 0; i < 20000; i++) {
		for (k = 0; k < sizeof(text); k++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			/* Mostly bytes that begin or go on with UTF-8. */
			text[k] = (unsigned char)(random >> 32);
			if (k % 3)
				text[k] |= 0x80;
		}
		send(file, text, random % sizeof(text));
	}
	CHECK_EQ(pclose(file), 0);
}

int main(void)
{
	test_integers();
	test_times();
	test_ratios();
	test_doubles();
	test_commas();
	test_strings();
	bytes_fini(&out);
	return check_result();
}
