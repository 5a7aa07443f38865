/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_GPUTRACE_H
#define GPUTRACE_TOOLS_GPUTRACE_H

/*
 * The sub-commands.  argv[0] is the sub-command's own name.  Each returns the
 * exit status: STATUS_FINDING is what the command exists to report.  Results
 * go to stdout, everything else to stderr.
 */
enum status {
	STATUS_DONE, STATUS_FINDING, STATUS_USAGE, STATUS_COULD_NOT,
};

int cmd_record(int argc, char **argv);
int cmd_capture(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_open(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_start(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_diagnose(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_merge(int argc, char **argv);

struct trace_problem;

/* One line on stderr: which file, where, what.  Returns STATUS_COULD_NOT. */
int complain_file(const char *path, const struct trace_problem *problem);

/* The same for everything else, in printf's way. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
