// SPDX-License-Identifier: MIT
/*
 * The simulated GPU is held to the real one: conformance prints on it what
 * test/sim/facts.txt holds, which was printed on an H200.
 */
#include "test/check.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FACTS "test/sim/facts.txt"

/* Groups run beside each other: they wait most of the time. */
static const struct group {
	const char *name, *prefix;
} groups[] = {
	{ "codes", "codes." }, { "ops", "op." }, { "flush", "flush." },
	{ "threads", "threads." }, { "callbacks", "callbacks." },
	{ "exit", "exit." },
};

#define GROUPS (sizeof(groups) / sizeof(groups[0]))

static void find_folder(char *out, size_t size)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[n > 0 ? n : 0] = 0;
	for (int i = 0; i < 2; i++)	/* unit/NAME */
		*(strrchr(path, '/') ? strrchr(path, '/') : path) = 0;
	snprintf(out, size, "%.3000s/sim", path);
}

static FILE *start(const char *folder, const char *group)
{
	char command[PATH_MAX + 64];

	snprintf(command, sizeof(command), "exec '%s/conformance' %s", folder,
		 group);
	return popen(command, "r");
}

static char *next_line(FILE *f, char *line, int size, const char *prefix)
{
	while (fgets(line, size, f))
		if (!strncmp(line, prefix, strlen(prefix)))
			return line;
	return NULL;
}

static void compare(const struct group *g, FILE *got, FILE *want)
{
	char is[1024], should[1024];
	unsigned int facts = 0;

	for (;;) {
		char *a = next_line(got, is, sizeof(is), g->prefix);
		char *b = next_line(want, should, sizeof(should), g->prefix);

		if (!a || !b) {
			CHECK(!a && !b);
			break;
		}
		facts++;
		if (!strcmp(is, should))
			continue;
		fprintf(stderr, "simulated: %sreal:      %s", is, should);
		CHECK(!"a fact differs");
	}
	CHECK(facts > 10);
}

int main(void)
{
	FILE *runs[GROUPS], *facts;
	char folder[PATH_MAX];

	find_folder(folder, sizeof(folder));
	setenv("LD_LIBRARY_PATH", folder, 1);
	/* the crashes among the facts must not be the sanitizer's */
	setenv("TSAN_OPTIONS", "handle_segv=0", 1);
	setenv("ASAN_OPTIONS", "handle_segv=0:detect_leaks=0:"
	       "verify_asan_link_order=0", 1);
	for (size_t i = 0; i < GROUPS; i++)
		runs[i] = start(folder, groups[i].name);
	for (size_t i = 0; i < GROUPS; i++) {
		facts = fopen(FACTS, "r");
		CHECK(facts && runs[i]);
		if (!facts || !runs[i])
			break;
		compare(&groups[i], runs[i], facts);
		fclose(facts);
		CHECK_EQ(pclose(runs[i]), 0);
	}
	return check_result();
}
