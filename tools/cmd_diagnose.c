/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/diagnose.h"
#include "tools/gputrace.h"
#include "tools/options.h"

enum { OPT_STEP, OPT_FORMAT, OPT_FAIL_ON, OPT_LIMITS };

static const struct option_spec specs[] = {
	{ "step", 0, "NAME", "the range that is a step (a trailing number is\n"
		"ignored); default: ProfilerStep#N, else step,\n"
		"else kernel sequences that repeat" },
	{ "format", 'f', "FORMAT", "text (default) or json" },
	{ "fail-on", 0, "SEVERITY", "exit 1 on a finding of info, warning or\n"
		"critical, or worse" },
	{ "idle", 0, "PERCENT", "gaps: idle GPU; default 10" },
	{ "launch-bound", 0, "PERCENT", "waiting for launches; default 5" },
	{ "sync", 0, "PERCENT", "waits in one place; default 5" },
	{ "copies", 0, "PERCENT", "copies that hold up the loop; default 2" },
	{ "overlap", 0, "PERCENT", "streams that take turns; default 5" },
	{ "dominant", 0, "PERCENT", "one kernel, of all kernels; default 40" },
	{ "tiny-saving", 0, "PERCENT", "what fusing tiny kernels saves;\n"
		"default 3" },
	{ "imbalance", 0, "PERCENT", "between GPUs; default 10" },
	{ "host-wait", 0, "US", "a pause between two calls this long is no\n"
		"launching; default 500" },
	{ "tiny", 0, "US", "a kernel shorter than this is tiny; default 10" },
};

static int64_t *limit(struct limits *l, int option)
{
	int64_t *const limits[] = {
		&l->idle, &l->launch, &l->sync, &l->copy, &l->overlap,
		&l->dominant, &l->tiny_saving, &l->imbalance,
		&l->host_wait_ns, &l->tiny_ns,
	};

	return limits[option - OPT_LIMITS];
}

/* A number >= 0 with a fraction; returns false if the text is none. */
static bool parse_limit(int option, const char *value, int64_t *out)
{
	bool is_share = strcmp(specs[option].value, "US");
	double most = is_share ? 100 : 1e9, n;
	char *end;

	if (*value < '0' || *value > '9')
		return false;
	n = strtod(value, &end);
	if (*end == '%' && is_share)
		end++;
	if (*end || !(n >= 0 && n <= most))
		return false;
	*out = n * (is_share ? 1e4 : 1e3);
	return true;
}

struct choices {
	const char *step;
	bool json;
	enum severity fail_on;  /* NONE: never */
};

static bool set_option(struct choices *c, struct limits *limits, int option,
		       const char *value)
{
	switch (option) {
	case OPT_STEP:
		c->step = value;
		return *value;
	case OPT_FORMAT:
		c->json = !strcmp(value, "json");
		return c->json || !strcmp(value, "text");
	case OPT_FAIL_ON:
		for (int i = SEVERITY_INFO; i < SEVERITIES; i++)
			if (!strcmp(value, severity_names[i]))
				c->fail_on = i;
		return c->fail_on;
	default:
		return parse_limit(option, value, limit(limits, option));
	}
}

static int has_failed(const struct diagnosis *d, enum severity fail_on)
{
	for (int i = 0; fail_on && i < FOUND_IDS; i++)
		if (d->found[i].severity >= fail_on)
			return STATUS_FINDING;
	return STATUS_DONE;
}

/* A step that is asked for and not there is a mistake, not a trace without
 * steps. */
static bool has_steps(const struct diagnosis *d)
{
	for (size_t i = 0; i < d->m.nr_files; i++)
		if (d->steps[i].nr)
			return true;
	return false;
}

static int read_and_print(struct diagnosis *d, const struct choices *c,
			  char **paths)
{
	struct trace_problem problem = { .has_offset = false };
	int err;

	for (; *paths; paths++)
		if (model_add_file(&d->m, *paths, &problem))
			return complain_file(*paths, &problem);
	model_finish(&d->m);
	if (d->m.no_memory || diagnose(d, c->step))
		return complain("out of memory");
	if (c->step && !has_steps(d))
		return complain("no range is named %s", c->step);
	if (d->m.nr_bad_times)
		complain("%" PRIu64 " events without a usable time are left "
			 "out", d->m.nr_bad_times);
	err = diagnose_print(d, stdout, c->json);
	return err ? complain("cannot write: %s", strerror(-err)) :
		has_failed(d, c->fail_on);
}

int cmd_diagnose(int argc, char **argv)
{
	struct diagnosis d = { .limits = default_limits };
	struct choices c = { .step = NULL };
	struct options o = {
		.command = "diagnose", .usage = "[options] FILE...",
		.about = "What is slow, why, where it is seen, what to do and "
			"what it would save.\nFILE is a trace of gputrace or "
			"of the PyTorch profiler; several are the ranks\nof "
			"one run.",
		.specs = specs, .nr = sizeof(specs) / sizeof(*specs),
		.argc = argc, .argv = argv,
	};
	int option, status;

	while ((option = options_next(&o)) >= 0)
		if (!set_option(&c, &d.limits, option, o.value))
			return options_bad_value(&o, option);
	status = options_status(&o, option, "FILE");
	if (status >= 0)
		return status;
	if (o.nr_operands > UINT16_MAX)
		return options_usage(&o, "too many files");
	model_init(&d.m);
	status = read_and_print(&d, &c, argv + 1);
	diagnose_fini(&d);
	return status;
}
