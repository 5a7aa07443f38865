/* SPDX-License-Identifier: MIT */
#include "collector/debugger.h"

#include <stdlib.h>
#include <string.h>

#include "collector/text_file.h"

uint32_t debugger_of(const char *status)
{
	static const char name[] = "\nTracerPid:\t";
	char text[4096];
	const char *line;

	text_file_read(status, text, sizeof text);
	line = strstr(text, name);
	return line ? (uint32_t)strtoul(line + strlen(name), NULL, 10) : 0;
}
