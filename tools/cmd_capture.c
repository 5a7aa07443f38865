/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject/protocol.h"
#include "inject/settings.h"
#include "tools/control_choose.h"
#include "tools/control_file.h"
#include "tools/gputrace.h"

#define NS_PER_MS UINT64_C(1000000)

enum {
	/* Beyond the agreed moment; the driver may hold a start up. */
	START_MS = 20000,
	/* Beyond the duration: work in flight, then a slow disk. */
	WRITE_MS = 60000,
	/* Between two looks at progress and signals. */
	LOOK_MS = 200,
};

enum { OPT_DURATION, OPT_OUT, OPT_TRACE, OPT_AT, OPT_ALL, OPT_MATCH };

static const struct option_spec specs[] = {
	{ "duration", 'd', "TIME", "5s (default), 500ms, 2m" },
	{ "out", 'o', "FILE", "the trace, .gz compressed; %p pid, %n program,\n"
		"%t time (default gputrace-%p-%t.json)" },
	{ "trace", 't', "LIST", "what to record: " SOURCE_WORDS("\n") },
	{ "at", 0, "WHEN", "begin then: +2s, 12:30:05, or seconds since 1970" },
	CONTROL_SPECS,
};

enum stage { STARTING, RUNNING, ENDED };

/* One process. */
struct session {
	const struct target *t;
	struct control *c, *stopper;
	struct draft draft;
	enum stage stage;
	bool by_path;           /* the descriptor was refused */
	uint64_t until_ns;      /* an answer must have come */
};

struct capture {
	const char *duration, *out, *trace;
	uint64_t duration_ns, at_ns;
	struct chosen chosen;
	struct session *sessions;
	size_t nr;
	bool has_stopped;
	int status;
};

static volatile sig_atomic_t nr_signals;

static void note_signal(int number)
{
	(void)number;
	nr_signals++;
}

static void catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = note_signal };

	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaction(signals[i], &action, NULL);
}

/* ---- The end of one ---- */

static void end(struct session *s)
{
	s->stage = ENDED;
	control_close(s->c);
	draft_drop(&s->draft);
}

static void fail(struct capture *capture, struct session *s, const char *why)
{
	capture->status = complain("capture: %s", why);
	end(s);
}

static void keep(struct capture *capture, struct session *s)
{
	int error = draft_keep(&s->draft);

	if (error)
		capture->status = complain("capture: %s: %s; the trace is %s",
					   s->draft.path, strerror(-error),
					   s->draft.hidden);
	else
		puts(s->draft.path);
	fflush(stdout);
	end(s);
}

/* What there is, if it can be read. */
static void keep_part(struct capture *capture, struct session *s,
		      const char *why, bool is_ending)
{
	if (s->by_path || !control_rescue(&capture->chosen.machine, s->t,
					  &s->draft, is_ending)) {
		capture->status = complain("capture: %s; there is no trace of "
					   "it%s", why, s->by_path ?
					   " but what is in the folder of its "
					   "GPUTRACE_OUT" : "");
		end(s);
		return;
	}
	complain("capture: %s; " CONTROL_RESCUED, why);
	keep(capture, s);
}

static void finish(struct capture *capture, struct session *s,
		   const struct control_reply *reply)
{
	char why[PATH_MAX + 128];
	int error = 0;

	/* It went into a file of its own: where it was told to, or in spite of
	 * the descriptor. */
	if (reply->path[0])
		error = control_fetch(s->t, reply->path, &s->draft,
				      s->by_path);
	if (error) {
		snprintf(why, sizeof(why), "pid %ld: %s: %s", s->t->pid,
			 reply->path, strerror(-error));
		fail(capture, s, why);
	} else if (!lseek(s->draft.fd, 0, SEEK_END)) {
		snprintf(why, sizeof(why), "pid %ld did nothing that is "
			 "recorded in this time", s->t->pid);
		fail(capture, s, why);
	} else {
		fprintf(stderr, "gputrace: pid %ld: %lld kernels, %lld lost\n",
			s->t->pid, (long long)reply->kernels,
			(long long)reply->lost);
		keep(capture, s);
	}
}

/* ---- The start of one ---- */

