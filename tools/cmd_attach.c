/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject/settings.h"
#include "tools/attach.h"
#include "tools/gputrace.h"
#include "tools/library.h"
#include "tools/options.h"
#include "tools/plain.h"
#include "tools/target.h"

/* From the load to the tracer's start: CUPTI's took up to a second on a GPU;
 * longer where the program is in cuInit. */
enum { LOOKS = 2000, SOCKET_LOOKS = 400, LOOK_US = 5000 };

enum { OPTION_OUT, OPTION_SET, OPTION_FORCE, OPTION_LIBRARY };

static const struct option_spec specs[] = {
	{ "out", 'o', "FILE", "record into this file at once, instead of\n"
		"waiting for gputrace capture" },
	{ "set", 0, "NAME=VALUE", "a setting of the library\n"
		"(GPUTRACE_TRACE=cuda), may be repeated" },
	{ "force", 0, NULL, "also without CUDA, or with a seccomp\n"
		"filter of the program's own" },
	{ "library", 0, "FILE", "the libgputrace.so to load" },
};

struct choices {
	const char *library;
	bool force, has_settings;
	char out[PATH_MAX];     /* of --out, from the root on; or "" */
	char settings[16384];   /* lines; the last of a name counts */
};

static bool add(struct choices *c, const char *name, int name_len,
		const char *folder, const char *value)
{
	size_t len = strlen(c->settings), room = sizeof(c->settings) - len;

	return snprintf(c->settings + len, room, "%.*s=%s%s%s\n", name_len,
			name, folder, *folder ? "/" : "", value) < (int)room;
}

static int set(struct choices *c, const struct options *o, const char *text)
{
	const char *equals = strchr(text, '=');
	size_t len = equals ? (size_t)(equals - text) : 0;
	char why[160] = "bad value";

	for (size_t i = 0; len && i < settings_nr; i++) {
		if (strlen(settings_table[i].name) != len ||
		    memcmp(settings_table[i].name, text, len))
			continue;
		if (strchr(equals, '\n') || setting_check(&settings_table[i],
				equals + 1, why, sizeof(why)))
			return options_usage(o, "%s: %s", text, why);
		return add(c, text, (int)len, "", equals + 1) ? STATUS_DONE :
			options_usage(o, "%s: too long", text);
	}
	return options_usage(o, "%s: not a setting (GPUTRACE_NAME=VALUE)",
			     text);
}

/* Relative to where we are, which the process may not be. */
static int set_out(struct choices *c, const struct options *o,
		   const char *file)
{
	const char *name = settings_table[SETTING_OUT].name;
	const char *start = settings_table[SETTING_START].name;
	char folder[PATH_MAX] = "";

	if (*file != '/' && !getcwd(folder, sizeof(folder)))
		return complain("the folder of this shell is gone");
	snprintf(c->out, sizeof(c->out), "%s%s%s", folder, *folder ? "/" : "",
		 file);
	if (strchr(file, '\n') || strchr(folder, '\n') ||
	    !add(c, name, (int)strlen(name), folder, file) ||
	    !add(c, start, (int)strlen(start), "", "now"))
		return options_usage(o, "%s: too long, or a newline", file);
	return STATUS_DONE;
}

static int take(struct choices *c, const struct options *o, int option)
{
	c->has_settings |= option == OPTION_OUT || option == OPTION_SET;
	switch (option) {
	case OPTION_OUT:
		return set_out(c, o, o->value);
	case OPTION_SET:
		return set(c, o, o->value);
	case OPTION_FORCE:
		c->force = true;
		break;
	case OPTION_LIBRARY:
		c->library = o->value;
		break;
	}
	return STATUS_DONE;
}

static int find_library(const struct choices *c, char path[PATH_MAX])
{
	char found[PATH_MAX];

	if (!c->library && !library_beside(found, sizeof(found)))
		return complain("libgputrace.so is neither in %s nor in "
				"%s../lib: install it there, or name it with "
				"--library", found, found);
	if (!realpath(c->library ? c->library : found, path))
		return complain("%s: there is no such file", c->library ?
				c->library : found);
	return STATUS_DONE;
}

/* True when the tracer's threads are there, and the one that started them
 * (inject/preload.c) is through: what comes now is recorded. */
static bool wait_attached(pid_t pid)
{
	for (int i = 0; i < LOOKS && attach_has_thread(pid, "gputrace-attach");
	     i++)
		usleep(LOOK_US);
	return attach_has_thread(pid, "gputrace-writer");
}

/* A thread of its own opens the socket that capture needs. */
static void wait_socket(long pid)
{
	static struct target t;
	struct look machine = { .fd = -1 };

	for (int i = 0; i < SOCKET_LOOKS; i++) {
		target_read(&machine, pid, NULL, &t);
		if (t.reach == REACH_SOCKET) {
			fprintf(stderr, "gputrace: next: gputrace capture "
				"%ld\n", pid);
			return;
		}
		usleep(LOOK_US);
	}
	complain("pid %ld opened no control socket, which gputrace capture "
		 "needs (GPUTRACE_CONTROL, or its stderr, says why)", pid);
}

