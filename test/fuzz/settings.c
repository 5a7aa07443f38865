/* SPDX-License-Identifier: MIT */
/*
 * The settings: any text as the value of each.  What is accepted has a number
 * (a size of at least a byte), what is refused a reason that fits its room.
 */
#include "inject/settings.h"
#include "test/fuzz/fuzz.h"

static void one(const struct setting *setting, const char *value)
{
	size_t room = strlen(value) % 200 + 1;
	char *why = malloc(room);
	uint64_t number;

	MUST(why);
	memset(why, 'x', room);
	if (setting_check(setting, value, why, room)) {
		MUST(memchr(why, 0, room));
	} else if (setting->kind != KIND_TEXT && setting->kind != KIND_GLOBS) {
		number = setting_number(setting, value);
		MUST(number == setting_number(setting, value));
		if (setting->kind <= KIND_COUNT)
			MUST(number > 0 && number <= UINT64_MAX / 2);
		else
			MUST(number < 16);
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
