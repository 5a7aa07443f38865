/* SPDX-License-Identifier: MIT */
/*
 * The JSON writer: strings of any bytes, numbers of any bits, command lines,
 * paths.  What comes out is strict JSON; a text that is good UTF-8 comes back
 * from it byte for byte.
 */
#include "test/fuzz/fuzz.h"
#include "writer/argv.h"
#include "writer/json.h"
#include "writer/path.h"

static unsigned int hex(const uint8_t *at)
{
	char text[5] = { (char)at[0], (char)at[1], (char)at[2], (char)at[3] };

	return (unsigned int)strtoul(text, NULL, 16);
}

/* The text of a JSON string (without its quotes), written over it. */
static size_t undo(uint8_t *text, size_t len)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	size_t out = 0, i;

	for (i = 0; i < len; i++) {
		if (text[i] != '\\') {
			text[out++] = text[i];
			continue;
		}
		i++;
		if (text[i] == 'u') {
			MUST(hex(text + i + 1) < 0x80);
			text[out++] = (uint8_t)hex(text + i + 1);
			i += 4;
		} else {
			const char *at = strchr(from, text[i]);

			text[out++] = at ? (uint8_t)to[at - from] : text[i];
		}
	}
	return out;
}

static bool is_utf8(const uint8_t *text, size_t len)
{
	struct strict in = { text, text + len, 0 };

	while (in.at < in.end)
		if (*in.at < 0x80)
			in.at++;
		else if (!strict_utf8(&in))
			return false;
	return true;
}

static void string(const uint8_t *text, size_t len)
{
	struct bytes out = { 0 };
	size_t got;

	json_string(&out, (const char *)text, len);
	MUST(!out.is_cut && is_strict_json(out.data, out.len));
	got = undo((uint8_t *)out.data + 1, out.len - 2);
	if (is_utf8(text, len))
		MUST(got == len && !memcmp(out.data + 1, text, len));
	bytes_fini(&out);
}

static void numbers(struct input in)
{
	struct bytes out = { 0 };
	uint64_t a = take(&in, 8), b = take(&in, 8);
	double number;

	memcpy(&number, &a, sizeof(number));
	json_open(&out, '[');
	json_double(&out, number);
	json_u64(&out, a);
	json_i64(&out, (int64_t)a);
	json_us(&out, a);
	json_ratio(&out, a, b ? b : 1);
	json_close(&out, ']');
	MUST(is_strict_json(out.data, out.len));
	bytes_fini(&out);
}

static void command_line(const uint8_t *text, size_t len)
{
	struct bytes out = { 0 };
	int mask;

	for (mask = 0; mask < 2; mask++) {
		bytes_clear(&out);
		argv_write(&out, (const char *)text, len, mask);
		MUST(is_strict_json(out.data, out.len));
	}
	bytes_fini(&out);
}

static void path(struct input in)
{
	struct path_values values = { .pid = 4194304, .rank = 7,
		.start_ns = take(&in, 8) };
	char *host = take_text(&in, take(&in, 1) % 128);
	char *pattern = take_text(&in, SIZE_MAX);
	char out[300], inserted[310];
	bool is_pattern;

	values.host = host;
	values.program = host;
	if (!path_expand(pattern, &values, out, sizeof(out), &is_pattern)) {
		MUST(strlen(out) < sizeof(out));
		if (!path_insert(out, "-2", inserted, sizeof(inserted)))
			MUST(strlen(inserted) == strlen(out) + 2);
	}
	free(host);
	free(pattern);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input in = { bytes, bytes + size };

	string(bytes, size);
	numbers(in);
	command_line(bytes, size);
	path(in);
	return 0;
}
