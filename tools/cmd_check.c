/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/check.h"
#include "tools/gputrace.h"
#include "tools/jsonval.h"
#include "tools/options.h"

enum { OPT_PROFILE, OPT_STRICT, OPT_MAX, OPT_QUIET };

static const struct option_spec specs[] = {
	{ "profile", 'p', "NAME", "perfetto, hta, kineto or all (default)" },
	{ "strict", 's', NULL, "warnings count as findings, too" },
	{ "max", 'm', "N", "lines for each rule (default 10)" },
	{ "quiet", 'q', NULL, "only the findings" },
};

enum { P = CHECK_PERFETTO, H = CHECK_HTA, K = CHECK_KINETO };
enum severity { WARNING, ERROR };

static const struct rule {
	const char *id, *text;
	enum severity severity;
	unsigned profiles;
} rules[NR_RULES] = {
#define X(id, severity, profiles, text) { #id, text, severity, profiles },
	CHECK_RULES(X)
#undef X
};

/* A detail may hold any bytes of the file, and a terminal is no place for
 * them: all but printable ASCII becomes '?', and the rest is cut. */
static void print_detail(const char *format, va_list args)
{
	char text[120];
	int len = vsnprintf(text, sizeof(text), format, args);

	for (char *p = text; *p; p++)
		if (*p < 0x20 || *p > 0x7e)
			*p = '?';
	printf(" (%s%s)\n", text, len >= (int)sizeof(text) ? "..." : "");
}

void check_note(struct check *c, enum check_rule rule, uint64_t event,
		const char *format, ...)
{
	const struct rule *r = &rules[rule];
	va_list args;

	if (!(r->profiles & c->profiles))
		return;
	*(r->severity == ERROR ? &c->errors : &c->warnings) += 1;
	if (c->count[rule]++ >= c->limit)
		return;
	printf("%s: %s %s", c->path, r->id,
	       r->severity == ERROR ? "error" : "warning");
	if (event != CHECK_NO_EVENT)
		printf(" event %" PRIu64, event);
	if (event != CHECK_NO_EVENT && event == c->event)
		printf(" byte %" PRIu64, c->offset);
	printf(": %s", r->text);
	va_start(args, format);
	print_detail(format, args);
	va_end(args);
}

void check_fini(struct check *c)
{
	intern_fini(&c->names);
	pairs_fini(&c->lane_of);
	pairs_fini(&c->process_of);
	pairs_fini(&c->call_of);
	pairs_fini(&c->flow_names);
	pairs_fini(&c->flow_of);
	free(c->entries);
	free(c->lanes);
	free(c->processes);
	free(c->calls);
	free(c->work);
	free(c->devices);
}

/* What the scanner stepped over since the last call. */
static void check_faults(struct check *c, struct trace *t, uint64_t event,
			 uint64_t event_offset)
{
	static const enum check_rule rule_of[JSON_FAULTS] = {
		[JSON_FAULT_NONFINITE] = RULE_P002,
		[JSON_FAULT_CONTROL] = RULE_P003,
		[JSON_FAULT_UTF8] = RULE_P004,
		[JSON_FAULT_SURROGATE] = RULE_P005,
		[JSON_FAULT_TWICE] = RULE_P006,
	};
	uint64_t at[JSON_FAULTS];
	unsigned faults = trace_faults(t, at);

	for (int i = 0; faults && i < JSON_FAULTS; i++) {
		bool in_event = event != CHECK_NO_EVENT &&
			at[i] >= event_offset;

		if (!(faults & 1u << i) ||
		    (i == JSON_FAULT_SURROGATE && !in_event))
			continue;
		check_note(c, rule_of[i], in_event ? event : CHECK_NO_EVENT,
			   "at byte %" PRIu64, at[i]);
	}
}

/* For people: printable ASCII, whatever the file says. */
static void print_text(const struct json_value *text)
{
	char name[64];

	jsonval_string(text, name, sizeof(name));
	for (char *p = name; *p; p++)
		if (*p < 0x20 || *p > 0x7e)
			*p = '?';
	printf("%s\n", name);
}

/* What the recorder's watchdog saw of CUPTI, and why it stopped early. */
static void print_faults(const struct check *c, const struct trace *t)
{
	const struct json_value *own = trace_header(t, HEADER_GPUTRACE);
	struct json_value faults = jsonval_member(own, "watchdog");
	struct json_value stopped = jsonval_member(own, "stopped");
	struct json_value fault, text;
	const char *at = NULL;

	while (faults.type == JSON_ARRAY &&
	       jsonval_next(&faults, &at, NULL, &fault)) {
		text = jsonval_member(&fault, "fault");
		printf("%s: seen while recording: ", c->path);
		print_text(&text);
	}
	if (stopped.type == JSON_STRING) {
		printf("%s: recording was stopped by ", c->path);
		print_text(&stopped);
	}
}

