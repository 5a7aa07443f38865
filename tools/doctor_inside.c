/* SPDX-License-Identifier: MIT */
/* The process: is the library in it, is CUDA, and has the one met the other? */
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "tools/doctor.h"
#include "tools/target.h"

static const char library_name[] = "libgputrace.so";
static const char restart[] = "start it again with: gputrace record -- PROGRAM";

void check_process(struct doctor *d, struct finding *f)
{
	const struct process *p = d->process;
	char path[64], exe[PATH_MAX], inside[48] = "";

	snprintf(path, sizeof(path), "%s/exe", p->folder);
	if (look_link(&d->machine, path, exe, sizeof(exe)) < 0)
		snprintf(exe, sizeof(exe), "its program cannot be read");
	if (p->inner_pid && p->inner_pid != p->pid)
		snprintf(inside, sizeof(inside), ", pid %ld in its container",
			 p->inner_pid);
	finding_say(f, VERDICT_OK, "pid %ld, %s (%s), uid %ld%s%s", p->pid,
		    p->name, exe, p->uid, inside,
		    p->state == 'T' || p->state == 't' ? ", stopped" : "");
}

struct refusal {
	const char *why, *advice;
};

/* Why the loader would not take an LD_PRELOAD in this program at all. */
static struct refusal never_preloaded(const struct doctor *d)
{
	static const struct refusal secure = {
		"it is setuid or has file capabilities, so the loader ignores "
			"the path in LD_PRELOAD",
		"run it without these privileges",
	}, is_static = {
		"it is linked statically and knows no LD_PRELOAD",
		"link it without -static",
	}, musl = {
		"its C library is musl, and libgputrace.so needs glibc",
		"use an image with glibc (Debian, Ubuntu, RHEL)",
	};
	struct refusal found = { NULL, NULL };
	char path[PATH_MAX], exe[PATH_MAX], real[PATH_MAX];
	struct elf e;

	if (process_auxv(&d->machine, d->process, AT_SECURE))
		return secure;
	snprintf(path, sizeof(path), "%s/exe", d->process->folder);
	if (look_link(&d->machine, path, exe, sizeof(exe)) < 0 ||
	    !doctor_open_elf(d, exe, real, &e))
		return found;
	if (!e.interp[0])
		found = is_static;
	else if (strstr(e.interp, "ld-musl"))
		found = musl;
	elf_close(&e);
	return found;
}

/* The word of LD_PRELOAD that names the library; false if none does. */
static bool preload_word(const struct doctor *d, char *word, size_t size)
{
	const char *list = doctor_env(d, "LD_PRELOAD");

	while (list && *list) {
		size_t len = strcspn(list, " :");

		snprintf(word, size, "%.*s", (int)len, list);
		if (strstr(word, library_name))
			return true;
		list += len + (list[len] != '\0');
	}
	return false;
}

static void say_not_loaded(const struct doctor *d, struct finding *f)
{
	const char *injected = doctor_env(d, "CUDA_INJECTION64_PATH");
	struct refusal never = never_preloaded(d);
	char word[PATH_MAX];

	finding_advise(f, "%s", restart);
	if (injected && strstr(injected, library_name) &&
	    !process_find(d->process, "/libcuda.so", NULL)) {
		finding_say(f, VERDICT_OK, "not loaded yet: "
			    "CUDA_INJECTION64_PATH=%s brings it when CUDA "
			    "starts", injected);
		finding_advise(f, "%s", "");
	} else if (never.why) {
		finding_say(f, VERDICT_BAD, "not loaded: %s", never.why);
		finding_advise(f, "%s", never.advice);
	} else if (!preload_word(d, word, sizeof(word))) {
		finding_say(f, VERDICT_BAD, "not loaded: it was started "
			    "without %s in LD_PRELOAD", library_name);
	} else if (*word == '/' && !look_has(&d->seen, word)) {
		finding_say(f, VERDICT_BAD, "not loaded: LD_PRELOAD names %s, "
			    "which is not there (as the process sees it)",
			    word);
		finding_advise(f, "put the file there, or mount it into the "
			       "container, and %s", restart);
	} else {
		finding_say(f, VERDICT_BAD, "not loaded, though LD_PRELOAD "
			    "names %s: the loader said why on its stderr, or "
			    "the variable was set after the start", word);
	}
}

void check_preload(struct doctor *d, struct finding *f)
{
	const struct mapped *m = process_find(d->process, "/libgputrace.so",
					      NULL);
	char real[PATH_MAX], version[32] = "";
	struct elf e;

	if (!m) {
		say_not_loaded(d, f);
		return;
	}
	if (!m->is_deleted && doctor_open_elf(d, m->path, real, &e)) {
		snprintf(version, sizeof(version), "%s", e.version);
		elf_close(&e);
	}
	if (m->is_deleted) {
		finding_say(f, VERDICT_WARN, "%s, but the file was replaced or "
			    "removed since: the old one runs on", m->path);
		finding_advise(f, "%s", restart);
	} else if (!version[0]) {
		finding_say(f, VERDICT_WARN, "%s, which does not tell its "
			    "version", m->path);
	} else if (strcmp(version, GPUTRACE_VERSION)) {
		finding_say(f, VERDICT_WARN, "%s, version %s; this command is "
			    "%s", m->path, version, GPUTRACE_VERSION);
		finding_advise(f, "use the command and the library of one "
			       "version");
	} else {
		finding_say(f, VERDICT_OK, "%s, version %s", m->path, version);
	}
}

