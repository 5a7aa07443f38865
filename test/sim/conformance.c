// SPDX-License-Identifier: MIT
/*
 * conformance [GROUP | EXPERIMENT]...: runs the experiments and prints their
 * facts. Groups: codes ops flush threads callbacks exit.
 */
#include "test/sim/conf.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIME_LIMIT_S 20

const char *conf_name = "";

static const struct conf_experiment *const groups[] = {
	conf_codes, conf_ops, conf_flush, conf_threads, conf_callbacks,
	conf_exits,
};

void fact(const char *key, const char *format, ...)
{
	char line[1024];
	va_list args;
	int n;

	n = snprintf(line, sizeof(line), "%s.%s: ", conf_name, key);
	va_start(args, format);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, args);
	va_end(args);
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	if (write(STDOUT_FILENO, line, (size_t)n) != n)
		_exit(3);
}

const char *yes(bool b)
{
	return b ? "yes" : "no";
}

void must(const char *what, int code)
{
	char name[64];
	size_t n = strcspn(what, "(");

	if (!code)
		return;
	snprintf(name, sizeof(name), "%.*s", (int)n, what);
	fact("failed", "%s = %d", name, code);
	_exit(0);
}

static void run_child(const struct conf_experiment *e)
{
	alarm(TIME_LIMIT_S);
	conf_name_thread("main");
	if (conf_load_cupti()) {
		fact("failed", "no libcupti");
		_exit(0);
	}
	e->run(e->variant);
	fflush(NULL);
	_exit(0);
}

static void copy_output(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char chunk[4096];
	ssize_t n;

	/* a grandchild may keep the pipe open: do not wait for ever */
	while (poll(&p, 1, (TIME_LIMIT_S + 5) * 1000) > 0) {
		n = read(fd, chunk, sizeof(chunk));
		if (n <= 0)
			return;
		fwrite(chunk, 1, (size_t)n, stdout);
	}
}

/* sigabbrev_np() came with glibc 2.32 only. */
static const char *signal_name(int nr)
{
	static const struct {
		int nr;
		const char *name;
	} names[] = {
		{ SIGSEGV, "SIGSEGV" }, { SIGABRT, "SIGABRT" },
		{ SIGBUS, "SIGBUS" }, { SIGFPE, "SIGFPE" },
		{ SIGILL, "SIGILL" }, { SIGKILL, "SIGKILL" },
		{ SIGPIPE, "SIGPIPE" }, { SIGTERM, "SIGTERM" },
		{ SIGTRAP, "SIGTRAP" },
	};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (names[i].nr == nr)
			return names[i].name;
	return "another signal";
}

static void report_end(const struct conf_experiment *e, int status)
{
	conf_name = e->name;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		printf("%s.end: timeout\n", e->name);
	else if (WIFSIGNALED(status))
		printf("%s.end: crashed %s\n", e->name,
		       signal_name(WTERMSIG(status)));
	else if (WEXITSTATUS(status))
		printf("%s.end: status %d\n", e->name, WEXITSTATUS(status));
}

static void run(const struct conf_experiment *e)
{
	int fds[2], status = 0;
	pid_t pid;

	fflush(stdout);
	conf_name = e->name;
	if (pipe2(fds, O_CLOEXEC))
		exit(2);
	pid = fork();
	if (pid < 0)
		exit(2);
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		run_child(e);
	}
	close(fds[1]);
	copy_output(fds[0]);
	close(fds[0]);
	waitpid(pid, &status, 0);
	report_end(e, status);
	fflush(stdout);
}

static void context_lines(const char *variant)
{
	CUdevice device;
	char name[256] = "?";
	int driver = 0;
	uint32_t version = 0;

	(void)variant;
	cupti.GetVersion(&version);
	if (cuInit(0) || cuDeviceGet(&device, 0) ||
	    cuDeviceGetName(name, sizeof(name), device))
		strcpy(name, "none");
	cuDriverGetVersion(&driver);
	printf("# device: %s\n# driver API: %d\n# cupti: %s version %u\n",
	       name, driver, conf_cupti_path(), version);
}

static bool wanted(const struct conf_experiment *e, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], e->group) ||
		    !strncmp(argv[i], e->name, strlen(argv[i])))
			return true;
	return argc < 2;
}

int main(int argc, char **argv)
{
	static const struct conf_experiment context = {
		"context", context_lines, NULL, "context",
	};

	printf("# context\n");
	run(&context);
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		for (const struct conf_experiment *e = groups[i]; e->name; e++)
			if (wanted(e, argc, argv))
				run(e);
	return 0;
}
