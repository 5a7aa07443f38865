/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TEST_SCENE_TRACE_H
#define GPUTRACE_TEST_SCENE_TRACE_H

/*
 * A scene's trace, kept in memory: what the writer makes of the scene so far,
 * and the events by what stands in their lines.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/check.h"
#include "test/unit/scene.h"
#include "writer/output.h"
#include "writer/trace.h"

static struct trace *trace;

static inline void scene_open_trace(const struct writer_options *options)
{
	trace = calloc(1, sizeof *trace);
	CHECK_EQ(trace_init(trace, options), 0);
	scene_device();
}

static inline void scene_close_trace(void)
{
	trace_fini(trace);
	free(trace);
}

static inline void step(bool everything)
{
	scene_flush();
	batch_take(trace);
	drain_rings(trace);
	batch_write(trace, everything);
}

/* The n-th line that holds `text`, or "": until the next call. */
static inline const char *event(const char *text, int n)
{
	static char line[8192];
	const char *at, *end;

	bytes_add(&trace->out, "", 1);
	trace->out.len--;
	at = strstr(trace->out.data, text);
	while (at && n--)
		at = strstr(at + 1, text);
	line[0] = 0;
	if (!at)
		return line;
	while (at > trace->out.data && at[-1] != '\n')
		at--;
	end = strchr(at, '\n');
	snprintf(line, sizeof line, "%.*s", end ? (int)(end - at) :
		 (int)strlen(at), at);
	return line;
}

static inline bool has_nth(const char *of, int n, const char *part)
{
	bool is_there = strstr(event(of, n), part) != NULL;

	if (!is_there)
		fprintf(stderr, "%s: no %s in %s\n", of, part, event(of, n));
	return is_there;
}

static inline bool has(const char *of, const char *part)
{
	return has_nth(of, 0, part);
}

#endif
