/* SPDX-License-Identifier: MIT */
#include "collector/filter.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collector/text_file.h"

static long number_behind(const char *text, const char *key)
{
	const char *line = strstr(text, key);

	return line ? strtol(line + strlen(key), NULL, 10) : -1;
}

/* How many, -1 if that is not known.  Before Linux 5.9 they are not counted:
 * 1 for any. */
static long nr_filters(const char *status)
{
	char text[4096];
	long mode, nr;

	text_file_read(status, text, sizeof text);
	mode = number_behind(text, "\nSeccomp:\t");
	nr = number_behind(text, "\nSeccomp_filters:\t");
	return mode <= 0 ? mode : nr > 0 ? nr : 1;
}

bool filter_is_there(void)
{
	return nr_filters("/proc/thread-self/status") != 0;
}

bool filter_is_own(void)
{
	long own = nr_filters("/proc/thread-self/status");

	if (own <= 0)
		return own < 0;
	return own > (getpid() == 1 ? 1 : nr_filters("/proc/1/status"));
}
