/* SPDX-License-Identifier: MIT */
#include "inject/settings.h"

#include <errno.h>
#include <signal.h>
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

enum { WORDS_MAX = 12 };

/* Words of each kind that has a list; the place in it is the number. */
static const char *const words[][WORDS_MAX] = {
	[KIND_SOURCES] = { "cuda", "nvtx", "memory", "uvm", "osrt", "cpu",
			   "nvml", "stacks", "cublas", "cudnn", "nccl",
			   "torch" },
	[KIND_API] = { "essential", "all", "none" },
	[KIND_GRAPH] = { "node", "graph" },
	[KIND_START] = { "now", "off", "profiler-api", "nvtx", "delay" },
	[KIND_CONTROL] = { "on", "off" },
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
	for (int i = 0; i < WORDS_MAX && words[kind][i]; i++)
		if (strlen(words[kind][i]) == len &&
		    !memcmp(words[kind][i], text, len))
			return i;
	return -1;
}

static bool parse_duration(const char *text, uint64_t *ns)
{
	return parse_number(durations, text, ns);
}

/* ---- Marks: nvtx:NAME[@DOMAIN] ---- */

static const char nvtx_word[] = "nvtx:";

void setting_mark(const char *value, struct setting_mark *mark)
{
	const char *at;

	mark->name = strchr(value, ':') + 1;
	at = strrchr(mark->name, '@');
	mark->domain = at ? at + 1 : NULL;
	mark->domain_len = at ? strlen(at + 1) : 0;
	mark->name_len = at ? (size_t)(at - mark->name) : strlen(mark->name);
}

static bool is_mark(const char *value)
{
	struct setting_mark mark;

	if (strncmp(value, nvtx_word, sizeof nvtx_word - 1))
		return false;
	setting_mark(value, &mark);
	return mark.name_len && mark.name_len <= SETTING_NAME_MAX &&
		mark.domain_len <= SETTING_NAME_MAX &&
		(!mark.domain || mark.domain_len);
}

uint64_t setting_delay_ns(const char *value)
{
	const char *colon = strchr(value, ':');
	uint64_t ns = 0;

	return colon && parse_duration(colon + 1, &ns) ? ns : 0;
}

/* ---- Schedules: wait=1,warmup=1,active=3,repeat=1 ---- */

/* "name=N": its number, up to 999,999,999, or -1. */
static long part_of_schedule(const char *text, size_t len, const char *name)
{
	size_t at = strlen(name);
	long number = 0;

	if (len < at + 2 || len > at + 10 || memcmp(text, name, at) ||
	    text[at] != '=')
		return -1;
	while (++at < len) {
		if (text[at] < '0' || text[at] > '9')
			return -1;
		number = number * 10 + (text[at] - '0');
	}
	return number;
}

static bool take_part(const char *text, size_t len, uint32_t *numbers,
		      uint32_t *seen)
{
	static const char *const names[] = { "wait", "warmup", "active",
					     "repeat" };
	long number;

	for (uint32_t i = 0; i < 4; i++) {
		number = part_of_schedule(text, len, names[i]);
		if (number < 0)
			continue;
		if (*seen & 1u << i)
			return false;
		*seen |= 1u << i;
		numbers[i] = (uint32_t)number;
		return true;
	}
	return false;
}

bool setting_schedule(const char *value, struct setting_schedule *schedule)
{
	uint32_t numbers[4] = { 0 }, seen = 0;
	size_t len;

	for (; *value; value += len + (value[len] == ',')) {
		len = strcspn(value, ",");
		if (!take_part(value, len, numbers, &seen))
			return false;
	}
	schedule->wait = numbers[0];
	schedule->warmup = numbers[1];
	schedule->active = numbers[2];
	schedule->repeat = numbers[3];
	return schedule->active > 0;
}

/* ---- Signals: USR2, SIGUSR2, RTMIN+3, RTMAX-1 ---- */

/* Those that a program can do without, by default of little harm: no crash,
 * nothing that a terminal or the system sends to end it. */
static const struct {
	const char *name;
	int number;
} signals[] = {
	{ "HUP", SIGHUP }, { "USR1", SIGUSR1 }, { "USR2", SIGUSR2 },
	{ "WINCH", SIGWINCH }, { "URG", SIGURG }, { "IO", SIGIO },
	{ "PWR", SIGPWR }, { "ALRM", SIGALRM }, { "VTALRM", SIGVTALRM },
	{ "PROF", SIGPROF },
};

/* "", or the sign and at most two digits; else -1. */
static int offset_of(const char *text, char sign)
{
	int number = 0;

	if (!*text)
		return 0;
	if (*text != sign || !text[1] || strlen(text) > 3)
		return -1;
	while (*++text) {
		if (*text < '0' || *text > '9')
			return -1;
		number = number * 10 + (*text - '0');
	}
	return number;
}

