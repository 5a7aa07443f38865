/* SPDX-License-Identifier: MIT */
/* Settings: what is accepted, what it means, what is refused with a reason. */
#include "inject/settings.h"

#include <signal.h>
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
	CHECK(check(SETTING_FLUSH, "") < 0);
	CHECK_EQ(number(SETTING_DURATION, ""), 0);
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

static void test_starts(void)
{
	static const char *const bad[] = { "tomorrow", "now:", "nvtx", "nvtx:",
		"nvtx:@d", "nvtx:a@", "delay", "delay:", "delay:x", "off:1" };
	struct setting_mark mark;

	CHECK_EQ(number(SETTING_START, "nvtx:step 1"), START_NVTX);
	setting_mark("nvtx:step 1", &mark);
	CHECK(mark.name_len == 6 && !memcmp(mark.name, "step 1", 6));
	CHECK(!mark.domain);
	CHECK_EQ(number(SETTING_START, "nvtx:a@b:c@d"), START_NVTX);
	setting_mark("nvtx:a@b:c@d", &mark);
	CHECK(mark.name_len == 5 && !memcmp(mark.name, "a@b:c", 5));
	CHECK(mark.domain_len == 1 && *mark.domain == 'd');
	CHECK_EQ(number(SETTING_START, "delay:1.5s"), START_DELAY);
	CHECK_EQ(setting_delay_ns("delay:1.5s"), 1500000000);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(check(SETTING_START, bad[i]) < 0 && why[0]);
	CHECK(check(SETTING_DUMP_ON, "slow") < 0);
	CHECK_EQ(check(SETTING_DUMP_ON, "nvtx:slow"), 0);
}

static void test_schedules(void)
{
	static const char *const bad[] = { "active=0", "wait=1", "wait=1,", "3",
		"active=3,,wait=1", "active=3,active=2", "active=-1", "active=",
		"active=3,skip=1", "active=12345678901" };
	struct setting_schedule s;

	CHECK(setting_schedule("wait=1,warmup=2,active=3,repeat=4", &s));
	CHECK(s.wait == 1 && s.warmup == 2 && s.active == 3 && s.repeat == 4);
	CHECK(setting_schedule("active=3", &s));
	CHECK(s.wait == 0 && s.warmup == 0 && s.repeat == 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(check(SETTING_SCHEDULE, bad[i]) < 0 && why[0]);
}

static void test_signals(void)
{
	static const char *const bad[] = { "KILL", "SEGV", "TERM", "usr2", "12",
		"RTMIN+", "RTMIN-1", "RTMIN+99", "RTMAX+1", "SIG", "USR3" };

	CHECK_EQ(number(SETTING_SIGNAL, "USR2"), SIGUSR2);
	CHECK_EQ(number(SETTING_SIGNAL, "SIGUSR1"), SIGUSR1);
	CHECK_EQ(number(SETTING_SIGNAL, "RTMIN+3"), (uint64_t)SIGRTMIN + 3);
	CHECK_EQ(number(SETTING_SIGNAL, "SIGRTMAX-1"), (uint64_t)SIGRTMAX - 1);
	CHECK_EQ(number(SETTING_SIGNAL, ""), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(check(SETTING_SIGNAL, bad[i]) < 0 && why[0]);
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
	test_starts();
	test_schedules();
	test_signals();
	test_defaults();
	return check_result();
}