static void print_losses(const struct check *c, const struct trace *t)
{
	struct json_value losses = jsonval_member(
		trace_header(t, HEADER_GPUTRACE), "losses");
	struct json_value cause, n;
	const char *at = NULL;
	char name[64];

	while (losses.type == JSON_OBJECT &&
	       jsonval_next(&losses, &at, &cause, &n)) {
		jsonval_string(&cause, name, sizeof(name));
		for (char *p = name; *p; p++)
			if (*p < 0x20 || *p > 0x7e)
				*p = '?';
		if (jsonval_real(&n) != 0)
			printf("%s: lost while recording: %.*s x %s\n",
			       c->path, n.len < 24 ? (int)n.len : 24, n.text,
			       name);
	}
}

static void print_counts(const struct check *c, const struct trace *t)
{
	for (int i = 0; i < NR_RULES; i++)
		if (c->count[i] > c->limit)
			printf("%s: %s: %" PRIu64 " times in all\n", c->path,
			       rules[i].id, c->count[i]);
	print_losses(c, t);
	print_faults(c, t);
	printf("%s: %s: %" PRIu64 " errors, %" PRIu64 " warnings; %" PRIu64
	       " events, %" PRIu64 " kernels, %" PRIu64 " copies and sets, %"
	       PRIu64 " API calls, %" PRIu64 " arrows, %" PRIu64 " bytes\n",
	       c->path, c->errors ? "NOT VALID" : "valid", c->errors,
	       c->warnings, c->nr_events, c->nr_kernels, c->nr_copies,
	       c->nr_api, c->nr_arrows, trace_shape(t)->size);
}

static int check_whole(struct check *c, struct trace *t)
{
	struct trace_event ev;
	int more;

	while ((more = trace_next(t, &ev)) > 0 && !c->no_memory) {
		check_event(c, &ev);
		check_faults(c, t, ev.index, ev.offset);
	}
	if (more < 0)
		return complain_file(c->path, trace_problem(t));
	c->event = CHECK_NO_EVENT;
	check_faults(c, t, CHECK_NO_EVENT, 0);
	check_header(c, t);
	check_lanes(c);
	check_links(c);
	check_names(c);
	return c->no_memory ? complain("%s: out of memory", c->path) :
		STATUS_DONE;
}

static int check_file(struct check *c, const char *path, bool strict,
		      bool quiet)
{
	struct trace_problem problem;
	struct trace *t = trace_open(path, TRACE_STRICT, &problem);
	int status;

	c->path = path;
	if (!t)
		return complain_file(path, &problem);
	trace_on_member(t, check_member, c);
	status = check_whole(c, t);
	if (status == STATUS_DONE && !quiet)
		print_counts(c, t);
	if (status == STATUS_DONE && (c->errors || (strict && c->warnings)))
		status = STATUS_FINDING;
	trace_close(t);
	check_fini(c);
	return status;
}

static bool set_profile(struct check *c, const char *name)
{
	static const struct {
		const char *name;
		unsigned profiles;
	} profiles[] = {
		{ "perfetto", P }, { "hta", H }, { "kineto", K },
		{ "all", CHECK_ALL },
	};

	for (int i = 0; i < 4; i++) {
		if (strcmp(name, profiles[i].name))
			continue;
		c->profiles = profiles[i].profiles;
		return true;
	}
	return false;
}

int cmd_check(int argc, char **argv)
{
	struct options o = {
		.command = "check", .usage = "[options] FILE...",
		.about = "Is a trace valid, complete, and what Perfetto, HTA "
			"and Kineto's readers expect?\nEach finding is a "
			"line; the exit status is 1 if a rule is broken.",
		.specs = specs, .nr = sizeof(specs) / sizeof(*specs),
		.argc = argc, .argv = argv,
	};
	struct check options = { .profiles = CHECK_ALL, .limit = 10 };
	bool strict = false, quiet = false, good = true;
	int option, status;

	while (good && (option = options_next(&o)) >= 0) {
		if (option == OPT_PROFILE) {
			good = set_profile(&options, o.value);
		} else if (option == OPT_MAX) {
			long n = options_number(o.value, 1000000000);

			good = n >= 0;
			options.limit = n;
		}
		strict |= option == OPT_STRICT;
		quiet |= option == OPT_QUIET;
	}
	if (!good)
		return options_bad_value(&o, option);
	status = options_status(&o, option, "FILE");
	if (status >= 0)
		return status;
	status = STATUS_DONE;
	for (char **path = argv + 1; *path; path++) {
		struct check c = options;
		int one = check_file(&c, *path, strict, quiet);

		status = one > status ? one : status;
	}
	return status;
}
