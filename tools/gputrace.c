/* SPDX-License-Identifier: MIT */
#include "tools/gputrace.h"

#include <stdio.h>
#include <string.h>

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *about;
} commands[] = {
	{ "record", cmd_record, "run a program and record what its GPU did" },
	{ "attach", cmd_attach, "load the library into a running process" },
	{ "report", cmd_report, "tables: kernels, API calls, copies, ranges" },
	{ "diagnose", cmd_diagnose, "what is slow, why, and what it would save" },
	{ "diff", cmd_diff, "what changed from one trace to another" },
	{ "merge", cmd_merge, "several ranks or processes on one timeline" },
	{ "check", cmd_check, "is the file valid, do Perfetto and HTA read it" },
	{ "ps", cmd_ps, "processes that use CUDA or carry the library" },
	{ "doctor", cmd_doctor, "would tracing work here, or in a process" },
	{ "capture", cmd_capture, "record a running process for a while" },
	{ "start", cmd_start, "start recording in a running process" },
	{ "stop", cmd_stop, "stop it and print the trace's path" },
	{ "status", cmd_status, "what the library in a process is doing" },
	{ "dump", cmd_dump, "write a flight recorder; what hangs" },
	{ "open", cmd_open, "serve the file to ui.perfetto.dev" },
};

enum { NR_COMMANDS = sizeof(commands) / sizeof(*commands) };

static void print_usage(FILE *to)
{
	fputs("usage: gputrace COMMAND [options] ...\n\n", to);
	for (int i = 0; i < NR_COMMANDS; i++)
		fprintf(to, "  %-8s  %s\n", commands[i].name,
			commands[i].about);
	fputs("\n'gputrace help COMMAND' tells more; so does gputrace(1).\n",
	      to);
}

static int is(const char *word, const char *a, const char *b)
{
	return !strcmp(word, a) || !strcmp(word, b);
}

static const struct command *find(const char *name)
{
	for (int i = 0; i < NR_COMMANDS; i++)
		if (!strcmp(name, commands[i].name))
			return &commands[i];
	fprintf(stderr, "gputrace: %s: unknown command\n", name);
	print_usage(stderr);
	return NULL;
}

/* gputrace help [COMMAND]: what --help says. */
static int help(char *name)
{
	char option[] = "--help";
	char *words[] = { name, option, NULL };
	const struct command *command;

	if (!name) {
		print_usage(stdout);
		return STATUS_DONE;
	}
	command = find(name);
	return command ? command->run(2, words) : STATUS_USAGE;
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL;
	const struct command *command;

	if (!word) {
		print_usage(stderr);
		return STATUS_USAGE;
	}
	if (is(word, "--help", "-h"))
		return help(NULL);
	if (!strcmp(word, "help"))
		return help(argv[2]);
	if (is(word, "--version", "-V")) {
		puts("gputrace " GPUTRACE_VERSION);
		return STATUS_DONE;
	}
	command = find(word);
	return command ? command->run(argc - 1, argv + 1) : STATUS_USAGE;
}
