/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/doctor.h"
#include "tools/gputrace.h"
#include "tools/options.h"
#include "tools/plain.h"
#include "tools/table.h"

enum { OPT_FORMAT, OPT_ROOT };

static const struct option_spec specs[] = {
	{ "format", 'f', "FORMAT", "text (default) or json" },
	{ "root", 0, "DIR", "look at the machine whose root is DIR" },
};

enum when { ALWAYS, OF_MACHINE, OF_PROCESS };

static const struct check {
	const char *id, *what;
	enum when when;
	void (*run)(struct doctor *d, struct finding *f);
} checks[] = {
#define X(id, when, what) { #id, what, when, check_##id },
	DOCTOR_CHECKS(X)
#undef X
};

enum { NR_CHECKS = sizeof(checks) / sizeof(*checks) };

/* ---- What the checks use ---- */

void finding_say(struct finding *f, enum verdict verdict, const char *format,
		 ...)
{
	va_list args;

	f->verdict = verdict;
	va_start(args, format);
	vsnprintf(f->detail, sizeof(f->detail), format, args);
	va_end(args);
}

void finding_advise(struct finding *f, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(f->advice, sizeof(f->advice), format, args);
	va_end(args);
}

const char *doctor_env(const struct doctor *d, const char *name)
{
	return process_variable(d->environment, name);
}

/* ---- Output ---- */

static void print_json(const struct check *c, const struct finding *f,
		       bool is_first)
{
	static const char *const verdicts[] = { "ok", "warn", "bad", "-" };
	const char *const member[][2] = {
		{ "id", c->id }, { "status", verdicts[f->verdict] },
		{ "what", c->what }, { "detail", f->detail },
		{ "advice", f->advice },
	};

	fputs(is_first ? "\n{" : ",\n{", stdout);
	for (size_t i = 0; i < sizeof(member) / sizeof(*member); i++) {
		printf("%s\"%s\":", i ? "," : "", member[i][0]);
		table_json_text(stdout, member[i][1]);
	}
	putchar('}');
}

static void print_text(const struct check *c, const struct finding *f)
{
	static const char *const verdicts[] = { "ok", "warn", "bad", "-" };

	printf("%-4s  %s: %s\n", verdicts[f->verdict], c->what, f->detail);
	if (f->advice[0])
		printf("        do: %s\n", f->advice);
}

static void print_end(const struct doctor *d, bool json, int nr_bad)
{
	if (json)
		printf("\n],\"would_trace\":%s}\n", nr_bad ? "false" : "true");
	else if (d->process)
		printf("\npid %ld: %s\n", d->process->pid, nr_bad ?
		       "not traced, or not as it should be: see bad above" :
		       "tracing works");
	else
		printf("\n%s\n", nr_bad ? "tracing would not work: see bad "
		       "above" : "tracing would work");
}

static int run_checks(struct doctor *d, bool json)
{
	bool is_first = true;
	int nr_bad = 0;

	if (json)
		printf("{\"schema\":1,\"checks\":[");
	for (int i = 0; i < NR_CHECKS; i++) {
		struct finding f = { .verdict = VERDICT_NONE };

		if (checks[i].when == (d->process ? OF_MACHINE : OF_PROCESS))
			continue;
		checks[i].run(d, &f);
		plain_make(f.detail, sizeof(f.detail));
		plain_make(f.advice, sizeof(f.advice));
		nr_bad += f.verdict == VERDICT_BAD;
		if (json)
			print_json(&checks[i], &f, is_first);
		else
			print_text(&checks[i], &f);
		is_first = false;
	}
	print_end(d, json, nr_bad);
	if (fflush(stdout) || ferror(stdout))
		return complain("cannot write: %s", strerror(errno));
	return nr_bad ? STATUS_FINDING : STATUS_DONE;
}

/* ---- The command ---- */

/* With a PID all but /proc and /sys is looked at from where the process is. */
static int look_from_process(struct doctor *d, long pid)
{
	char root[PATH_MAX + 64], why[256];

	d->process = process_read(&d->machine, pid, why, sizeof(why));
	if (!d->process) {
		plain_make(why, sizeof(why));
		return complain("doctor: %s", why);
	}
	d->environment = d->process->environment;
	snprintf(root, sizeof(root), "%s%s/root", d->machine.path,
		 d->process->folder);
	if (!access(root, F_OK)) {
		look_fini(&d->seen);
		if (look_init(&d->seen, root))
			return complain("doctor: cannot look into the root of "
					"pid %ld: %s", pid, strerror(errno));
	}
	return STATUS_DONE;
}

static int examine(const char *root, long pid, bool json)
{
	struct doctor *d = calloc(1, sizeof(*d));
	int err, status = STATUS_DONE;

	if (!d)
		return complain("out of memory");
	d->environment = (const char *const *)environ;
	err = look_init(&d->machine, root);
	if (!err)
		err = look_init(&d->seen, root);
	if (err)
		status = complain("doctor: %s: %s", root, strerror(-err));
	else if (pid)
		status = look_from_process(d, pid);
	if (status == STATUS_DONE)
		status = run_checks(d, json);
	process_free(d->process);
	look_fini(&d->machine);
	look_fini(&d->seen);
	free(d);
	return status;
}

int cmd_doctor(int argc, char **argv)
{
	struct options o = {
		.command = "doctor", .usage = "[options] [PID]",
		.about = "Would tracing work on this machine, and does it in "
			"the process PID?  Each check\nis a line: ok, warn, "
			"bad, or - for what cannot be told.  The exit status "
			"is 0 if\ntracing would work, 1 if not, 3 if the "
			"process cannot be looked at.",
		.specs = specs, .nr = sizeof(specs) / sizeof(*specs),
		.argc = argc, .argv = argv,
	};
	const char *root = "/";
	bool json = false;
	int option, status;
	long pid = 0;

	while ((option = options_next(&o)) >= 0) {
		if (option == OPT_ROOT)
			root = o.value;
		else if (!strcmp(o.value, "json") || !strcmp(o.value, "text"))
			json = *o.value == 'j';
		else
			return options_bad_value(&o, option);
	}
	status = options_status(&o, option, NULL);
	if (status >= 0)
		return status;
	if (o.nr_operands > 1)
		return options_usage(&o, "only one PID");
	if (o.nr_operands)
		pid = options_number(argv[1], OPTIONS_PID_MAX);
	if (o.nr_operands && pid <= 0)
		return options_usage(&o, "not a PID: %s", argv[1]);
	return examine(root, pid, json);
}
