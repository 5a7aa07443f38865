/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_CONFIGURATION_H
#define GPUTRACE_INJECT_CONFIGURATION_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/cupti.h"
#include "collector/log.h"
#include "inject/settings.h"
#include "writer/writer.h"

/*
 * The settings in force, as each part of the library wants them.  A bad value
 * gives the default, and a line; so does an unknown GPUTRACE_ variable.
 */
struct configuration {
	struct cupti_options cupti;
	struct writer_options writer;
	enum log_level log_level;
	const char *log_file;           /* NULL: stderr */
	const char *nvtx_domains;       /* NULL: all */
	uint64_t thread_bytes;          /* for rings and open ranges */
	bool wants_cuda, wants_nvtx, start_now, wants_control;
	char buffer[32];                /* GPUTRACE_BUFFER in force */
	struct setting_text in_force[SETTING_NR];
};

/* Context: any thread, once. */
void configuration_read(struct configuration *configuration);

/* Says what was wrong with the settings, a line each.  Context: attach. */
void configuration_complain(void);

#endif
