/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/diff.h"
#include "tools/gputrace.h"
#include "tools/html.h"
#include "tools/options.h"

enum { OPT_FORMAT, OPT_STEP, OPT_FAIL, OPT_MIN, OPT_TOP, OPT_ALL, OPT_WIDE,
	OPT_HTML };

static const struct option_spec specs[] = {
	{ "format", 'f', "FORMAT", "table (default), csv or json" },
	{ "step", 's', "NAME", "the NVTX range that is a step" },
	{ "fail-over", 'x', "PERCENT", "status 1 if the step time (else the "
		"wall time) or\nthe GPU's busy time grew by more" },
	{ "min-change", 'm', "PERCENT", "what is less is no change "
		"(default: 2%)" },
	{ "top", 'n', "N", "only the first N rows of each table" },
	{ "all", 'a', NULL, "names without a significant change, too" },
	{ "wide", 'w', NULL, "do not cut long names" },
	{ "html", 0, "OUT", "instead: one page with both sides, in the file\n"
		"OUT" },
};

enum { DEFAULT_MIN_CHANGE = 20000 };    /* ppm */

/* "5%", "5", "0.5%" in millionths; -1 if it is none. */
static int64_t read_percent(const char *text)
{
	struct json_value v = {
		.text = text, .len = strspn(text, "0123456789."),
		.type = JSON_NUMBER,
	};
	const char *end = text + v.len;
	int64_t n;

	if (!v.len || *text == '.' || end[-1] == '.' ||
	    memchr(text, '.', v.len) != memrchr(text, '.', v.len) ||
	    (strcmp(end, "") && strcmp(end, "%")) ||
	    !jsonval_scaled(&v, 4, &n) || n > 1000ll * CELL_SHARE_ONE)
		return -1;
	return n;
}

struct choice {
	struct diff d;
	struct diff_view view;
	int64_t fail_over;      /* millionths; -1: never */
	const char *page;       /* --html, or NULL */
	unsigned given;         /* options, 1 << OPT_... */
};

static bool set_option(struct choice *c, int option, const char *value)
{
	int n;

	switch (option) {
	case OPT_FORMAT:
		n = table_format(value);
		c->view.out.format = n < 0 ? 0 : n;
		return n >= 0;
	case OPT_STEP:
		c->d.step = value;
		return *value;
	case OPT_FAIL:
		c->fail_over = read_percent(value);
		return c->fail_over >= 0;
	case OPT_MIN:
		c->d.min_change = read_percent(value);
		return c->d.min_change >= 0;
	case OPT_TOP:
		n = options_number(value, 1000000000);
		c->view.top = n;
		return n > 0;
	case OPT_HTML:
		c->page = value;
		return *value;
	case OPT_ALL:
		c->view.all = true;
		return true;
	default:
		c->view.out.wide = true;
		return true;
	}
}

static void say_over(const struct diff *d, enum diff_metric_id id,
		     int64_t limit)
{
	const char *what = id == DIFF_BUSY ? "GPU busy time" :
		d->side[DIFF_A].has_steps && d->side[DIFF_B].has_steps ?
		"step time" : "wall time";

	complain("%s: %s is %.1f %% longer, more than %.4g %%",
		 d->side[DIFF_B].path, what,
		 d->metric[id].change.part / 1e4, limit / 1e4);
}

static int judge(const struct diff *d, int64_t limit)
{
	static const enum diff_metric_id ids[] = { DIFF_STEP, DIFF_BUSY };
	int status = STATUS_DONE;

	for (int i = 0; limit >= 0 && i < 2; i++) {
		if (!diff_is_over(d, ids[i], limit))
			continue;
		say_over(d, ids[i], limit);
		status = STATUS_FINDING;
	}
	return status;
}

static int write_page(struct choice *c)
{
	struct html h;
	int err = html_open(&h, c->page, "diff");

	if (err)
		return html_complain(c->page, err);
	c->view.out = (struct table_out){
		.to = h.data, .format = FORMAT_JSON,
	};
	html_key(&h, "diff");
	err = diff_print(&c->d, &c->view);
	if (err)
		html_drop(&h);
	else
		err = html_close(&h);
	return err ? html_complain(c->page, err) : STATUS_DONE;
}

static int print(struct choice *c)
{
	int err;

	if (c->page)
		return write_page(c);
	err = diff_print(&c->d, &c->view);
	return err ? complain("cannot write: %s", strerror(-err)) :
		STATUS_DONE;
}

static int compare(struct choice *c, char **paths)
{
	struct diff *d = &c->d;
	struct trace_problem problem = { .has_offset = false };
	int status;

	for (int side = 0; side < DIFF_SIDES; side++) {
		if (diff_side_read(d, side, paths[side], &problem))
			return complain_file(paths[side], &problem);
		if (d->side[side].m.nr_bad_times)
			complain("%s: %" PRIu64 " events without a usable "
				 "time are left out", paths[side],
				 d->side[side].m.nr_bad_times);
	}
	if (diff_compare(d))
		return complain("out of memory");
	status = print(c);
	return status ? status : judge(d, c->fail_over);
}

int cmd_diff(int argc, char **argv)
{
	struct options o = {
		.command = "diff", .usage = "[options] A B",
		.about = "What changed from trace A to trace B: of each step, "
			"kernel, copy, API call and\nNVTX range, told apart "
			"from noise by a test over the steps.",
		.specs = specs, .nr = sizeof(specs) / sizeof(*specs),
		.argc = argc, .argv = argv,
	};
	struct choice c = {
		.d.min_change = DEFAULT_MIN_CHANGE, .fail_over = -1,
		.view.out.to = stdout,
	};
	int option, status;

	while ((option = options_next(&o)) >= 0) {
		c.given |= 1u << option;
		if (!set_option(&c, option, o.value))
			return options_bad_value(&o, option);
	}
	status = options_status(&o, option, "A and B");
	if (status >= 0)
		return status;
	if (o.nr_operands != DIFF_SIDES)
		return options_usage(&o, "two files, please");
	if (c.page && c.given & (1u << OPT_FORMAT | 1u << OPT_ALL |
				 1u << OPT_WIDE))
		return options_usage(&o, "--html: the page has everything; "
				     "without --format, --all and --wide");
	if (c.page && html_replaces(c.page, argv + 1))
		return options_usage(&o, "--html: %s is a trace; name the page first",
				     c.page);
	status = compare(&c, argv + 1);
	diff_fini(&c.d);
	return status;
}
