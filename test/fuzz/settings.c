/* SPDX-License-Identifier: MIT */
/*
 * The settings: any text as the value of each.  What is accepted has a number
 * (a size of at least a byte), what is refused a reason that fits its room.
 */
#include "inject/settings.h"
#include "test/fuzz/fuzz.h"

/* What has parts has all of them. */
static void parts(const struct setting *setting, const char *value)
{
	struct setting_mark mark;
	struct setting_schedule schedule;
	const char *end = value + strlen(value);
	uint64_t start = setting->kind == KIND_START ?
		setting_number(setting, value) : START_NOW;

	if (*value && (setting->kind == KIND_MARK || start == START_NVTX)) {
		setting_mark(value, &mark);
		MUST(mark.name_len && mark.name + mark.name_len <= end);
		MUST(!mark.domain || mark.domain + mark.domain_len == end);
	}
	if (start == START_DELAY)
		MUST(setting_delay_ns(value));
	if (*value && setting->kind == KIND_SCHEDULE)
		MUST(setting_schedule(value, &schedule) && schedule.active);
}

static void one(const struct setting *setting, const char *value)
{
	size_t room = strlen(value) % 200 + 1;
	char *why = malloc(room);
	uint64_t number;

	MUST(why);
	memset(why, 'x', room);
	if (setting_check(setting, value, why, room)) {
		MUST(memchr(why, 0, room));
	} else {
		number = setting_number(setting, value);
		MUST(number == setting_number(setting, value));
		if (!*value || setting->kind < KIND_SIZE)
			MUST(number == 0);
		else if (setting->kind < KIND_SIGNAL)
			MUST(number > 0 && number <= UINT64_MAX / 2);
		else
			MUST(number < (setting->kind == KIND_SIGNAL ? 65 :
				       setting->kind == KIND_SOURCES ?
				       SOURCE_TORCH << 1 : 16));
		parts(setting, value);
	}
	free(why);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input in = { bytes, bytes + size };
	char *value = take_text(&in, size);
	size_t i;

	for (i = 0; i < settings_nr; i++)
		one(&settings_table[i], value);
	free(value);
	return 0;
}
