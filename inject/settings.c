/* SPDX-License-Identifier: MIT */
#include "inject/settings.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const struct setting settings_table[] = {
#define X(id, variable, option, kind, fallback, help) \
	[SETTING_##id] = { variable, option, KIND_##kind, fallback, help },
	SETTINGS(X)
#undef X
};
const size_t settings_nr = SETTING_NR;

/* Words of each kind that has a list; the place in it is the number. */
static const char *const words[][5] = {
	[KIND_SOURCES] = { "cuda", "nvtx", "memory", "uvm" },
	[KIND_API] = { "essential", "all", "none" },
	[KIND_GRAPH] = { "node", "graph" },
	[KIND_START] = { "now", "off", "profiler-api" },
	[KIND_ON_FULL] = { "rotate", "stop" },
	[KIND_NAMES] = { "short", "full", "mangled" },
	[KIND_ARGV] = { "masked", "off" },
	[KIND_LOG] = { "quiet", "warn", "info", "debug" },
};

struct unit {
	const char *suffix;
	uint64_t factor;
};

static const struct unit sizes[] = {
	{ "", 1 }, { "K", 1u << 10 }, { "M", 1u << 20 }, { "G", 1u << 30 },
	{ "T", 1ull << 40 }, { NULL, 0 },
};
static const struct unit durations[] = {
	{ "", 1000000000 }, { "s", 1000000000 }, { "ms", 1000000 },
	{ "us", 1000 }, { "ns", 1 }, { "m", 60000000000 }, { NULL, 0 },
};
static const struct unit counts[] = { { "", 1 }, { NULL, 0 } };

static const struct unit *units_of(enum setting_kind kind)
{
	switch (kind) {
	case KIND_SIZE: return sizes;
	case KIND_DURATION: return durations;
	case KIND_COUNT: return counts;
	default: return NULL;
	}
}

/* "1.5ms": digits, a fraction, a unit.  Integer arithmetic, so that no locale
 * can change the meaning of the point.  False if it is no such number, is 0
 * or does not fit. */
static bool parse_number(const struct unit *unit, const char *text,
			 uint64_t *number)
{
	uint64_t whole = 0, part = 0, scale = 1;
	const char *at = text;

	for (; *at >= '0' && *at <= '9'; at++) {
		if (whole > 100000000000000000u)
			return false;
		whole = whole * 10 + (uint64_t)(*at - '0');
	}
	if (at != text && *at == '.')
		for (at++; *at >= '0' && *at <= '9'; at++)
			if (scale < 1000000000) {
				part = part * 10 + (uint64_t)(*at - '0');
				scale *= 10;
			}
	while (unit->suffix && strcmp(unit->suffix, at))
		unit++;
	if (at == text || !unit->suffix || whole > UINT64_MAX / 2 /
	    unit->factor)
		return false;
	*number = whole * unit->factor + (uint64_t)((unsigned __int128)part *
						    unit->factor / scale);
	return *number > 0;
}

/* The place of the word text[0..len) in its list, or -1. */
static int find_word(enum setting_kind kind, const char *text, size_t len)
{
	for (int i = 0; i < 5 && words[kind][i]; i++)
		if (strlen(words[kind][i]) == len &&
		    !memcmp(words[kind][i], text, len))
			return i;
	return -1;
}

static const char *const kind_words[] = {
	[KIND_SIZE] = "a size such as 256M",
	[KIND_DURATION] = "a duration such as 1s or 500ms",
	[KIND_COUNT] = "a number above 0",
};

static void list_words(enum setting_kind kind, char *out, size_t size)
{
	size_t len = 0;

	out[0] = 0;
	for (int i = 0; i < 5 && words[kind][i] && len < size; i++)
		len += (size_t)snprintf(out + len, size - len, "%s%s",
					i ? ", " : "", words[kind][i]);
}

/* The first part of the value that is no word of its list, or NULL. */
static const char *bad_word(enum setting_kind kind, const char *value,
			    size_t *len)
{
	const char *stop = kind == KIND_SOURCES ? "," :
		kind == KIND_LOG ? ":" : "";

	do {
		*len = strcspn(value, stop);
		if (find_word(kind, value, *len) < 0)
			return value;
		value += *len;
	} while (kind == KIND_SOURCES && *value++);
	return NULL;
}

static int check_globs(const char *value, char *why, size_t why_size)
{
	size_t len;

	if (strlen(value) > SETTING_GLOBS_MAX) {
		snprintf(why, why_size, "longer than %d bytes",
			 SETTING_GLOBS_MAX);
		return -EINVAL;
	}
	for (; *value; value += len + (value[len] == ',')) {
		len = strcspn(value, ",");
		if (len <= SETTING_GLOB_MAX)
			continue;
		snprintf(why, why_size, "a name longer than %d bytes: "
			 "'%.32s...'", SETTING_GLOB_MAX, value);
		return -EINVAL;
	}
	return 0;
}

int setting_check(const struct setting *setting, const char *value, char *why,
		  size_t why_size)
{
	const struct unit *units = units_of(setting->kind);
	char list[128];
	uint64_t number;
	const char *bad;
	size_t len;

	if (setting->kind == KIND_TEXT) {
		if (*value || !*setting->fallback)
			return 0;
		snprintf(why, why_size, "empty");
		return -EINVAL;
	}
	if (setting->kind == KIND_GLOBS)
		return check_globs(value, why, why_size);
	if (units) {
		if (parse_number(units, value, &number))
			return 0;
		snprintf(why, why_size, "'%.64s' is not %s", value,
			 kind_words[setting->kind]);
		return -EINVAL;
	}
	bad = bad_word(setting->kind, value, &len);
	if (!bad)
		return 0;
	list_words(setting->kind, list, sizeof list);
	snprintf(why, why_size, "'%.*s' is none of: %s",
		 len < 64 ? (int)len : 64, bad, list);
	return -EINVAL;
}

uint64_t setting_number(const struct setting *setting, const char *value)
{
	const struct unit *units = units_of(setting->kind);
	uint64_t number = 0;

	if (units) {
		parse_number(units, value, &number);
		return number;
	}
	if (setting->kind == KIND_SOURCES) {
		for (;;) {
			size_t len = strcspn(value, ",");

			number |= 1u << find_word(setting->kind, value, len);
			if (!value[len])
				return number;
			value += len + 1;
		}
	}
	return (uint64_t)find_word(setting->kind, value, setting->kind ==
		KIND_LOG ? strcspn(value, ":") : strlen(value));
}
