/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/control.h"
#include "tools/gputrace.h"
#include "tools/options.h"
#include "tools/table.h"
#include "tools/target.h"

enum { OPT_FORMAT, OPT_MATCH, OPT_WIDE, OPT_ROOT };

static const struct option_spec specs[] = {
	{ "format", 'f', "FORMAT", "table (default), csv or json" },
	{ "match", 'm', "GLOB", "only those whose program, or a word of the\n"
		"command, matches" },
	{ "wide", 'w', NULL, "do not cut commands" },
	{ "root", 0, "DIR", "look at the machine whose root is DIR" },
};

/* People read pids as text, without commas. */
static const struct column columns[] = {
	{ "PID", "pid", CELL_TEXT, COLUMN_TEXT },
	{ "Inside", "inner_pid", CELL_TEXT, COLUMN_TEXT },
	{ "", "pid", CELL_COUNT, COLUMN_JSON },
	{ "", "inner_pid", CELL_COUNT, COLUMN_JSON },
	{ "", "uid", CELL_COUNT, COLUMN_JSON },
	{ "", "inner_uid", CELL_COUNT, COLUMN_JSON },
	{ "Container", "container", CELL_TEXT, COLUMN_TEXT },
	{ "", "container", CELL_TEXT, COLUMN_JSON },
	{ "", "runtime", CELL_TEXT, COLUMN_JSON },
	{ "", "pod", CELL_TEXT, COLUMN_JSON },
	{ "GPU", "gpus", CELL_TEXT, COLUMN_TEXT },
	{ "", "gpus", CELL_TEXT, COLUMN_JSON },
	{ "", "visible_devices", CELL_TEXT, COLUMN_JSON },
	{ "State", "state", CELL_TEXT, COLUMN_BOTH },
	{ "Reach", "reach", CELL_TEXT, COLUMN_TEXT },
	{ "", "reach", CELL_TEXT, COLUMN_JSON },
	{ "", "why", CELL_TEXT, COLUMN_JSON },
	{ "", "socket", CELL_TEXT, COLUMN_JSON },
	{ "", "program", CELL_TEXT, COLUMN_JSON },
	{ "", "command", CELL_TEXT, COLUMN_JSON },
	{ "Program", "program", CELL_TEXT, COLUMN_TEXT },
};

enum { NR_COLUMNS = sizeof(columns) / sizeof(*columns) };

/* What the cells of a row point at. */
struct row_text {
	char pid[24], inner_pid[24], container[96], gpus[256], open[256];
	char reach[300];
};

static const char *or_dash(const char *text)
{
	return *text ? text : "-";
}

/* "3f4e5d6c7b8a docker", "containerd pod 1b4e28ba": 12 digits, as docker ps
 * shows them. */
static void container_text(const struct container *c, char *text, size_t size)
{
	bool has_pod = !c->id[0] && c->pod[0];

	snprintf(text, size, "%.12s%s%s%s%.8s", c->id, c->id[0] ? " " : "",
		 container_runtime(c), has_pod ? " pod " : "",
		 has_pod ? c->pod : "");
}

static void fill_text(const struct target *t, struct row_text *r)
{
	snprintf(r->pid, sizeof(r->pid), "%ld", t->pid);
	snprintf(r->inner_pid, sizeof(r->inner_pid), "%ld", t->inner_pid);
	container_text(&t->container, r->container, sizeof(r->container));
	target_gpus(t, r->gpus, sizeof(r->gpus));
	snprintf(r->open, sizeof(r->open), "%s", t->gpus ? r->gpus : "");
	snprintf(r->reach, sizeof(r->reach), "%s%s%s",
		 target_reach_name(t->reach),
		 t->reach == REACH_NO ? ": " : "", t->why);
}

static void fill_row(const struct target *t, const struct row_text *r,
		     union cell *cell)
{
	union cell row[NR_COLUMNS] = {
		{ .text = r->pid },
		{ .text = r->inner_pid },
		{ .n = t->pid },
		{ .n = t->inner_pid },
		{ .n = t->uid },
		{ .n = t->inner_uid },
		{ .text = or_dash(r->container) },
		{ .text = t->container.id },
		{ .text = container_runtime(&t->container) },
		{ .text = t->container.pod },
		{ .text = or_dash(r->gpus) },
		{ .text = r->open },
		{ .text = t->visible },
		{ .text = target_state_name(t->state) },
		{ .text = r->reach },
		{ .text = target_reach_name(t->reach) },
		{ .text = t->why },
		{ .text = t->socket },
		{ .text = t->program },
		{ .text = t->command },
		{ .text = t->command[0] ? t->command : or_dash(t->name) },
	};