static bool make_line(const struct capture *capture, const struct session *s,
		      char line[PROTOCOL_LINE_MAX])
{
	char text[64];
	bool fits;

	snprintf(line, PROTOCOL_LINE_MAX, "start");
	fits = control_add(line, PROTOCOL_LINE_MAX, "duration",
			   capture->duration);
	snprintf(text, sizeof(text), "%llu",
		 (unsigned long long)capture->at_ns);
	if (capture->at_ns)
		fits &= control_add(line, PROTOCOL_LINE_MAX, "at", text);
	if (capture->trace)
		fits &= control_add(line, PROTOCOL_LINE_MAX, "trace",
				    capture->trace);
	snprintf(text, sizeof(text), ".gputrace-capture-%ld-%llu.json%s",
		 (long)getpid(), (unsigned long long)control_now_ns(),
		 s->draft.is_gz ? ".gz" : "");
	if (s->by_path)
		return fits && control_add(line, PROTOCOL_LINE_MAX, "path",
					   text);
	return fits && control_add(line, PROTOCOL_LINE_MAX, "fd", "1") &&
		control_add(line, PROTOCOL_LINE_MAX, "format",
			    s->draft.is_gz ? "gz" : "json");
}

/* A security module may forbid to pass a descriptor: then by a name in the
 * process's own folder, and copied out of it. */
static void begin(struct capture *capture, struct session *s)
{
	uint64_t now_ns = control_now_ns();
	char line[PROTOCOL_LINE_MAX], why[64];

	s->stage = STARTING;
	s->until_ns = (capture->at_ns > now_ns ? capture->at_ns : now_ns) +
		START_MS * NS_PER_MS;
	if (make_line(capture, s, line) &&
	    !control_send(s->c, line, s->by_path ? -1 : s->draft.fd))
		return;
	if (!s->by_path) {
		s->by_path = true;
		begin(capture, s);
		return;
	}
	snprintf(why, sizeof(why), "pid %ld has ended", s->t->pid);
	fail(capture, s, why);
}

/* The one connection waits for the window's end; another one orders it.  A
 * window that may be open already is ended when its answer has come. */
static void stop(struct capture *capture, struct session *s)
{
	char why[PATH_MAX + 256];

	if (s->stage == STARTING) {
		if (control_now_ns() < capture->at_ns)
			fail(capture, s, "interrupted before it began");
		return;
	}
	s->stopper = calloc(1, sizeof(*s->stopper));
	if (!s->stopper ||
	    control_open(s->stopper, &capture->chosen.machine, s->t, why,
			 sizeof(why)) || control_send(s->stopper, "stop", -1))
		keep_part(capture, s, "interrupted", false);
	s->until_ns = control_now_ns() + WRITE_MS * NS_PER_MS;
}

static void has_begun(struct capture *capture, struct session *s,
		      const struct control_reply *reply)
{
	char line[64], why[64];

	snprintf(line, sizeof(line), "wait window=%lld",
		 (long long)reply->window);
	s->stage = RUNNING;
	s->until_ns = control_now_ns() + capture->duration_ns +
		WRITE_MS * NS_PER_MS;
	snprintf(why, sizeof(why), "pid %ld has ended", s->t->pid);
	if (control_send(s->c, line, -1))
		keep_part(capture, s, why, true);
	else if (capture->has_stopped)
		stop(capture, s);
}

/* ---- All of them ---- */

static void look(struct capture *capture, struct session *s)
{
	static struct control_reply reply;
	char why[sizeof(reply.error) + 64];
	int error = control_answer(s->c, 0, &reply, why, sizeof(why));

	if ((error == -ETIMEDOUT || error == -EINTR) &&
	    control_now_ns() < s->until_ns)
		return;
	if (s->stage == STARTING && !error)
		has_begun(capture, s, &reply);
	else if (s->stage == STARTING && error == -EPROTO && !s->by_path &&
		 !strcmp(reply.code, PROTOCOL_REFUSED)) {
		s->by_path = true;
		begin(capture, s);
	} else if (s->stage == STARTING && error != -ECONNRESET)
		fail(capture, s, why);
	else if (!error)
		finish(capture, s, &reply);
	else
		keep_part(capture, s, why, error == -ECONNRESET);
}

static void obey_signals(struct capture *capture)
{
	for (size_t i = 0; i < capture->nr; i++) {
		struct session *s = &capture->sessions[i];

		if (s->stage == ENDED)
			continue;
		if (nr_signals > 1)
			keep_part(capture, s, "interrupted twice", false);
		else if (!capture->has_stopped)
			stop(capture, s);
	}
	capture->has_stopped = true;
}

static void show_progress(const struct capture *capture, bool ends)
{
	uint64_t now_ns = control_now_ns(), from_ns = capture->at_ns;
	double whole = (double)capture->duration_ns / 1e9, done;

	if (!isatty(STDERR_FILENO))
		return;
	done = now_ns > from_ns ? (double)(now_ns - from_ns) / 1e9 : 0;
	if (ends)
		fputs("\r\033[K", stderr);
	else if (done < whole)
		fprintf(stderr, "\r\033[Kcapture: %.1f of %.1f s", done,
			whole);
	else
		fputs("\r\033[Kcapture: writing", stderr);
}

