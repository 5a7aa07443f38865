/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/control_choose.h"
#include "tools/gputrace.h"
#include "tools/plain.h"
#include "tools/table.h"

enum { ANSWER_MS = 5000 };

enum { OPT_FORMAT, OPT_ALL, OPT_MATCH };

static const struct option_spec specs[] = {
	{ "format", 'f', "FORMAT", "table (default), csv or json" },
	CONTROL_SPECS,
};

static const struct column columns[] = {
	{ "PID", "pid", CELL_TEXT, COLUMN_TEXT },
	{ "", "pid", CELL_COUNT, COLUMN_JSON },
	{ "State", "state", CELL_TEXT, COLUMN_BOTH },
	{ "Start", "start", CELL_TEXT, COLUMN_BOTH },
	{ "Windows", "windows", CELL_COUNT, COLUMN_BOTH },
	{ "", "opened_ns", CELL_COUNT, COLUMN_JSON },
	{ "Kernels", "kernels", CELL_COUNT, COLUMN_BOTH },
	{ "Lost", "lost", CELL_COUNT, COLUMN_BOTH },
	{ "Version", "version", CELL_TEXT, COLUMN_BOTH },
	{ "File", "path", CELL_TEXT, COLUMN_BOTH },
};

enum { NR_COLUMNS = sizeof(columns) / sizeof(*columns) };

struct row {
	char pid[24];
	struct control_reply reply;
};

static void fill(const struct control *c, struct row *r, union cell *cell)
{
	union cell row[NR_COLUMNS] = {
		{ .text = r->pid }, { .n = c->pid },
		{ .text = r->reply.state }, { .text = r->reply.start },
		{ .n = r->reply.windows }, { .n = r->reply.opened_ns },
		{ .n = r->reply.kernels }, { .n = r->reply.lost },
		{ .text = r->reply.version }, { .text = r->reply.path },
	};

	snprintf(r->pid, sizeof(r->pid), "%ld", c->pid);
	plain_make(r->reply.path, sizeof(r->reply.path));
	memcpy(cell, row, sizeof(row));
}

static int ask_and_print(struct chosen *chosen, struct table_out *out)
{
	size_t nr = chosen->found.nr;
	struct row *rows = calloc(nr, sizeof(*rows));
	union cell *cells = calloc(nr, NR_COLUMNS * sizeof(*cells));
	struct table t = {
		.title = "Processes", .key = "processes", .columns = columns,
		.nr_columns = NR_COLUMNS, .cells = cells, .use = COLUMN_BOTH,
	};
	char why[sizeof(rows->reply.error) + 64];
	int status = chosen->status;

	for (size_t i = 0; rows && cells && i < nr; i++) {
		if (control_ask(&chosen->control[i], "status", -1, ANSWER_MS,
				&rows[i].reply, why, sizeof(why))) {
			status = complain("status: %s", why);
			continue;
		}
		fill(&chosen->control[i], &rows[i],
		     cells + t.nr_rows++ * NR_COLUMNS);
	}
	table_begin(out);
	table_rows(out, &t);
	if (table_end(out))
		status = complain("status: cannot write");
	if (!rows || !cells)
		status = complain("out of memory");
	free(rows);
	free(cells);
	return status;
}

int cmd_status(int argc, char **argv)
{
	struct options o = {
		.command = "status", .usage = "[options] PID...",
		.about = "What a process that carries the library is doing: "
			"sleeping, recording, stopping\n(the last work is "
			"fetched) or recorder (keeps the last seconds).",
		.specs = specs, .nr = sizeof(specs) / sizeof(*specs),
		.argc = argc, .argv = argv,
	};
	struct table_out out = { .to = stdout, .bare = true, .wide = true };
	struct choice choice = { 0 };
	struct chosen chosen;
	int option, status, format;

	while ((option = options_next(&o)) >= 0) {
		format = option == OPT_FORMAT ? table_format(o.value) : 0;
		if (format < 0)
			return options_bad_value(&o, option);
		if (option == OPT_FORMAT)
			out.format = (enum table_format)format;
		else if (option == OPT_ALL)
			choice.all = true;
		else
			choice.match = o.value;
	}
	status = options_status(&o, option, NULL);
	if (status >= 0)
		return status;
	status = control_choose(&o, &choice, &chosen);
	if (!status)
		status = ask_and_print(&chosen, &out);
	chosen_fini(&chosen);
	return status;
}
