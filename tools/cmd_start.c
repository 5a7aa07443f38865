/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "inject/protocol.h"
#include "inject/settings.h"
#include "tools/control_choose.h"
#include "tools/control_file.h"
#include "tools/gputrace.h"

/* Beyond the agreed moment; the driver may hold a start up for seconds. */
enum { ANSWER_MS = 20000 };

enum { OPT_DURATION, OPT_OUT, OPT_TRACE, OPT_AT, OPT_ALL, OPT_MATCH };

static const struct option_spec specs[] = {
	{ "duration", 'd', "TIME", "stop by itself after 5s, 500ms, 2m" },
	{ "out", 'o', "NAME", "a file in the folder of GPUTRACE_OUT;\n"
		"%p pid, %n program, %t time" },
	{ "trace", 't', "LIST", "what to record: " SOURCE_WORDS("\n") },
	{ "at", 0, "WHEN", "begin then: +2s, 12:30:05, or seconds since 1970" },
	CONTROL_SPECS,
};

struct wish {
	const char *duration, *out, *trace;
	uint64_t at_ns;
};

static bool make_line(const struct wish *wish, const struct target *t,
		      char line[PROTOCOL_LINE_MAX])
{
	char path[PATH_MAX], at[24];
	bool fits = true;

	snprintf(line, PROTOCOL_LINE_MAX, "start");
	snprintf(at, sizeof(at), "%llu", (unsigned long long)wish->at_ns);
	if (wish->duration)
		fits &= control_add(line, PROTOCOL_LINE_MAX, "duration",
				    wish->duration);
	if (wish->trace)
		fits &= control_add(line, PROTOCOL_LINE_MAX, "trace",
				    wish->trace);
	if (wish->at_ns)
		fits &= control_add(line, PROTOCOL_LINE_MAX, "at", at);
	if (wish->out)
		fits &= control_name(wish->out, t, path, sizeof(path)) &&
			control_add(line, PROTOCOL_LINE_MAX, "path", path);
	return fits;
}

/* How long the answer may take. */
static int answer_ms(const struct wish *wish)
{
	uint64_t now_ns = control_now_ns(), ahead_ms;

	ahead_ms = wish->at_ns > now_ns ? (wish->at_ns - now_ns) / 1000000 : 0;
	return ANSWER_MS + (ahead_ms < 90000000 ? (int)ahead_ms : 90000000);
}

static int start(struct chosen *chosen, struct wish *wish)
{
	static struct control_reply reply;
	int status = STATUS_DONE;
	char line[PROTOCOL_LINE_MAX], why[sizeof(reply.error) + 64];
	struct control *c = chosen->control;

	if (!wish->at_ns && chosen->found.nr > 1)
		wish->at_ns = control_now_ns() + CONTROL_AHEAD_NS;
	/* To all of them, before the first is waited for. */
	for (size_t i = 0; i < chosen->found.nr; i++)
		if (!make_line(wish, &chosen->found.target[i], line) ||
		    control_send(&c[i], line, -1)) {
			status = complain("start: pid %ld: the request could "
					  "not be sent", c[i].pid);
			control_close(&c[i]);
		}
	for (size_t i = 0; i < chosen->found.nr; i++) {
		if (c[i].fd < 0)
			continue;
		if (control_answer(&c[i], answer_ms(wish), &reply, why,
				   sizeof(why)))
			status = complain("start: %s", why);
		else
			printf("%ld: window %lld\n", c[i].pid,
			       (long long)reply.window);
	}
	return status;
}

int cmd_start(int argc, char **argv)
{
	struct options o = {
		.command = "start", .usage = "[options] PID...",
		.about = "Opens a window in a running process that carries "
			"the library: from now on it\nis recorded, until "
			"'gputrace stop PID' or for a duration.",
		.specs = specs, .nr = sizeof(specs) / sizeof(*specs),
		.argc = argc, .argv = argv,
	};
	struct choice choice = { .all_or_none = true };
	struct wish wish = { 0 };
	struct chosen chosen;
	uint64_t ns;
	int option, status;

	while ((option = options_next(&o)) >= 0) {
		if (option == OPT_DURATION) {
			if (!control_duration(&o, o.value, &ns))
				return STATUS_USAGE;
			wish.duration = o.value;
		} else if (option == OPT_AT) {
			if (!control_at(&o, o.value, &wish.at_ns))
				return STATUS_USAGE;
		} else if (option == OPT_OUT) {
			wish.out = o.value;
		} else if (option == OPT_TRACE) {
			if (!control_trace(&o, o.value))
				return STATUS_USAGE;
			wish.trace = o.value;
		} else if (option == OPT_ALL) {
			choice.all = true;
		} else {
			choice.match = o.value;
		}
	}
	status = options_status(&o, option, NULL);
	if (status >= 0)
		return status;
	status = control_choose(&o, &choice, &chosen);
	if (!status)
		status = start(&chosen, &wish);
	chosen_fini(&chosen);
	return status;
}