void check_cuda(struct doctor *d, struct finding *f)
{
	const struct mapped *m = process_find(d->process, "/libcuda.so", NULL);
	char real[PATH_MAX];
	struct elf e;

	if (!m) {
		finding_say(f, VERDICT_NONE, "not in use: nothing to record");
		return;
	}
	if (doctor_open_elf(d, m->path, real, &e)) {
		d->simulated = elf_has_name(&e, "sim_env_number");
		elf_close(&e);
	}
	if (strstr(m->path, "/stubs/")) {
		finding_say(f, VERDICT_BAD, "%s is the toolkit's stub for "
			    "linking, not the driver", m->path);
		finding_advise(f, "take the folder stubs out of "
			       "LD_LIBRARY_PATH");
	} else if (d->simulated) {
		finding_say(f, VERDICT_OK, "in use: %s, the simulated GPU",
			    m->path);
	} else if (d->process->has_gpu) {
		finding_say(f, VERDICT_OK, "in use: %s, and the GPU is open",
			    m->path);
	} else {
		finding_say(f, VERDICT_NONE, "%s is loaded, but no GPU is "
			    "open: cuInit was not called yet, or failed",
			    m->path);
	}
}

static void say_not_attached(const struct doctor *d, struct finding *f)
{
	const char *injection = doctor_env(d, "CUDA_INJECTION64_PATH");
	const char *sources = doctor_env(d, "GPUTRACE_TRACE");

	if (injection && !strstr(injection, library_name)) {
		finding_say(f, VERDICT_BAD, "not started: the driver loaded "
			    "CUDA_INJECTION64_PATH=%s instead", injection);
		finding_advise(f, "unset CUDA_INJECTION64_PATH");
	} else if (sources && !strstr(sources, "cuda")) {
		finding_say(f, VERDICT_BAD, "not started: GPUTRACE_TRACE=%s "
			    "leaves CUDA out", sources);
		finding_advise(f, "unset GPUTRACE_TRACE");
	} else {
		finding_say(f, VERDICT_BAD, "not started, though CUDA is in "
			    "use: a line of its stderr (gputrace: not "
			    "tracing: ...) says why; a child that was forked "
			    "after CUDA's start is never traced");
		finding_advise(f, "read its stderr, or start it with "
			       "GPUTRACE_LOG=info:/tmp/gputrace.log");
	}
}

void check_attached(struct doctor *d, struct finding *f)
{
	const struct process *p = d->process;
	bool loaded = process_find(p, "/libgputrace.so", NULL);
	bool in_use = process_find(p, "/libcuda.so", NULL) &&
		(p->has_gpu || d->simulated);

	if (!loaded)
		finding_say(f, VERDICT_NONE, "the library is not loaded");
	else if (p->has_writer && p->has_flush)
		finding_say(f, VERDICT_OK, "attached: its threads "
			    "gputrace-writer and gputrace-flush are there");
	else if (p->has_writer || p->has_flush)
		finding_say(f, VERDICT_WARN, "only its thread %s is there: it "
			    "starts or ends just now, or gave up",
			    p->has_writer ? "gputrace-writer" :
			    "gputrace-flush");
	else if (!in_use)
		finding_say(f, VERDICT_NONE, "waits for the program to use "
			    "CUDA, without a thread or a file");
	else
		say_not_attached(d, f);
}

void check_socket(struct doctor *d, struct finding *f)
{
	struct target t;

	target_read(&d->machine, d->process->pid, NULL, &t);
	if (!t.has_library) {
		finding_say(f, VERDICT_NONE, "the library is not loaded");
	} else if (t.state == STATE_WAITING || t.state == STATE_ASIDE) {
		finding_say(f, VERDICT_NONE, "opened when tracing starts");
	} else if (t.reach == REACH_SOCKET) {
		finding_say(f, VERDICT_OK, "%s", t.socket);
	} else if (t.reach == REACH_SIGNAL) {
		finding_say(f, VERDICT_OK, "none; kill -%s %ld starts and "
			    "stops", t.signal, t.pid);
	} else {
		finding_say(f, VERDICT_WARN, "gputrace capture cannot reach "
			    "it: %s", t.why);
		if (t.state != STATE_STOPPED)
			finding_advise(f, "start it without GPUTRACE_CONTROL="
				       "off, and with TMPDIR at a folder that "
				       "it can write to");
	}
}
