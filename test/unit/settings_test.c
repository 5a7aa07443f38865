/* SPDX-License-Identifier: MIT */
/* Settings: what is accepted, what it means, what is refused with a reason. */
#include "inject/settings.h"

#include <string.h>

#include "test/check.h"

static char why[256];

static int check(enum setting_id id, const char *value)
{
	why[0] = 0;
	return setting_check(&settings_table[id], value, why, sizeof why);
}

static uint64_t number(enum setting_id id, const char *value)
{
	CHECK_EQ(check(id, value), 0);
	return setting_number(&settings_table[id], value);
}

static void test_numbers(void)
{
	CHECK_EQ(number(SETTING_BUFFER, "256M"), 268435456);
	CHECK_EQ(number(SETTING_BUFFER, "1G"), 1073741824);
	CHECK_EQ(number(SETTING_BUFFER, "4096"), 4096);
	CHECK_EQ(number(SETTING_BUFFER, "1.5K"), 1536);
	CHECK_EQ(number(SETTING_FLUSH, "5"), 5000000000);
	CHECK_EQ(number(SETTING_FLUSH, "0.1"), 100000000);
	CHECK_EQ(number(SETTING_FLUSH, "5s"), 5000000000);
	CHECK_EQ(number(SETTING_FLUSH, "500ms"), 500000000);
	CHECK_EQ(number(SETTING_FLUSH, "2.5us"), 2500);
	CHECK_EQ(number(SETTING_KEEP, "4"), 4);
}

static void test_bad_numbers(void)
{
	static const char *const bad[] = { "", "0", "-1", "1Q", "M", "1e3",
		"99999999999999999999", "9999999999999T", " 1", "1 M", "0x10" };

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		if (!check(SETTING_BUFFER, bad[i]))
			fprintf(stderr, "accepted: '%s'\n", bad[i]);
		CHECK(check(SETTING_BUFFER, bad[i]) < 0 && why[0]);
	}
	CHECK(check(SETTING_FLUSH, "1h") < 0);
}

static void test_words(void)
{
	CHECK_EQ(number(SETTING_API, "none"), API_NONE);
	CHECK_EQ(number(SETTING_START, "profiler-api"), START_PROFILER_API);
	CHECK_EQ(number(SETTING_TRACE, "nvtx"), SOURCE_NVTX);
	CHECK_EQ(number(SETTING_TRACE, "cuda,nvtx,memory"),
		 SOURCE_CUDA | SOURCE_NVTX | SOURCE_MEMORY);
	CHECK_EQ(number(SETTING_LOG, "debug:/tmp/x"), LEVEL_DEBUG);
	CHECK(check(SETTING_API, "some") < 0 && strstr(why, "essential"));
	CHECK(check(SETTING_TRACE, "cuda,") < 0);
	CHECK(check(SETTING_TRACE, "cuda,gpu") < 0 && strstr(why, "'gpu'"));
	CHECK(check(SETTING_OUT, "") < 0);
	CHECK_EQ(check(SETTING_KERNELS, ""), 0);
}

/* Each default passes its own check. */
static void test_defaults(void)
{
	for (size_t i = 0; i < settings_nr; i++)
		CHECK_EQ(check((enum setting_id)i, settings_table[i].fallback),
			 0);
}

int main(void)
{
	test_numbers();
	test_bad_numbers();
	test_words();
	test_defaults();
	return check_result();
}
