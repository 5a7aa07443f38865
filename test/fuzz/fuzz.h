/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TEST_FUZZ_H
#define GPUTRACE_TEST_FUZZ_H

/*
 * What the fuzzers share.  Each is one source that works in two ways: with
 * clang's -fsanitize=fuzzer (make fuzz) LLVMFuzzerTestOneInput() is the entry;
 * without, main() runs the files and folders that it is given (make check: the
 * kept corpus).  A fault is an abort().
 */
#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, \
				__LINE__, #condition); \
			abort(); \
		} \
	} while (0)

/* ---- The input, taken from its front; zeroes when it is used up ---- */

struct input {
	const uint8_t *at, *end;
};

static inline uint64_t take(struct input *in, unsigned int nr_bytes)
{
	uint64_t value = 0;

	while (nr_bytes-- && in->at < in->end)
		value = value << 8 | *in->at++;
	return value;
}

/* The next `len` bytes, or what is left of them. */
static inline const uint8_t *take_bytes(struct input *in, size_t *len)
{
	const uint8_t *from = in->at;

	if (*len > (size_t)(in->end - in->at))
		*len = (size_t)(in->end - in->at);
	in->at += *len;
	return from;
}

/* A copy with a zero behind it, to be freed: a text with its own bounds. */
static inline char *take_text(struct input *in, size_t len)
{
	const uint8_t *from = take_bytes(in, &len);
	char *text = malloc(len + 1);

	MUST(text);
	memcpy(text, from, len);
	text[len] = 0;
	return text;
}

/* ---- Strict JSON (RFC 8259) in strict UTF-8 (RFC 3629) ---- */

struct strict {
	const uint8_t *at, *end;
	int depth;
};

static inline bool strict_value(struct strict *in);

static inline void strict_space(struct strict *in)
{
	while (in->at < in->end && memchr(" \t\n\r", *in->at, 4))
		in->at++;
}

static inline bool strict_is(struct strict *in, char c)
{
	if (in->at == in->end || *in->at != (uint8_t)c)
		return false;
	in->at++;
	return true;
}

static inline bool strict_word(struct strict *in, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(in->end - in->at) < len || memcmp(in->at, word, len))
		return false;
	in->at += len;
	return true;
}

static inline bool strict_digits(struct strict *in)
{
	const uint8_t *from = in->at;

	while (in->at < in->end && *in->at >= '0' && *in->at <= '9')
		in->at++;
	return in->at > from;
}

static inline bool strict_number(struct strict *in)
{
	(void)strict_is(in, '-');
	if (!strict_is(in, '0') && !strict_digits(in))
		return false;
	if (strict_is(in, '.') && !strict_digits(in))
		return false;
	if (strict_is(in, 'e') || strict_is(in, 'E')) {
		(void)(strict_is(in, '+') || strict_is(in, '-'));
		return strict_digits(in);
	}
	return true;
}

static inline bool strict_escape(struct strict *in)
{
	int i;

	if (in->at == in->end)
		return false;
	if (memchr("\"\\/bfnrt", *in->at, 8)) {
		in->at++;
		return true;
	}
	if (!strict_is(in, 'u') || in->end - in->at < 4)
		return false;
	for (i = 0; i < 4; i++)
		if (!memchr("0123456789abcdefABCDEF", *in->at++, 22))
			return false;
	return true;
}

/* One character beyond ASCII. */
static inline bool strict_utf8(struct strict *in)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c = *in->at, len = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2, i;

	if (c < 0xC0 || c > 0xF7 || (size_t)(in->end - in->at) < len)
		return false;
	c &= 0x7Fu >> len;
	for (i = 1; i < len; i++) {
		if ((in->at[i] & 0xC0) != 0x80)
			return false;
		c = c << 6 | (in->at[i] & 0x3F);
	}
	in->at += len;
	return c >= least[len] && c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
}

static inline bool strict_string(struct strict *in)
{
	if (!strict_is(in, '"'))
		return false;
	while (in->at < in->end) {
		if (strict_is(in, '"'))
			return true;
		if (strict_is(in, '\\')) {
			if (!strict_escape(in))
				return false;
		} else if (*in->at >= 0x80) {
			if (!strict_utf8(in))
				return false;
		} else if (*in->at++ < 0x20) {
			return false;
		}
	}
	return false;
}

static inline bool strict_members(struct strict *in, bool has_keys, char close)
{
	strict_space(in);
	if (strict_is(in, close))
		return true;
	do {
		strict_space(in);
		if (has_keys) {
			if (!strict_string(in))
				return false;
			strict_space(in);
			if (!strict_is(in, ':'))
				return false;
		}
		if (!strict_value(in))
			return false;
	} while (strict_is(in, ','));
	return strict_is(in, close);
}

static inline bool strict_value(struct strict *in)
{
	bool good;

	strict_space(in);
	if (in->at == in->end || in->depth++ > 100)
		return false;
	if (strict_is(in, '{'))
		good = strict_members(in, true, '}');
	else if (strict_is(in, '['))
		good = strict_members(in, false, ']');
	else if (*in->at == '"')
		good = strict_string(in);
	else
		good = strict_word(in, "true") || strict_word(in, "false") ||
			strict_word(in, "null") || strict_number(in);
	in->depth--;
	strict_space(in);
	return good;
}

static inline bool is_strict_json(const void *text, size_t len)
{
	struct strict in = { text, (const uint8_t *)text + len, 0 };

	return strict_value(&in) && in.at == in.end;
}

/* ---- The kept corpus ---- */

static inline long fuzz_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *bytes = NULL;
	size_t size = 0, n;

	if (!file) {
		perror(path);
		exit(EXIT_FAILURE);
	}
	do {
		bytes = realloc(bytes, size + 65536);
		MUST(bytes);
		n = fread(bytes + size, 1, 65536, file);
		size += n;
	} while (n);
	fclose(file);
	/* With nothing behind it: a read beyond is seen. */
	bytes = realloc(bytes, size ? size : 1);
	MUST(bytes);
	fprintf(stderr, "%s\n", path);  /* the last one is the culprit */
	LLVMFuzzerTestOneInput(bytes, size);
	free(bytes);
	return 1;
}

static inline long fuzz_path(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	char inside[4096];
	long nr = 0;

	if (!folder)
		return fuzz_file(path);
	while ((entry = readdir(folder))) {
		snprintf(inside, sizeof(inside), "%s/%s", path, entry->d_name);
		if (entry->d_name[0] != '.')
			nr += fuzz_file(inside);
	}
	closedir(folder);
	return nr;
}

#if !defined(LIBFUZZER) && !defined(FUZZ_OWN_MAIN)
int main(int argc, char **argv)
{
	long nr = 0;

	/* Nothing at all is an input, too. */
	LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	while (--argc)
		nr += fuzz_path(*++argv);
	printf("%ld inputs\n", nr);
	return EXIT_SUCCESS;
}
#endif

#endif
