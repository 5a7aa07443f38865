/* SPDX-License-Identifier: MIT */
#include "inject/nccl_plugin.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "collector/log.h"
#include "collector/nccl_event.h"
#include "collector/text_file.h"
#include "inject/arm.h"
#include "inject/environment.h"
#include "inject/other_tool.h"

/* "NCCL_PROFILER_PLUGIN=..." at the beginning of a line. */
static bool has_line(const char *text)
{
	size_t len = strlen(ARM_NCCL);

	while (text && (strncmp(text, ARM_NCCL, len) || text[len] != '=')) {
		text = strchr(text, '\n');
		text += text != NULL;
	}
	return text != NULL;
}

static bool file_has_line(const char *folder, const char *name)
{
	static char text[64 << 10];
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s%s", folder, name);
	text_file_read(path, text, sizeof text);
	return has_line(text);
}

/* The files that NCCL takes variables from. */
static bool is_in_files(void)
{
	const char *file = environment_get("NCCL_CONF_FILE");
	const char *home = environment_get("HOME");

	if (file && !*file)             /* as if it were not set */
		file = NULL;
	return (file && file_has_line(file, "")) ||
		(!file && home && file_has_line(home, "/.nccl.conf")) ||
		file_has_line("/etc/nccl.conf", "");
}

void nccl_plugin_arm(void)
{
	const char *other = other_tool(ARM_NCCL);

	if (!other && is_in_files())
		other = "another plug-in, in nccl.conf";
	if (other) {
		log_line(LOG_INFO, "nccl: NCCL_PROFILER_PLUGIN names %s, and "
			 "stays: no algorithms, and no calls that no wrapper "
			 "sees", other);
		return;
	}
	arm(ARM_NCCL);
	nccl_event_expect();
}
