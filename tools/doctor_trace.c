/* SPDX-License-Identifier: MIT */
/* The trace that the process writes: where, how old, what was lost. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/doctor.h"
#include "tools/trace.h"

enum {
	TAIL_MAX = 8 << 20,     /* what follows the last event: names, mostly */
	READ_SECONDS = 3,       /* a compressed file is read from its start */
	TRIES = 3,              /* the writer may write while we read */
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* GPUTRACE_OUT as a shell pattern: %p is anything, and "-2" or ".r1" may come
 * before the extension (writer/path.h). */
static void pattern_of(const char *out, char *pattern, size_t size)
{
	const char *slash = strrchr(out, '/'), *dot;
	size_t at = 0;

	out = slash ? slash + 1 : out;
	dot = strchr(out, '.');
	if (!dot)
		dot = out + strlen(out);
	for (; at + 4 < size; out++) {
		if (out == dot)
			pattern[at++] = '*';
		if (!*out)
			break;
		if (*out == '%' && out[1]) {
			pattern[at++] = '*';
			out++;
			continue;
		}
		if (strchr("*?[\\", *out))
			pattern[at++] = '\\';
		pattern[at++] = *out;
	}
	pattern[at] = '\0';
}

/* A file that is seen and its hidden half, or after the first flush the seen
 * one alone (writer/sink_file.c). */
static bool find_file(const struct doctor *d, char *path, size_t size)
{
	char pattern[2 * NAME_MAX];

	snprintf(path, size, "%s", d->process->twin);
	if (path[0] || !d->process->has_writer)
		return path[0];
	pattern_of(doctor_setting(d, SETTING_OUT), pattern, sizeof(pattern));
	return process_open_file(&d->machine, d->process, pattern, path, size);
}

static void say_no_file(const struct doctor *d, struct finding *f)
{
	const struct process *p = d->process;
	const char *start = doctor_setting(d, SETTING_START);

	if (!p->has_writer)
		finding_say(f, VERDICT_NONE, "none: the process is not "
			    "traced now");
	else if (setting_number(&settings_table[SETTING_START], start) !=
		 START_NOW)
		finding_say(f, VERDICT_NONE, "none yet: GPUTRACE_START=%s "
			    "waits%s", start, !strcmp(start, "profiler-api") ?
			    " for cudaProfilerStart" : "");
	else if (*doctor_setting(d, SETTING_RECORDER))
		finding_say(f, VERDICT_NONE, "none yet: the flight recorder "
			    "(GPUTRACE_RECORDER) writes when it is asked to");
	else
		finding_say(f, VERDICT_WARN, "none open: nothing was recorded "
			    "yet; or CUPTI refused, or it could not be "
			    "written, and a line of the program's stderr says "
			    "so; GPUTRACE_OUT=%s",
			    doctor_setting(d, SETTING_OUT));
}

void check_trace(struct doctor *d, struct finding *f)
{
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if (!find_file(d, path, sizeof(path))) {
		say_no_file(d, f);
		return;
	}
	fd = look_open(&d->seen, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st)) {
		finding_say(f, fd == -ENOENT ? VERDICT_NONE : VERDICT_WARN,
			    "%s: %s", path, fd == -ENOENT ?
			    "not there yet (the first flush makes it)" :
			    strerror(-fd));
	} else {
		snprintf(d->trace_path, sizeof(d->trace_path), "%s", path);
		finding_say(f, VERDICT_OK, "%s, %.1f MB, written %.1f s ago",
			    path, (double)st.st_size / 1e6, now() -
			    (double)st.st_mtim.tv_sec -
			    (double)st.st_mtim.tv_nsec / 1e9);
	}
	if (fd >= 0)
		close(fd);
}

/* ---- Losses ---- */

/* A document of the last member "gputrace" and what follows it, in a file in
 * memory: the events of a plain file need not be read.  -1: none found. */
