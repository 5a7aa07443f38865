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

static void print_value(const struct json_value *v)
{
	char text[512];

	if (v->type == JSON_STRING)
		jsonval_string(v, text, sizeof(text));
	else
		snprintf(text, sizeof(text), "%.*s", v->len < 64 ?
			 (int)v->len : 64, v->text);
	plain_make(text, sizeof(text));
	fprintf(stderr, "%s", text);
}

/* "  name: thread decode, range step, ..." */
static void print_launch(const struct json_value *launch)
{
	struct json_value name = jsonval_member(launch, "name"), key, value;
	const char *at = NULL, *separator = ": ";

	fputs("  ", stderr);
	if (launch->type != JSON_OBJECT) {
		print_value(launch);
		putc('\n', stderr);
		return;
	}
	print_value(&name);
	while (jsonval_next(launch, &at, &key, &value)) {
		if (jsonval_is(&key, "name") || value.type == JSON_NULL)
			continue;
		fputs(separator, stderr);
		print_value(&key);
		putc(' ', stderr);
		print_value(&value);
		separator = ", ";
	}
	putc('\n', stderr);
}

static void print_list(const struct json_value *list)
{
	struct json_value launch;
	const char *at = NULL;
	size_t nr = 0;

	while (jsonval_next(list, &at, NULL, &launch)) {
		if (!nr)
			fputs("launched and never finished:\n", stderr);
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
