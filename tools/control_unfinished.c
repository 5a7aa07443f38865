/* SPDX-License-Identifier: MIT */
/* What hangs: the launches of a trace that never finished, for people. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/control_file.h"
#include "tools/plain.h"
#include "tools/trace.h"

/* Of a program that hangs, the first tell the cause. */
enum { SHOWN_MAX = 20 };

static void print_text(const char *before, const struct json_value *launch,
		       const char *key)
{
	struct json_value v = jsonval_member(launch, key);
	char text[512];

	if (v.type != JSON_STRING)
		return;
	jsonval_string(&v, text, sizeof(text));
	plain_make(text, sizeof(text));
	fprintf(stderr, "%s%s", before, text);
}

static bool number(const struct json_value *launch, const char *key,
		   int64_t *n)
{
	struct json_value v = jsonval_member(launch, key);

	return jsonval_int(&v, n);
}

/* "  spin: thread worker, range step, stream 7 of GPU 0, for 12.3 s" */
static void print_launch(const struct json_value *launch)
{
	int64_t stream, device, from, to;

	if (launch->type != JSON_OBJECT)
		return;
	print_text("  ", launch, "name");
	print_text(": thread ", launch, "thread");
	print_text(", range ", launch, "range");
	if (number(launch, "stream", &stream) &&
	    number(launch, "device", &device))
		fprintf(stderr, ", stream %" PRId64 " of GPU %" PRId64, stream,
			device);
	if (number(launch, "launched_ns", &from) &&
	    number(launch, "seen_ns", &to) && from >= 0 && to > from)
		fprintf(stderr, ", launched %.1f s before",
			(double)(to - from) / 1e9);
	putc('\n', stderr);
}

static void print_list(const struct json_value *list)
{
	struct json_value launch;
	const char *at = NULL;
	size_t nr = 0;

	while (jsonval_next(list, &at, NULL, &launch)) {
		if (!nr)
			fputs("launched and not finished (in flight, or it "
			      "hangs):\n", stderr);
		if (nr++ < SHOWN_MAX)
			print_launch(&launch);
	}
	if (nr > SHOWN_MAX)
		fprintf(stderr, "  and %zu more\n", nr - SHOWN_MAX);
}

void control_tell_unfinished(const char *path)
{
	struct trace_problem problem;
	struct trace_event event;
	struct trace *trace = trace_open(path, 0, &problem);
	struct json_value list;
	int more = 1;

	while (trace && more > 0)
		more = trace_next(trace, &event);
	if (trace && !more) {
		list = *trace_header(trace, HEADER_GPUTRACE);
		if (list.type == JSON_OBJECT)
			list = jsonval_member(&list, "unfinished_launches");
		if (list.type == JSON_ARRAY)
			print_list(&list);
	}
	if (trace)
		trace_close(trace);
}