/* Said, if it is so. */
static bool has_ended(long pid)
{
	struct look machine = { .fd = -1 };
	char why[256];
	struct process *p = process_read(&machine, pid, why, sizeof(why));

	if (!p)
		complain("%s", why);
	process_free(p);
	return !p;
}

static int report(const struct attach *a, const struct choices *c)
{
	const struct process *p = a->process;
	bool records = strstr(c->settings, "GPUTRACE_START=now\n");

	if (!process_find(p, "/libcuda.so", NULL)) {
		printf("pid %ld (%s): loaded %s; waits for CUDA\n", p->pid,
		       p->name, a->path);
		return STATUS_DONE;
	}
	if (!wait_attached((pid_t)p->pid)) {
		if (has_ended(p->pid))
			return STATUS_COULD_NOT;
		printf("pid %ld (%s): loaded %s\n", p->pid, p->name, a->path);
		return complain("pid %ld does not trace yet: CUDA has not "
				"started in it, or its stderr says why not; "
				"see gputrace doctor %ld", p->pid, p->pid);
	}
	printf("pid %ld (%s): attached %s; %s\n", p->pid, p->name, a->path,
	       records ? "records" : "sleeps");
	fflush(stdout);
	if (!records)
		wait_socket(p->pid);
	return STATUS_DONE;
}

static int refuse(struct attach *a)
{
	plain_make(a->why, sizeof(a->why));
	return complain("%s", a->why);
}

/* It reads its settings once; an attach that was killed may have been ours. */
static int report_there(struct attach *a, const struct choices *c)
{
	plain_make(a->path, sizeof(a->path));
	plain_make(a->process->name, sizeof(a->process->name));
	printf("pid %ld (%s): the library is there already: %s\n",
	       a->process->pid, a->process->name, a->path);
	fflush(stdout);
	if (c->has_settings)
		complain("pid %ld keeps the settings that it was loaded with, "
			 "not these: gputrace capture %ld -o FILE records it",
			 a->process->pid, a->process->pid);
	return STATUS_DONE;
}

/* Or the library would find out, and give up for good.  Of a pattern nothing
 * can be told. */
static bool sees_folder(const struct process *p, const char *out)
{
	const char *slash = strrchr(out, '/');
	char root[PATH_MAX], folder[PATH_MAX];
	struct look its = { .fd = -1 };
	bool sees;

	if (!slash)
		return true;
	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - out) + 1, out);
	snprintf(root, sizeof(root), "%s/root", p->folder);
	if (strchr(folder, '%') || look_init(&its, root))
		return true;
	sees = look_has(&its, folder);
	look_fini(&its);
	return sees;
}

static int attach(struct attach *a, const struct choices *c, long pid)
{
	int found = attach_check(a, pid);

	if (found < 0)
		return refuse(a);
	if (found > 0)
		return report_there(a, c);
	if (!sees_folder(a->process, c->out))
		return complain("pid %ld sees no folder for %s: --out is a "
				"file as the process sees it", pid, c->out);
	if (attach_place(a))
		return refuse(a);
	if (attach_load(a)) {
		attach_unplace(a);
		return refuse(a);
	}
	plain_make(a->path, sizeof(a->path));
	plain_make(a->process->name, sizeof(a->process->name));
	return report(a, c);
}

int cmd_attach(int argc, char **argv)
{
	static struct choices c;
	static struct attach a = { .memory = { .fd = -1 } };
	struct options o = {
		.command = "attach", .usage = "[options] PID",
		.about = "Loads the library into a process that runs without "
			"it.\nIt sleeps there until gputrace capture, or "
			"records into FILE.",
		.specs = specs, .nr = sizeof(specs) / sizeof(*specs),
		.argc = argc, .argv = argv,
	};
	const char *control = settings_table[SETTING_CONTROL].name;
	char library[PATH_MAX];
	int option, status;
	long pid;

	/* Also past a filter, where --force brought it so far.  What the user
	 * sets comes behind it, and counts. */
	(void)add(&c, control, (int)strlen(control), "", "on");
	while ((option = options_next(&o)) >= 0) {
		status = take(&c, &o, option);
		if (status)
			return status;
	}
	status = options_status(&o, option, "PID");
	if (status >= 0)
		return status;
	pid = options_number(argv[1], OPTIONS_PID_MAX);
	if (o.nr_operands != 1 || pid <= 0)
		return options_usage(&o, "one process id, please");
	if (find_library(&c, library))
		return STATUS_COULD_NOT;
	a.force = c.force;
	a.library = library;
	a.settings = c.settings;
	status = attach(&a, &c, pid);
	memory_close(&a.memory);
	process_free(a.process);
	return status;
}
