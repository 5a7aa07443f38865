/* SPDX-License-Identifier: MIT */
#include "inject/control_parse.h"

#include <stdio.h>
#include <string.h>

#include "inject/protocol.h"
#include "inject/settings.h"

/* A part of the line: one word, one key, one value. */
struct part {
	const char *text;
	size_t len;
};

/* What a value may be read into. */
struct value {
	char text[PROTOCOL_LINE_MAX];
	size_t len;
};

static bool is(struct part part, const char *word)
{
	return strlen(word) == part.len && !memcmp(part.text, word, part.len);
}

/* For a sentence: 40 bytes at most, and no order to a terminal. */
static const char *show(struct part part, char shown[41])
{
	size_t len = part.len < 40 ? part.len : 40;

	for (size_t i = 0; i < len; i++)
		shown[i] = part.text[i] < ' ' || part.text[i] > '~' ? '?' :
			part.text[i];
	shown[len] = 0;
	return shown;
}

static int hex(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c | 0x20) : NULL;

	return at && (c > '9' || (c >= '0' && c <= '9')) ?
		(int)(at - digits) : -1;
}

/* %XX; a zero byte has no place in a value. */
static bool decode(struct part from, struct value *to)
{
	to->len = 0;
	for (size_t i = 0; i < from.len; i++) {
		int c = (unsigned char)from.text[i], high, low;

		if (c == '%') {
			high = i + 2 < from.len ? hex(from.text[i + 1]) : -1;
			low = high < 0 ? -1 : hex(from.text[i + 2]);
			if (low < 0)
				return false;
			c = high << 4 | low;
			i += 2;
		}
		if (!c || to->len + 1 >= sizeof to->text)
			return false;
		to->text[to->len++] = (char)c;
	}
	to->text[to->len] = 0;
	return true;
}

static bool parse_whole(const char *text, uint64_t *number)
{
	*number = 0;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || *number > UINT64_MAX / 10 - 1)
			return false;
		*number = *number * 10 + (uint64_t)(*text - '0');
	}
	return *number;
}

/* ---- The keys: each takes its value or says what one would be ---- */

static const char *take_setting(enum setting_id id, const char *text,
				uint64_t *number)
{
	static char why[1];

	if (setting_check(&settings_table[id], text, why, sizeof why))
		return id == SETTING_FLUSH ? "a duration such as 5s or 500ms" :
			"a list of " SOURCE_WORDS(" ");
	*number = setting_number(&settings_table[id], text);
	return NULL;
}

static const char *take_duration(struct request *to, const char *text)
{
	return take_setting(SETTING_FLUSH, text, &to->duration_ns);
}

static const char *take_trace(struct request *to, const char *text)
{
	return take_setting(SETTING_TRACE, text, &to->sources);
}

static const char *take_at(struct request *to, const char *text)
{
	return parse_whole(text, &to->at_ns) ? NULL :
		"a time in nanoseconds since 1970";
}

static const char *take_path(struct request *to, const char *text)
{
	if (!*text || strlen(text) >= sizeof to->path)
		return "a path of at most 4095 bytes";
	strcpy(to->path, text);
	return NULL;
}

static const char *take_fd(struct request *to, const char *text)
{
	to->has_fd = true;
	return strcmp(text, "1") ? "1, with one descriptor (SCM_RIGHTS)" :
		NULL;
}

static const char *take_format(struct request *to, const char *text)
{
	to->is_gz = !strcmp(text, "gz");
	return to->is_gz || !strcmp(text, "json") ? NULL : "gz or json";
}

static const char *take_window(struct request *to, const char *text)
{
	uint64_t number;

	if (!parse_whole(text, &number) || number > INT32_MAX)
		return "the number of a window";
	to->window = (uint32_t)number;
	return NULL;
}

#define OF(verb) (1u << REQUEST_##verb)

enum { KEY_FORMAT, NR_KEYS = 7 };

