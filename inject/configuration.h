/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_CONFIGURATION_H
#define GPUTRACE_INJECT_CONFIGURATION_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/cupti.h"
#include "collector/log.h"
#include "collector/source.h"
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
	struct source_options source;
	uint64_t sources;               /* SOURCE_ bits of GPUTRACE_TRACE */
	bool wants_cuda, wants_nvtx, start_now;
	bool wants_nccl_plugin;
	uint64_t start;                 /* START_NOW, ... */
	uint64_t delay_ns, duration_ns; /* 0: none */
	const char *start_mark;         /* "nvtx:NAME@DOMAIN" or NULL, ... */
	const char *dump_mark;          /* ... likewise */
	struct setting_schedule schedule;       /* active 0: none */
	const char *step;               /* NULL: found by its name */
	bool wants_control;             /* a socket */
	bool control_is_set;            /* not by default */
	int signal, dump_signal;        /* 0: none */
	uint32_t conflicts;             /* settings that exclude others */
	char buffer[32];                /* GPUTRACE_BUFFER in force */
	struct setting_text in_force[SETTING_NR];
};

/* Context: any thread, once. */
void configuration_read(struct configuration *configuration);

/* Says what was wrong with the settings, and which of them exclude others, a
 * line each.  Context: attach. */
void configuration_complain(const struct configuration *configuration);

#endif
