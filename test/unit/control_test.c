/* SPDX-License-Identifier: MIT */
/* Commands of the control socket: what each means, and what is refused. */
#include "inject/control_parse.h"

#include <string.h>

#include "inject/protocol.h"
#include "inject/settings.h"
#include "test/check.h"

static struct request request;
static char why[256];

static const char *parse(const char *line)
{
	const char *code = request_parse(line, strlen(line), &request, why,
					 sizeof(why));

	return code ? code : "";
}

static void test_start(void)
{
	CHECK(!*parse("start"));
	CHECK_EQ(request.verb, REQUEST_START);
	CHECK_EQ(request.duration_ns, 0);
	CHECK(!request.has_fd && !request.path[0]);
	CHECK(!*parse("start duration=1.5s trace=cuda,memory  at=12 fd=1 "
		      "format=gz"));
	CHECK_EQ(request.duration_ns, 1500000000);
	CHECK_EQ(request.sources, SOURCE_CUDA | SOURCE_MEMORY);
	CHECK_EQ(request.at_ns, 12);
	CHECK(request.has_fd && request.is_gz);
	CHECK(!*parse("start fd=1 format=json") && !request.is_gz);
}

static void test_values_are_decoded(void)
{
	CHECK(!*parse("start path=/a%20b%25%0a%ff%C3"));
	CHECK(!strcmp(request.path, "/a b%\n\xff\xc3"));
}

static void test_the_others(void)
{
	CHECK(!*parse("wait window=3"));
	CHECK_EQ(request.verb, REQUEST_WAIT);
	CHECK_EQ(request.window, 3);
	CHECK(!*parse("stop") && request.verb == REQUEST_STOP);
	CHECK(!*parse("status ") && request.verb == REQUEST_STATUS);
	CHECK(!*parse("dump path=x") && request.verb == REQUEST_DUMP);
}

static void test_unknown(void)
{
	static const char *const lines[] = {
		"", " ", "begin", "START", "start now", "start now=1",
		"stop fd=1", "status window=1", "start =", "start window=1",
		"dump duration=1s", "start duration", "start\tduration=1",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		if (strcmp(parse(lines[i]), PROTOCOL_UNKNOWN)) {
			fprintf(stderr, "'%s': %s\n", lines[i], why);
			check_failures++;
		}
}

static void test_bad_values(void)
{
	static const char *const lines[] = {
		"start duration=0", "start duration=", "start duration=5x",
		"start trace=", "start trace=gpu", "start at=0", "start at=x",
		"start at=99999999999999999999", "start path=", "start fd=0",
		"start fd=2", "start fd=", "start fd=1 format=zip",
		"start format=gz", "start path=a format=gz",
		"start path=a fd=1", "start path=a path=b", "start path=%",
		"start path=%4", "start path=%4g", "start path=%00",
		"start path=a%", "wait", "wait window=0", "wait window=-1",
		"wait window=4294967297",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		if (strcmp(parse(lines[i]), PROTOCOL_BAD_VALUE)) {
			fprintf(stderr, "'%s': %s\n", lines[i], why);
			check_failures++;
		}
}

static void test_long_paths(void)
{
	char line[6000] = "start path=";

	memset(line + 11, 'a', 4095);
	CHECK(!*parse(line));
	CHECK_EQ(strlen(request.path), 4095);
	line[11 + 4095] = 'a';
	CHECK(!strcmp(parse(line), PROTOCOL_BAD_VALUE));
}

int main(void)
{
	test_start();
	test_values_are_decoded();
	test_the_others();
	test_unknown();
	test_bad_values();
	test_long_paths();
	return check_result();
}