static const struct key {
	const char *name;
	unsigned int verbs;     /* that know it */
	const char *(*take)(struct request *to, const char *text);
} keys[NR_KEYS] = {
	[KEY_FORMAT] = { "format", OF(START) | OF(DUMP), take_format },
	{ "duration", OF(START), take_duration },
	{ "trace", OF(START), take_trace },
	{ "at", OF(START), take_at },
	{ "path", OF(START) | OF(DUMP), take_path },
	{ "fd", OF(START) | OF(DUMP), take_fd },
	{ "window", OF(WAIT), take_window },
};

static const char *const verbs[] = {
	[REQUEST_START] = "start", [REQUEST_WAIT] = "wait",
	[REQUEST_STOP] = "stop", [REQUEST_STATUS] = "status",
	[REQUEST_DUMP] = "dump",
};
enum { NR_VERBS = sizeof verbs / sizeof *verbs };

/* ---- The line ---- */

/* The next word of the line, which is taken from its front. */
static struct part next_word(struct part *line)
{
	struct part word;

	while (line->len && *line->text == ' ')
		line->text++, line->len--;
	word.text = line->text;
	for (word.len = 0; word.len < line->len &&
	     word.text[word.len] != ' '; word.len++)
		;
	line->text += word.len;
	line->len -= word.len;
	return word;
}

struct reason {
	char *why;
	size_t size;
};

static const char *take_word(struct request *request, struct part word,
			     unsigned int *seen, const struct reason *reason)
{
	const char *equals = memchr(word.text, '=', word.len), *wanted;
	struct part key = { word.text, equals ? (size_t)(equals - word.text) :
		word.len };
	struct part text = { key.text + key.len + 1, word.len - key.len - 1 };
	struct value value;
	char shown[41];
	int i;

	for (i = 0; i < NR_KEYS; i++)
		if (is(key, keys[i].name) &&
		    keys[i].verbs & 1u << request->verb)
			break;
	if (i == NR_KEYS || !equals) {
		snprintf(reason->why, reason->size, "%s has no key '%s'",
			 verbs[request->verb], show(key, shown));
		return PROTOCOL_UNKNOWN;
	}
	wanted = *seen & 1u << i ? "given once" : !decode(text, &value) ?
		"encoded as %XX" : keys[i].take(request, value.text);
	*seen |= 1u << i;
	if (!wanted)
		return NULL;
	snprintf(reason->why, reason->size, "%s= must be %s", keys[i].name,
		 wanted);
	return PROTOCOL_BAD_VALUE;
}

/* What the keys must be to each other. */
static const char *check(const struct request *request, bool has_format)
{
	if (request->verb == REQUEST_WAIT && !request->window)
		return "wait needs window=N, as start has answered";
	if (request->has_fd && request->path[0])
		return "path= and fd=1 exclude each other";
	if (has_format && !request->has_fd)
		return "format= is for fd=1; a path says it by its end";
	return NULL;
}

const char *request_parse(const char *text, size_t len,
			  struct request *request, char *why, size_t why_size)
{
	const struct reason reason = { why, why_size };
	struct part line = { text, len }, word = next_word(&line);
	unsigned int seen = 0;
	const char *error = NULL, *wrong;
	char shown[41];
	int verb = 0;

	memset(request, 0, sizeof *request);
	while (verb < NR_VERBS && !is(word, verbs[verb]))
		verb++;
	if (verb == NR_VERBS) {
		snprintf(why, why_size, "'%s' is none of: start, wait, stop, "
			 "status, dump", show(word, shown));
		return PROTOCOL_UNKNOWN;
	}
	request->verb = (enum request_verb)verb;
	while (!error && (word = next_word(&line)).len)
		error = take_word(request, word, &seen, &reason);
	if (error)
		return error;
	wrong = check(request, seen & 1u << KEY_FORMAT);
	if (!wrong)
		return NULL;
	snprintf(why, why_size, "%s", wrong);
	return PROTOCOL_BAD_VALUE;
}
