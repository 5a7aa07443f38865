/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject/settings.h"
#include "tools/gputrace.h"
#include "tools/library.h"
#include "tools/options.h"

/* A line of --help: what the setting means, and its default. */
static const char *help_of(const struct setting *s, char *text, size_t size)
{
	const char *line = strrchr(s->help, '\n');
	bool is_long = strlen(line ? line + 1 : s->help) +
		strlen(s->fallback) + sizeof(" (default )") - 1 >
		80 - OPTIONS_HELP_COLUMN;

	if (!*s->fallback)
		return s->help;
	snprintf(text, size, "%s%s(default %s)", s->help, is_long ? "\n" :
		 " ", s->fallback);
	return text;
}

/* Each setting is an option; what the environment has already is kept. */
static size_t make_specs(struct option_spec *specs)
{
	static char text[SETTING_NR][256];

	for (size_t i = 0; i < settings_nr; i++)
		specs[i] = (struct option_spec){
			.name = settings_table[i].option, .value = "VALUE",
			.letter = i == SETTING_OUT ? 'o' : 0,
			.help = help_of(&settings_table[i], text[i],
					sizeof(text[i])),
		};
	specs[settings_nr] = (struct option_spec){
		.name = "library", .value = "FILE",
		.help = "the libgputrace.so to load",
	};
	return settings_nr + 1;
}

/* A folder that is not there, said now and not after the program's hours.
 * What a pattern makes of a folder only the program knows. */
static int check_folder(const char *out)
{
	const char *slash = strrchr(out, '/');
	char folder[PATH_MAX];

	if (!slash || slash == out || slash - out >= (long)sizeof(folder))
		return STATUS_DONE;
	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - out), out);
	if (strchr(folder, '%') || !access(folder, W_OK | X_OK))
		return STATUS_DONE;
	return errno == ENOENT ?
		complain("--out: the folder %s does not exist: make it first",
			 folder) :
		complain("--out: nothing can be written in %s: %s", folder,
			 strerror(errno));
}

static int set_setting(const struct options *o, size_t i)
{
	const struct setting *setting = &settings_table[i];
	char why[160] = "bad value";

	if (setting_check(setting, o->value, why, sizeof(why)))
		return options_usage(o, "--%s: %s", setting->option, why);
	if (setenv(setting->name, o->value, 1))
		return complain("cannot set %s: %s", setting->name,
				strerror(errno));
	return i == SETTING_OUT ? check_folder(o->value) : STATUS_DONE;
}

/* The program may change folders before it starts others. */
static int resolve_library(char path[PATH_MAX], const char *given)
{
	if (!realpath(given, path))
		return complain("%s: %s", given, strerror(errno));
	return STATUS_DONE;
}

static int preload(const char *library)
{
	const char *others = getenv("LD_PRELOAD");
	size_t size = strlen(library) + (others ? strlen(others) : 0) + 2;
	char *list;
	int err;

	if (strpbrk(library, " :"))
		return complain("%s: LD_PRELOAD cannot name a path with a "
				"space or a colon", library);
	list = malloc(size);
	if (!list)
		return complain("out of memory");
	snprintf(list, size, "%s%s%s", library, others && *others ? ":" : "",
		 others ? others : "");
	err = setenv("LD_PRELOAD", list, 1);
	free(list);
	/* The library does it too, for all but those whose constructors use
	 * NVTX before its own has run. */
	err = err ? err : setenv("NVTX_INJECTION64_PATH", library, 0);
	return err ? complain("cannot set LD_PRELOAD: %s", strerror(errno)) :
		STATUS_DONE;
}

static int run(char **program, const char *given)
{
	char library[PATH_MAX];
	int err = STATUS_DONE;

	if (given)
		err = resolve_library(library, given);
	else if (!library_beside(library, sizeof(library)))
		err = complain("libgputrace.so is neither in %s nor in "
			       "%s../lib: install it there, or name it with "
			       "--library", library, library);
	if (!err)
		err = preload(library);
	if (err)
		return err;
	execvp(program[0], program);
	return complain("cannot run %s: %s", program[0], strerror(errno));
}

int cmd_record(int argc, char **argv)
{
	struct option_spec specs[SETTING_NR + 1];
	struct options o = {
		.command = "record", .usage = "[options] [--] PROGRAM ...",
		.about = "Runs a program and records what its GPU did.  Each "
			"option sets the variable\nof the same name "
			"(GPUTRACE_OUT ...); see gputrace(1).",
		.specs = specs, .argc = argc, .argv = argv,
		.operands_end = true,
	};
	const char *library = NULL;
	int option, err;

	o.nr = make_specs(specs);
	while ((option = options_next(&o)) >= 0) {
		if ((size_t)option == settings_nr) {
			library = o.value;
			continue;
		}
		err = set_setting(&o, option);
		if (err)
			return err;
	}
	err = options_status(&o, option, "PROGRAM");
	if (err >= 0)
		return err;
	return run(argv + 1, library);
}
