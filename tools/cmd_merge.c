/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/gputrace.h"
#include "tools/merge.h"
#include "tools/merge_out.h"
#include "tools/options.h"

enum { OPT_OUT, OPT_QUIET };

static const struct option_spec specs[] = {
	{ "out", 'o', "FILE", "where to; .gz at the end packs it" },
	{ "quiet", 'q', NULL, "no line about what was merged" },
};

static int cannot_write(const char *path, int err)
{
	return complain("%s: cannot write: %s", path, err == -EINVAL ?
			"it is there, and no regular file" : strerror(-err));
}

/* What a reader of the result should know. */
static void print_notes(const struct merge *m, const char *path)
{
	uint64_t odd = 0, keys = 0;

	for (size_t i = 0; i < m->nr_files; i++) {
		const struct merge_file *f = &m->file[i];

		odd += f->nr_odd;
		keys += f->header_left_out;
		if (f->base_ns < 0 && m->base_ns >= 0)
			complain("%s: no baseTimeNanoseconds: its times are "
				 "taken as if it had the earliest", f->path);
	}
	if (odd)
		complain("%" PRIu64 " things in traceEvents that are no "
			 "events are left out", odd);
	if (keys)
		complain("%" PRIu64 " keys of documents that are too long are "
			 "left out", keys);
	complain("%s: %zu files, %zu processes, %" PRIu64 " events", path,
		 m->nr_files, m->nr_order, m->nr_events);
}

static int write_merged(struct merge *m, const char *path)
{
	struct trace_problem problem = { .has_offset = false };
	const char *slash = strrchr(path, '/');
	struct merge_out *out;
	uint16_t file;
	int err;

	out = merge_out_open(path, &err);
	if (!out)
		return cannot_write(path, err);
	if (merge_write(m, out, slash ? slash + 1 : path, &file, &problem)) {
		merge_out_drop(out);
		return complain_file(m->file[file].path, &problem);
	}
	err = merge_out_end(out);
	return err ? cannot_write(path, err) : STATUS_DONE;
}

static int merge_files(struct merge *m, char **paths, const char *out,
		       bool quiet)
{
	struct trace_problem problem = { .has_offset = false };
	int status, err;

	for (size_t i = 0; i < m->nr_files; i++) {
		m->file[i].path = paths[i];
		m->file[i].rank = m->file[i].pid = m->file[i].base_ns = -1;
	}
	for (size_t i = 0; i < m->nr_files; i++)
		if (merge_scan(m, i, &problem))
			return complain_file(paths[i], &problem);
	err = merge_plan(m);
	if (err == -ERANGE)
		return complain("ids and correlations are too large to be "
				"kept apart (above 2^53)");
	if (err)
		return complain("out of memory");
	status = write_merged(m, out);
	if (status == STATUS_DONE && !quiet)
		print_notes(m, out);
	return status;
}

int cmd_merge(int argc, char **argv)
{
	struct options o = {
		.command = "merge", .usage = "-o OUT FILE...",
		.about = "Puts traces of several ranks and processes on one "
			"timeline.  FILE is a trace of\ngputrace or of the "
			"PyTorch profiler, plain or .gz; each is read twice.",
		.specs = specs, .nr = sizeof(specs) / sizeof(*specs),
		.argc = argc, .argv = argv,
	};
	const char *out = NULL;
	struct merge m = { .base_ns = -1 };
	bool quiet = false;
	int option, status;

	while ((option = options_next(&o)) >= 0) {
		if (option == OPT_OUT)
			out = o.value;
		quiet |= option == OPT_QUIET;
	}
	status = options_status(&o, option, "FILE");
	if (status >= 0)
		return status;
	if (!out || !*out)
		return options_usage(&o, "where to? -o OUT is missing");
	if (!strcmp(out, "-"))
		return options_usage(&o, "-o: a file, not standard output: it "
				     "appears when it is whole");
	if (o.nr_operands > UINT16_MAX)
		return options_usage(&o, "too many files");
	for (char **path = argv + 1; *path; path++)
		if (!strcmp(*path, "-"))
			return options_usage(&o, "files are read twice: "
					     "standard input cannot be");
	m.nr_files = o.nr_operands;
	m.file = calloc(m.nr_files, sizeof(*m.file));
	status = m.file ? merge_files(&m, argv + 1, out, quiet) :
		complain("out of memory");
	merge_fini(&m);
	return status;
}