/* 0 if it is none. */
static int signal_of(const char *text)
{
	int offset = -1, number = 0;

	if (!strncmp(text, "SIG", 3))
		text += 3;
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		if (!strcmp(signals[i].name, text))
			return signals[i].number;
	if (!strncmp(text, "RTMIN", 5)) {
		offset = offset_of(text + 5, '+');
		number = SIGRTMIN + offset;
	} else if (!strncmp(text, "RTMAX", 5)) {
		offset = offset_of(text + 5, '-');
		number = SIGRTMAX - offset;
	}
	return offset >= 0 && number >= SIGRTMIN && number <= SIGRTMAX ?
		number : 0;
}

/* ---- All of them ---- */

static const char *const kind_words[] = {
	[KIND_SCHEDULE] = "a schedule such as wait=1,warmup=1,active=3",
	[KIND_MARK] = "a mark such as nvtx:NAME or nvtx:NAME@DOMAIN",
	[KIND_SIGNAL] = "a signal such as USR2 or RTMIN+3",
	[KIND_SIZE] = "a size such as 256M",
	[KIND_DURATION] = "a duration such as 1s or 500ms",
	[KIND_COUNT] = "a number above 0",
};

static void list_words(enum setting_kind kind, char *out, size_t size)
{
	size_t len = 0;

	out[0] = 0;
	for (int i = 0; i < WORDS_MAX && words[kind][i] && len < size; i++)
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

static int refuse(enum setting_kind kind, const char *value, char *why,
		  size_t why_size)
{
	snprintf(why, why_size, "'%.64s' is not %s", value, kind_words[kind]);
	return -EINVAL;
}

static int check_words(enum setting_kind kind, const char *value, char *why,
		       size_t why_size)
{
	char list[128];
	size_t len;
	const char *bad = bad_word(kind, value, &len);

	if (!bad)
		return 0;
	list_words(kind, list, sizeof list);
	snprintf(why, why_size, "'%.*s' is none of: %s",
		 len < 64 ? (int)len : 64, bad, list);
	return -EINVAL;
}

static int check_start(const char *value, char *why, size_t why_size)
{
	size_t len = strcspn(value, ":");

	switch (find_word(KIND_START, value, len)) {
	case START_NVTX:
		return is_mark(value) ? 0 :
			refuse(KIND_MARK, value, why, why_size);
	case START_DELAY:
		return setting_delay_ns(value) ? 0 :
			refuse(KIND_DURATION, value + len + !!value[len], why,
			       why_size);
	case -1:
		break;
	default:
		if (!value[len])
			return 0;
	}
	snprintf(why, why_size, "'%.64s' is none of: now, off, profiler-api, "
		 "nvtx:NAME, delay:TIME", value);
	return -EINVAL;
}

static int check_name(const char *value, char *why, size_t why_size)
{
	if (strlen(value) <= SETTING_NAME_MAX)
		return 0;
	snprintf(why, why_size, "a name longer than %d bytes: '%.32s...'",
		 SETTING_NAME_MAX, value);
	return -EINVAL;
}

/* Of the kinds that are no list of words, and no number. */
static bool is_good(enum setting_kind kind, const char *value)
{
	struct setting_schedule schedule;

	switch (kind) {
	case KIND_MARK: return is_mark(value);
	case KIND_SCHEDULE: return setting_schedule(value, &schedule);
	default: return signal_of(value) > 0;
	}
}

int setting_check(const struct setting *setting, const char *value, char *why,
		  size_t why_size)
{
	const struct unit *units = units_of(setting->kind);
	uint64_t number;

	if (!*value && !*setting->fallback)
		return 0;
	switch (setting->kind) {
	case KIND_TEXT:
		if (*value)
			return 0;
		snprintf(why, why_size, "empty");
		return -EINVAL;
	case KIND_GLOBS:
		return check_globs(value, why, why_size);
	case KIND_NAME:
		return check_name(value, why, why_size);
	case KIND_START:
		return check_start(value, why, why_size);
	case KIND_MARK: case KIND_SCHEDULE: case KIND_SIGNAL:
		return is_good(setting->kind, value) ? 0 :
			refuse(setting->kind, value, why, why_size);
	default:
		if (!units)
			return check_words(setting->kind, value, why,
					   why_size);
		return parse_number(units, value, &number) ? 0 :
			refuse(setting->kind, value, why, why_size);
	}
}

static uint64_t number_of_sources(const char *value)
{
	uint64_t number = 0;
	size_t len;

	for (;; value += len + 1) {
		len = strcspn(value, ",");
		number |= 1u << find_word(KIND_SOURCES, value, len);
		if (!value[len])
			return number;
	}
}

uint64_t setting_number(const struct setting *setting, const char *value)
{
	const struct unit *units = units_of(setting->kind);
	uint64_t number = 0;

	if (!*value)
		return 0;
	if (units) {
		parse_number(units, value, &number);
		return number;
	}
	switch (setting->kind) {
	case KIND_TEXT: case KIND_GLOBS: case KIND_NAME: case KIND_MARK:
	case KIND_SCHEDULE:
		return 0;
	case KIND_SIGNAL:
		return (uint64_t)signal_of(value);
	case KIND_SOURCES:
		return number_of_sources(value);
	default:
		return (uint64_t)find_word(setting->kind, value,
					   strcspn(value, ":"));
	}
}