	memcpy(cell, row, sizeof(row));
}

static void print_end(struct table_out *out, const struct targets *found)
{
	const struct fact unseen = {
		.title = "", .key = "count", .kind = CELL_COUNT,
		.n = (int64_t)found->nr_unseen,
	};
	char text[160];

	targets_unseen(found, text, sizeof(text));
	if (out->format == FORMAT_JSON)
		table_facts(out, "", "not_looked_at", &unseen, 1);
	else if (out->format == FORMAT_TABLE && text[0])
		fprintf(out->to, "\n%s\n", text);
	else if (text[0])
		complain("ps: %s", text);
}

static int print(struct table_out *out, const struct targets *found)
{
	struct row_text *text = calloc(found->nr + 1, sizeof(*text));
	struct table t = {
		.title = found->nr ? "CUDA processes" : "CUDA processes: none",
		.key = "processes", .columns = columns,
		.nr_columns = NR_COLUMNS, .nr_rows = found->nr,
		.cells = calloc(found->nr + 1, NR_COLUMNS * sizeof(*t.cells)),
		.use = COLUMN_BOTH,
	};
	int err = text && t.cells ? 0 : -ENOMEM;

	for (size_t i = 0; i < found->nr && !err; i++) {
		fill_text(&found->target[i], &text[i]);
		fill_row(&found->target[i], &text[i],
			 t.cells + i * NR_COLUMNS);
	}
	if (!err) {
		table_begin(out);
		table_rows(out, &t);
		print_end(out, found);
		err = table_end(out);
	}
	free(t.cells);
	free(text);
	return err;
}

/* PIDs that were asked for and cannot be looked at: said, and left out. */
static int drop_unknown(struct targets *found)
{
	int status = STATUS_DONE;
	size_t nr = 0;

	for (size_t i = 0; i < found->nr; i++) {
		if (found->target[i].is_known)
			found->target[nr++] = found->target[i];
		else
			status = complain("ps: %s", found->target[i].why);
	}
	found->nr = nr;
	return status;
}

static int list(const char *root, const struct target_choice *choice,
		struct table_out *out)
{
	struct targets found = { 0 };
	struct look machine;
	int err = look_init(&machine, root), status = STATUS_DONE;

	if (!err)
		err = targets_find(&machine, choice, control_ask_state, &found);
	if (!err)
		status = drop_unknown(&found);
	if (!err)
		err = print(out, &found);
	if (err)
		status = complain("ps: %s: %s", root, strerror(-err));
	targets_fini(&found);
	look_fini(&machine);
	return status;
}

int cmd_ps(int argc, char **argv)
{
	struct options o = {
		.command = "ps", .usage = "[options] [PID...]",
		.about = "The processes that use CUDA or carry the library, "
			"also in containers: how they\ncan be reached, and "
			"what they record.",
		.specs = specs, .nr = sizeof(specs) / sizeof(*specs),
		.argc = argc, .argv = argv,
	};
	struct target_choice choice = { 0 };
	struct table_out out = { .to = stdout, .bare = true };
	const char *root = "/";
	int option, status, format;
	long *pids;

	while ((option = options_next(&o)) >= 0) {
		format = option == OPT_FORMAT ? table_format(o.value) : 0;
		if (format < 0)
			return options_bad_value(&o, option);
		if (option == OPT_FORMAT)
			out.format = (enum table_format)format;
		else if (option == OPT_MATCH)
			choice.match = o.value;
		else if (option == OPT_WIDE)
			out.wide = true;
		else
			root = o.value;
	}
	status = options_status(&o, option, NULL);
	if (status >= 0)
		return status;
	if (choice.match && o.nr_operands)
		return options_usage(&o, "either --match or PIDs");
	pids = options_pids(&o, &status);
	choice.pids = pids;
	choice.nr_pids = (size_t)o.nr_operands;
	if (pids)
		status = list(root, &choice, &out);
	free(pids);
	return status;
}
