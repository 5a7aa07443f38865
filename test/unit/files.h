/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TEST_FILES_H
#define GPUTRACE_TEST_FILES_H

/*
 * Trace files of a unit test: where they are, how often a text stands in one,
 * what the independent judge says of it (nothing where it cannot be had).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "test/check.h"

static char folder[256];

static const char *in_folder(const char *name)
{
	static char path[16][512];
	static int turn;

	turn = (turn + 1) % 16;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, name);
	return path[turn];
}

/* How often the text stands in the file; -1: there is none. */
static int count(const char *path, const char *what)
{
	gzFile file = gzopen(path, "rb");
	static char line[1 << 16];
	const char *at;
	int nr = 0;

	if (!file || access(path, F_OK))
		return -1;
	while (gzgets(file, line, sizeof(line)))
		for (at = line; (at = strstr(at, what)); at++)
			nr++;
	gzclose(file);
	return nr;
}

static int kernels_in(const char *path)
{
	return count(path, "\"cat\":\"kernel\"");
}

static void judge(const char *path)
{
	const char *tools = getenv("GPUTRACE_JUDGE");
	char command[1400];

	tools = tools ? tools : "../shared/tools";
	snprintf(command, sizeof(command), "%s/check_trace.py", tools);
	if (access(command, R_OK))
		return;
	snprintf(command, sizeof(command), "python3 %s/check_trace.py "
		 "--profile all --strict '%s' >&2", tools, path);
	CHECK_EQ(system(command), 0);
}

#endif
