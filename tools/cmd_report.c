/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/gputrace.h"
#include "tools/html.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/report_print.h"

enum { OPT_FORMAT, OPT_TABLE, OPT_SORT, OPT_TOP, OPT_FILTER, OPT_BY,
	OPT_WIDE, OPT_HTML };

static const struct option_spec specs[] = {
	{ "format", 'f', "FORMAT", "table (default), csv or json; collapsed: sampled\n"
		"stacks as lines for flame graphs" },
	{ "table", 't', "LIST", "of summary, devices, kernels, kernels_grid,\n"
		"api, launches, copies, copy_sizes, nvtx, nvtx_gpu,\n"
		"nvtx_kernels, ops, graphs, graph_launches, osrt,\n"
		"threads, memory, stacks, library_calls, nccl" },
	{ "sort", 's', "COLUMN", "time (default), count, avg, median, min,\n"
		"max, stddev or name" },
	{ "top", 'n', "N", "only the first N rows of each table" },
	{ "filter", 'F', "WHAT", "only rows whose name matches the pattern\n"
		"WHAT, or name=PATTERN, time=10ms..1.5s,\n"
		"range=PATTERN, device=N, stream=N; may be given\n"
		"several times" },
	{ "by", 'b', "WHAT", "rows for each process, device or stream; for the\n"
		"range, op, module or line that launched or called;\n"
		"all (default): one for all of them" },
	{ "wide", 'w', NULL, "do not cut long names" },
	{ "html", 0, "OUT", "instead: one page with everything, the findings\n"
		"of diagnose too, in the file OUT" },
};

static const char *const sort_names[NR_SORTS] = {
	"time", "count", "avg", "median", "min", "max", "stddev", "name",
};

static const char *const by_names[NR_BY] = {
	"all", "process", "device", "stream", "range", "op", "module", "line",
};

static bool are_tables(const char *list)
{
	for (;; list++) {
		size_t len = strcspn(list, ",");

		if (!report_has_table(list, len))
			return false;
		list += len;
		if (!*list)
			return true;
	}
}

static int find(const char *const *names, int nr, const char *name)
{
	int i = 0;

	while (i < nr && strcmp(names[i], name))
		i++;
	return i;
}

/* Returns false if the value is none of the option's. */
static bool set_option(struct report_view *view, int option,
		       const char *value)
{
	int n;

	switch (option) {
	case OPT_FORMAT:
		n = table_format(value);
		view->is_collapsed = !strcmp(value, "collapsed");
		view->out.format = n < 0 ? 0 : n;
		return n >= 0 || view->is_collapsed;
	case OPT_TABLE:
		view->tables = value;
		view->out.bare = !strchr(value, ',');
		return are_tables(value);
	case OPT_SORT:
		n = find(sort_names, NR_SORTS, value);
		view->sort = n;
		return n < NR_SORTS;
	case OPT_BY:
		n = find(by_names, NR_BY, value);
		view->select.by = n;
		return n < NR_BY;
	case OPT_TOP:
		n = options_number(value, 1000000000);
		view->top = n;
		return n > 0;
	case OPT_FILTER:
		return report_filter(value, &view->select, &view->filter);
	case OPT_HTML:
		return *value;
	default:
		view->out.wide = true;
		return true;
	}
}

static int read_and_print(struct report_view *view, struct report *r,
			  char **paths)
{
	struct trace_problem problem = { .has_offset = false };
	int err;

	for (; *paths; paths++)
		if (report_add_file(r, *paths, &problem))
			return complain_file(*paths, &problem);
	report_finish(r, &view->select);
	if (r->no_memory)
		return complain("out of memory");
	if (r->nr_bad_times)
		complain("%" PRIu64 " events without a usable time are left "
			 "out", r->nr_bad_times);
	err = report_print(view, r);
	return err ? complain("cannot write: %s", strerror(-err)) :
		STATUS_DONE;
}

static int print_files(struct report_view *view, char **paths)
{
	struct report r;
	int status;

	report_init(&r);
	r.by = view->select.by;
	status = read_and_print(view, &r, paths);
	report_fini(&r);
	return status;
}

static int write_page(struct report_view *view, const char *out, char **paths)
{
	struct html h;
	int err = html_open(&h, out, "report"), status;

	if (err)
		return html_complain(out, err);
	view->out = (struct table_out){ .to = h.data, .format = FORMAT_JSON };
	html_key(&h, "report");
	status = print_files(view, paths);
	if (!status)
		status = html_diagnose(&h, paths);
	if (status) {
		html_drop(&h);
		return status;
	}
	err = html_close(&h);
	return err ? html_complain(out, err) : STATUS_DONE;
}

/* The page has all tables; what could be said of them is not asked of it. */
static int try_page(const struct options *o, struct report_view *view,
		    const char *out, unsigned given)
{
	char **paths = o->argv + 1;

	if (given & ~(1u << OPT_HTML | 1u << OPT_TOP))
		return options_usage(o, "--html: the page has everything; of "
				     "the other options it takes --top alone");
	for (char **path = paths; *path; path++)
		if (!strcmp(*path, "-"))
			return options_usage(o, "--html: files are read twice: "
					     "standard input cannot be");
	if (html_replaces(out, paths))
		return options_usage(o, "--html: %s is a trace; name the page first", out);
	return write_page(view, out, paths);
}

int cmd_report(int argc, char **argv)
{
	struct report_view view = { .out.to = stdout };
	struct options o = {
		.command = "report", .usage = "[options] FILE...",
		.about = "Tables of what the GPU and the CPU did.  FILE is a "
			"trace of gputrace or of the\nPyTorch profiler, plain "
			"or .gz; - is standard input.",
		.specs = specs, .nr = sizeof(specs) / sizeof(*specs),
		.argc = argc, .argv = argv,
	};
	const char *page = NULL;
	unsigned given = 0;
	int option, status;

	while ((option = options_next(&o)) >= 0) {
		given |= 1u << option;
		if (option == OPT_HTML)
			page = o.value;
		if (!set_option(&view, option, o.value))
			return options_bad_value(&o, option);
	}
	status = options_status(&o, option, "FILE");
	if (status >= 0)
		return status;
	if (o.nr_operands > UINT16_MAX)
		return options_usage(&o, "too many files");
	return page ? try_page(&o, &view, page, given) :
		print_files(&view, argv + 1);
}
