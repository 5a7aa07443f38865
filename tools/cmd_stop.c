/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/control_choose.h"
#include "tools/control_file.h"
#include "tools/gputrace.h"

/* A second for work in flight, then the file is written; a slow disk. */
enum { ANSWER_MS = 60000 };

/* As control_verb() wants them. */
static const struct option_spec specs[] = {
	{ "out", 'o', "FILE", "copy the trace to FILE (%p pid, %n program,\n"
		"%t time), or into this folder" },
	CONTROL_SPECS,
};

/* FILE; or in a folder the name that the file has already. */
static bool name_copy(const char *out, const struct target *t,
		      const char *path, char *name, size_t size)
{
	struct stat st;
	size_t len;

	if (!control_name(out, t, name, size))
		return false;
	if (stat(name, &st) || !S_ISDIR(st.st_mode))
		return true;
	len = strlen(name);
	return (size_t)snprintf(name + len, size - len, "%s",
				strrchr(path, '/')) < size - len;
}

static int copy_out(const struct target *t, const char *path, const char *out)
{
	struct draft draft;
	char name[PATH_MAX];
	int error;

	if (!name_copy(out, t, path, name, sizeof(name)))
		return complain("stop: %s: the name is too long", out);
	error = draft_open(&draft, name);
	if (!error)
		error = control_fetch(t, path, &draft, false);
	if (!error)
		error = draft_keep(&draft);
	else
		draft_drop(&draft);
	if (error)
		return complain("stop: %s: %s; the trace is in the process's "
				"%s", name, strerror(-error), path);
	puts(name);
	return STATUS_DONE;
}

static int tell(const struct target *t, const struct control_reply *reply,
		const char *out)
{
	char seen[PATH_MAX + 64];

	fprintf(stderr, "gputrace: pid %ld: window %lld: %lld kernels, %lld "
		"lost\n", t->pid, (long long)reply->window,
		(long long)reply->kernels, (long long)reply->lost);
	if (reply->path[0] != '/') {
		fprintf(stderr, "gputrace: pid %ld: %s\n", t->pid,
			reply->kernels ? "no file is left: it went to who "
			"started the window, or it was the flight recorder" :
			"nothing was recorded, there is no file");
		return STATUS_DONE;
	}
	if (out)
		return copy_out(t, reply->path, out);
	control_see(t, reply->path, seen, sizeof(seen));
	puts(seen);
	return STATUS_DONE;
}

static int stop(struct chosen *chosen, const char *out)
{
	static struct control_reply reply;
	char why[sizeof(reply.error) + 64];
	int status = chosen->status, err;
	struct control *c = chosen->control;

	for (size_t i = 0; i < chosen->found.nr; i++)
		if (control_send(&c[i], "stop", -1))
			control_close(&c[i]);
	for (size_t i = 0; i < chosen->found.nr; i++) {
		err = control_answer(&c[i], ANSWER_MS, &reply, why,
				     sizeof(why)) ?
			complain("stop: %s", why) :
			tell(&chosen->found.target[i], &reply, out);
		status = err ? err : status;
	}
	return status;
}

int cmd_stop(int argc, char **argv)
{
	struct options o = {
		.command = "stop", .usage = "[options] PID...",
		.about = "Closes the window that is open in a process, waits "
			"until its file is complete\nand prints its path.",
		.specs = specs, .nr = sizeof(specs) / sizeof(*specs),
		.argc = argc, .argv = argv,
	};

	return control_verb(&o, stop);
}
