/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inject/protocol.h"
#include "tools/control_choose.h"
#include "tools/control_file.h"
#include "tools/gputrace.h"

/* The server gives a dump 20 s. */
enum { ANSWER_MS = 30000 };

/* As control_verb() wants them. */
static const struct option_spec specs[] = {
	{ "out", 'o', "FILE", "write to FILE, .gz compressed (%p pid, %n\n"
		"program, %t time)" },
	CONTROL_SPECS,
};

static int tell(const struct target *t, const struct control_reply *reply,
		const char *path)
{
	fprintf(stderr, "gputrace: pid %ld: %lld kernels, %lld lost", t->pid,
		(long long)reply->kernels, (long long)reply->lost);
	if (reply->span_ns)
		fprintf(stderr, ", the last %.1f s",
			(double)reply->span_ns / 1e9);
	if (reply->unfinished)
		fprintf(stderr, "; %lld launch%s never finished",
			(long long)reply->unfinished,
			reply->unfinished == 1 ? "" : "es");
	putc('\n', stderr);
	puts(path);
	fflush(stdout);
	if (reply->unfinished)
		control_tell_unfinished(path);
	return STATUS_DONE;
}

/* Without a flight recorder, in a window that goes into a descriptor. */
static int say_elsewhere(const struct target *t)
{
	return complain("dump: pid %ld has no flight recorder, and its window "
			"goes to who started it: that file is up to date now",
			t->pid);
}

/* In the process's own folder. */
static int dump_there(const struct target *t, struct control *c)
{
	static struct control_reply reply;
	char why[sizeof(reply.error) + 64], seen[PATH_MAX + 64];

	if (control_ask(c, "dump", -1, ANSWER_MS, &reply, why, sizeof(why)))
		return complain("dump: %s", why);
	if (!reply.path[0])
		return say_elsewhere(t);
	control_see(t, reply.path, seen, sizeof(seen));
	return tell(t, &reply, seen);
}

/* What it had written when it ended. */
static int keep_part(const struct look *machine, const struct target *t,
		     struct draft *draft, const char *why, bool is_ending)
{
	int error;

	if (!control_rescue(machine, t, draft, is_ending))
		return complain("dump: %s", why);
	complain("dump: %s; there is a part of it", why);
	error = draft_keep(draft);
	if (error)
		return complain("dump: %s: %s", draft->path, strerror(-error));
	puts(draft->path);
	return STATUS_COULD_NOT;
}

/* Into the draft, by its descriptor; or, where that is refused, by a name in
 * the process's folder. */
static int dump_into(const struct look *machine, const struct target *t,
		     struct control *c, struct draft *draft,
		     struct control_reply *reply)
{
	char why[sizeof(reply->error) + 64], line[128];
	bool by_path = false;
	int error;

	snprintf(line, sizeof(line), "dump fd=1 format=%s",
		 draft->is_gz ? "gz" : "json");
	error = control_ask(c, line, draft->fd, ANSWER_MS, reply, why,
			    sizeof(why));
	if (error == -EPROTO && !strcmp(reply->code, PROTOCOL_REFUSED)) {
		by_path = true;
		snprintf(line, sizeof(line), "dump path=.gputrace-dump-%ld-"
			 "%llu.json%s", (long)getpid(),
			 (unsigned long long)control_now_ns(),
			 draft->is_gz ? ".gz" : "");
		error = control_ask(c, line, -1, ANSWER_MS, reply, why,
				    sizeof(why));
	}
	if (error && !by_path)
		return keep_part(machine, t, draft, why, error == -ECONNRESET);
	if (error)
		return complain("dump: %s", why);
	/* Without a flight recorder it is the file that is being written. */
	error = reply->path[0] ? control_fetch(t, reply->path, draft, by_path)
		: 0;
	if (!error && !reply->path[0] && !lseek(draft->fd, 0, SEEK_END))
		return say_elsewhere(t);
	if (!error)
		return STATUS_DONE;
	return complain("dump: pid %ld: %s: %s", t->pid, reply->path,
			strerror(-error));
}

static int dump_here(const struct look *machine, const struct target *t,
		     struct control *c, const char *out)
{
	static struct control_reply reply;
	char path[PATH_MAX] = "";
	struct draft draft = { .fd = -1 };
	int status, error = control_name(out, t, path, sizeof(path)) ?
		draft_open(&draft, path) : -ENAMETOOLONG;

	if (error)
		return complain("dump: %s: %s", path, error == -EINVAL ?
				"not a file's name" : strerror(-error));
	status = dump_into(machine, t, c, &draft, &reply);
	error = status ? 0 : draft_keep(&draft);
	draft_drop(&draft);
	if (error)
		return complain("dump: %s: %s", path, strerror(-error));
	return status ? status : tell(t, &reply, path);
}

static int dump(struct chosen *chosen, const char *out)
{
	int status = chosen->status, err;

	for (size_t i = 0; i < chosen->found.nr; i++) {
		const struct target *t = &chosen->found.target[i];
		struct control *c = &chosen->control[i];

		err = out ? dump_here(&chosen->machine, t, c, out) :
			dump_there(t, c);
		status = err ? err : status;
	}
	return status;
}

int cmd_dump(int argc, char **argv)
{
	struct options o = {
		.command = "dump", .usage = "[options] PID...",
		.about = "Writes what a process's flight recorder "
			"(GPUTRACE_RECORDER) holds, or brings its\nfile up to "
			"date, prints the path, and lists the launches that "
			"never finished.",
		.specs = specs, .nr = sizeof(specs) / sizeof(*specs),
		.argc = argc, .argv = argv,
	};

	return control_verb(&o, dump);
}
