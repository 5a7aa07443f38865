/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "tools/gputrace.h"
#include "tools/trace.h"

int complain_file(const char *path, const struct trace_problem *problem)
{
	if (problem->has_offset)
		fprintf(stderr, "gputrace: %s: byte %" PRIu64 ": %s\n", path,
			problem->offset, problem->text);
	else
		fprintf(stderr, "gputrace: %s: %s\n", path, problem->text);
	return STATUS_COULD_NOT;
}

int complain(const char *format, ...)
{
	va_list args;

	fputs("gputrace: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	putc('\n', stderr);
	return STATUS_COULD_NOT;
}
