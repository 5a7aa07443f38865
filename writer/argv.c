/* SPDX-License-Identifier: MIT */
#include "writer/argv.h"

#include <ctype.h>
#include <strings.h>

#include "collector/loss.h"
#include "writer/json.h"

/* An argument is a list of files now and then. */
enum { ARGUMENT_MAX = 4096, NAME_MAX_LEN = 128 };

static const char hidden[] = "***", more[] = "...";

static bool ends_with(const char *word, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && !strncasecmp(word + len - n, end, n);
}

static bool contains(const char *text, size_t len, const char *part)
{
	size_t n = strlen(part), i;

	for (i = 0; i + n <= len; i++)
		if (!strncasecmp(text + i, part, n))
			return true;
	return false;
}

/* One word of a name: "api", "key"; "apikey" too. */
static bool is_secret_word(const char *word, size_t len)
{
	static const char *const ends[] = {
		"token", "key", "secret", "passwd", "pwd", "passphrase",
		"credential", "credentials", "auth", "bearer", "pat",
	};
	size_t i;

	for (i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		/* Short ones stand alone: "path", "pattern" are none. */
		if (strlen(ends[i]) <= 3 && strcmp(ends[i], "key") ?
		    len == strlen(ends[i]) && ends_with(word, len, ends[i]) :
		    ends_with(word, len, ends[i]))
			return true;
	}
	return false;
}

static bool is_secret_name(const char *name, size_t len)
{
	size_t at = 0, end;

	if (len > NAME_MAX_LEN)
		return false;
	if (contains(name, len, "password") || contains(name, len, "secret"))
		return true;
	while (at < len) {
		end = at;
		while (end < len && isalnum((unsigned char)name[end]) &&
		       !(end > at && isupper((unsigned char)name[end]) &&
			 islower((unsigned char)name[end - 1])))
			end++;
		if (end > at && is_secret_word(name + at, end - at))
			return true;
		at = end > at && end < len &&
			isalnum((unsigned char)name[end]) ? end : end + 1;
	}
	return false;
}

/* scheme://user:PASSWORD@host: where the password stands. */
static bool find_password(const char *text, size_t len, size_t *from,
			  size_t *to)
{
	size_t at, colon = 0;

	for (at = 0; at + 3 <= len && memcmp(text + at, "://", 3); at++)
		;
	for (at += 3; at < len && !strchr("/?# ", text[at]); at++) {
		if (text[at] == ':' && !colon)
			colon = at + 1;
		if (text[at] == '@') {
			*from = colon;
			*to = at;
			return colon;
		}
	}
	return false;
}

static void add_parts(struct bytes *out, struct bytes *scratch,
		      const char *text, size_t from, size_t to, size_t len)
{
	bytes_clear(scratch);
	bytes_add(scratch, text, from);
	bytes_add(scratch, hidden, sizeof(hidden) - 1);
	bytes_add(scratch, text + to, len - to);
	json_string(out, scratch->data, scratch->len);
}

/* Returns true if the next argument is the value of this secret's name. */
static bool add_masked(struct bytes *out, struct bytes *scratch,
		       const char *text, size_t len)
{
	const char *equals = memchr(text, '=', len);
	size_t name_len = equals ? (size_t)(equals - text) : len;
	bool is_secret = is_secret_name(text, name_len);
	size_t from, to;

	if (equals && is_secret) {
		add_parts(out, scratch, text, name_len + 1, len, len);
	} else if (find_password(text, len, &from, &to)) {
		add_parts(out, scratch, text, from, to, len);
	} else {
		json_string(out, text, len);
		return is_secret && text[0] == '-';
	}
	return false;
}

/* The list stands in every tail. */
static void count_cut(void)
{
	static bool is_counted;

	if (!is_counted)
		loss_add(LOSS_TEXT_CUT, 1);
	is_counted = true;
}

/* What fits of an argument, whole characters, and a sign that it was more. */
static void shorten(struct bytes *out, const char *text)
{
	size_t len = ARGUMENT_MAX - 3;

	while (len > ARGUMENT_MAX - 6 &&
	       ((unsigned char)text[len] & 0xC0) == 0x80)
		len--;
	bytes_clear(out);
	bytes_add(out, text, len);
	bytes_add(out, more, sizeof(more) - 1);
	count_cut();
}

void argv_write(struct bytes *out, const char *cmdline, size_t len, bool mask)
{
	struct bytes scratch = { 0 }, cut = { 0 };
	bool is_value = false;
	const char *text;
	size_t at, n, next;

	json_open(out, '[');
	for (at = 0; at < len; at = next) {
		n = strnlen(cmdline + at, len - at);
		next = at + n + 1;
		text = cmdline + at;
		if (n > ARGUMENT_MAX) {
			shorten(&cut, text);
			text = cut.is_cut ? text : cut.data;
			n = cut.is_cut ? ARGUMENT_MAX : cut.len;
		}
		if (is_value && n && *text != '-') {
			json_text(out, hidden);
			is_value = false;
		} else if (mask) {
			is_value = add_masked(out, &scratch, text, n);
		} else {
			json_string(out, text, n);
		}
	}
	if (len >= ARGV_BYTES_MAX) {
		json_text(out, more);
		count_cut();
	}
	json_close(out, ']');
	bytes_fini(&scratch);
	bytes_fini(&cut);
}