/* False: all have ended. */
static bool wait_for_any(const struct capture *capture, struct pollfd *polled)
{
	size_t nr = 0;

	for (size_t i = 0; i < capture->nr; i++)
		if (capture->sessions[i].stage != ENDED)
			polled[nr++] = (struct pollfd){
				.fd = capture->sessions[i].c->fd,
				.events = POLLIN,
			};
	if (nr && !nr_signals)
		poll(polled, nr, LOOK_MS);
	else if (nr)
		poll(polled, nr, capture->has_stopped ? LOOK_MS : 0);
	return nr;
}

static void run(struct capture *capture)
{
	struct pollfd *polled = calloc(capture->nr, sizeof(*polled));

	if (!polled) {
		capture->status = complain("out of memory");
		return;
	}
	for (size_t i = 0; i < capture->nr; i++)
		begin(capture, &capture->sessions[i]);
	while (wait_for_any(capture, polled)) {
		show_progress(capture, false);
		if (nr_signals)
			obey_signals(capture);
		for (size_t i = 0; i < capture->nr; i++)
			if (capture->sessions[i].stage != ENDED)
				look(capture, &capture->sessions[i]);
	}
	show_progress(capture, true);
	free(polled);
}

/* The files first: if one cannot be made, nothing begins. */
static int open_drafts(struct capture *capture)
{
	char path[PATH_MAX];
	int error;

	for (size_t i = 0; i < capture->nr; i++) {
		struct session *s = &capture->sessions[i];

		s->t = &capture->chosen.found.target[i];
		s->c = &capture->chosen.control[i];
		s->draft.fd = -1;
		error = control_name(capture->out, s->t, path, sizeof(path)) ?
			draft_open(&s->draft, path) : -ENAMETOOLONG;
		if (error)
			return complain("capture: %s: %s", path, error ==
					-EINVAL ? "not a file's name" :
					strerror(-error));
	}
	return STATUS_DONE;
}

static int capture_all(struct capture *capture)
{
	capture->nr = capture->chosen.found.nr;
	capture->sessions = calloc(capture->nr, sizeof(*capture->sessions));
	if (!capture->sessions)
		return complain("out of memory");
	for (size_t i = 0; i < capture->nr; i++)
		capture->sessions[i].draft.fd = -1;
	if (!capture->at_ns)
		capture->at_ns = control_now_ns() +
			(capture->nr > 1 ? CONTROL_AHEAD_NS : 0);
	capture->status = open_drafts(capture);
	catch_signals();
	if (!capture->status)
		run(capture);
	for (size_t i = 0; i < capture->nr; i++) {
		draft_drop(&capture->sessions[i].draft);
		if (capture->sessions[i].stopper)
			control_close(capture->sessions[i].stopper);
		free(capture->sessions[i].stopper);
	}
	free(capture->sessions);
	return capture->status;
}

/* False: said. */
static bool set_option(const struct options *o, int option,
		       struct capture *capture, struct choice *choice)
{
	switch (option) {
	case OPT_DURATION:
		capture->duration = o->value;
		return control_duration(o, o->value, &capture->duration_ns);
	case OPT_AT:
		return control_at(o, o->value, &capture->at_ns);
	case OPT_OUT:
		capture->out = o->value;
		return true;
	case OPT_TRACE:
		capture->trace = o->value;
		return control_trace(o, o->value);
	case OPT_ALL:
		choice->all = true;
		return true;
	default:
		choice->match = o->value;
		return true;
	}
}

int cmd_capture(int argc, char **argv)
{
	struct options o = {
		.command = "capture", .usage = "[options] PID...",
		.about = "Records a running process that carries the library "
			"for a while, also in a\ncontainer, and fetches the "
			"trace.  Several begin at one moment.",
		.specs = specs, .nr = sizeof(specs) / sizeof(*specs),
		.argc = argc, .argv = argv,
	};
	struct capture capture = {
		.duration = "5s", .duration_ns = 5000 * NS_PER_MS,
		.out = "gputrace-%p-%t.json",
	};
	struct choice choice = { .all_or_none = true };
	int option, status;

	while ((option = options_next(&o)) >= 0)
		if (!set_option(&o, option, &capture, &choice))
			return STATUS_USAGE;
	status = options_status(&o, option, NULL);
	if (status >= 0)
		return status;
	choice.out = capture.out;
	status = control_choose(&o, &choice, &capture.chosen);
	if (!status)
		status = capture_all(&capture);
	chosen_fini(&capture.chosen);
	return status;
}