static int document_of_tail(int fd, uint64_t size)
{
	static const char key[] = "\"gputrace\":{";
	size_t len = size < TAIL_MAX ? (size_t)size : TAIL_MAX;
	char *text = malloc(len + 1), *at = text, *found = NULL;
	int document = -1;

	if (text && pread(fd, text, len, (off_t)(size - len)) == (ssize_t)len)
		while ((at = memmem(at, len - (size_t)(at - text), key,
				    sizeof(key) - 1)))
			found = at++;
	if (found && found > text) {
		*--found = '{';
		len -= (size_t)(found - text);
		document = memfd_create("tail", MFD_CLOEXEC);
		if (document >= 0 &&
		    pwrite(document, found, len, 0) != (ssize_t)len) {
			close(document);
			document = -1;
		}
	}
	free(text);
	return document;
}

static bool starts_as_gzip(int fd)
{
	unsigned char magic[2];

	return pread(fd, magic, 2, 0) == 2 && magic[0] == 0x1f &&
		magic[1] == 0x8b;
}

static struct trace *open_end(const struct doctor *d,
			      struct trace_problem *problem)
{
	int fd = look_open(&d->seen, d->trace_path,
			   O_RDONLY | O_NONBLOCK | O_NOCTTY), tail;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	if (starts_as_gzip(fd))
		return trace_open_fd(fd, 0, problem);
	tail = document_of_tail(fd, (uint64_t)st.st_size);
	close(fd);
	return tail < 0 ? NULL : trace_open_fd(tail, 0, problem);
}

/* Reads to the end of the document: 0, or why not. */
static const char *read_to_end(struct trace *t)
{
	double until = now() + READ_SECONDS;
	struct trace_event ev;
	int more, n = 0;

	while ((more = trace_next(t, &ev)) > 0)
		if (++n % 4096 == 0 && now() > until)
			return "not read: too long; gputrace check tells";
	return more < 0 ? "not read: it was being written" : NULL;
}

static void say_losses(const struct trace *t, struct finding *f)
{
	struct json_value cause, n, losses = jsonval_member(
		trace_header(t, HEADER_GPUTRACE), "losses");
	char text[768] = "", name[64];
	const char *at = NULL;
	int64_t sum = 0, one;
	bool is_full = false;

	if (losses.type != JSON_OBJECT) {
		finding_say(f, VERDICT_NONE, "the file does not tell them");
		return;
	}
	while (jsonval_next(&losses, &at, &cause, &n)) {
		size_t used = strlen(text);

		if (!jsonval_int(&n, &one) || one <= 0 ||
		    one > INT64_MAX - sum)
			continue;
		jsonval_string(&cause, name, sizeof(name));
		is_full |= strstr(name, "full") != NULL;
		sum += one;
		snprintf(text + used, sizeof(text) - used, "%s%" PRId64 " %s",
			 used ? "; " : "", one, name);
	}
	if (!sum) {
		finding_say(f, VERDICT_OK, "none up to the last flush");
		return;
	}
	if (strchr(text, ';'))
		finding_say(f, VERDICT_WARN, "%" PRId64 " in all: %s", sum,
			    text);
	else
		finding_say(f, VERDICT_WARN, "%s", text);
	if (is_full)
		finding_advise(f, "start it with more memory: gputrace record "
			       "--buffer 1G");
}

void check_losses(struct doctor *d, struct finding *f)
{
	struct trace_problem problem;
	const char *why = "not read";
	struct trace *t;

	if (!d->trace_path[0]) {
		finding_say(f, VERDICT_NONE, "there is no trace file");
		return;
	}
	for (int i = 0; i < TRIES && why; i++) {
		t = open_end(d, &problem);
		if (!t)
			continue;
		why = read_to_end(t);
		if (!why)
			say_losses(t, f);
		trace_close(t);
	}
	if (why)
		finding_say(f, VERDICT_NONE, "%s", why);
}
