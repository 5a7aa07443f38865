/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_OPTIONS_H
#define GPUTRACE_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Options of a sub-command from one table: `-n 5`, `-n5`, `--top 5`,
 * `--top=5`, bundles of letters, before and behind operands; `--` ends them.
 * Each command also knows -h and --help, whose text is made from the table.
 */
struct option_spec {
	const char *name;       /* long, without dashes */
	char letter;            /* 0: none */
	const char *value;      /* what --help calls its value; NULL: a flag */
	const char *help;       /* '\n' between lines */
};

struct options {
	const char *command;            /* "report" */
	const char *usage;              /* "[options] FILE..." */
	const char *about;              /* one line */
	const struct option_spec *specs;
	size_t nr;
	bool operands_end;              /* the first operand ends the options */
	int argc;
	char **argv;                    /* argv[0] is the command's name */
	int at;
	int nr_operands;                /* moved to argv[1 ..] as they come */
	const char *bundle;             /* rest of a bundle of letters */
	const char *value;              /* of the last option */
};

/* Where the texts of --help begin, and each further line of them. */
enum { OPTIONS_HELP_COLUMN = 30 };

enum { OPTIONS_END = -1, OPTIONS_BAD = -2, OPTIONS_HELP = -3 };

/* The index of the next option's spec.  OPTIONS_END: the operands are argv[1 ..
 * nr_operands], NULL behind them.  OPTIONS_BAD: reported on stderr.
 * OPTIONS_HELP: printed on stdout. */
int options_next(struct options *o);

/* When options_next() gave `option`, its last answer: -1, and the command goes
 * on; or its exit status, said where something is wrong.  `operand` is what it
 * cannot do without ("FILE"), or NULL. */
int options_status(const struct options *o, int option, const char *operand);

/* "gputrace COMMAND: ..." and a hint at --help on stderr; returns 2. */
int options_usage(const struct options *o, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The same for a value that `option` cannot have, with what --help says. */
int options_bad_value(const struct options *o, int option);

/* A whole number in a range; returns -1 if the text is none. */
long options_number(const char *text, long max);

enum { OPTIONS_PID_MAX = 4194304 };     /* Linux's largest, 2^22 */

/* The operands as PIDs, to be freed.  NULL: memory has ended, or one is none;
 * both are said, *status is the exit status. */
long *options_pids(const struct options *o, int *status);

#endif
