/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/gputrace.h"
#include "tools/http.h"
#include "tools/options.h"

/*
 * One port, one file, one reader: the page at ui.perfetto.dev.
 *
 * Each connection has a process of its own, because browsers open connections
 * that they do not use at once, and one such must not keep the others waiting.
 * A child says by its exit status that it has sent the whole file.
 */
enum {
	PORT = 9001,            /* the only one that the page's policy allows */
	MAX_CHILDREN = 16,
	GRACE_MS = 3000,        /* after the file was fetched */
	SENT_FILE = 10,         /* exit status of a child */
};

static const struct option_spec specs[] = {
	{ "keep", 'k', NULL, "go on when the file has been fetched" },
};

static volatile sig_atomic_t stopped;

static void on_signal(int signal)
{
	(void)signal;
	stopped = 1;
}

static int listen_on_port(void)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_port = htons(PORT),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, err;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (!bind(fd, (struct sockaddr *)&at, sizeof(at)) && !listen(fd, 16))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static void print_link(const char *path, const char *name)
{
	const char *ssh = getenv("SSH_CONNECTION"), *user = getenv("USER");
	char host[64] = "HOST";

	printf("Open  https://ui.perfetto.dev/#!/?url=http://127.0.0.1:%d/%s\n",
	       PORT, name);
	if (ssh && *ssh) {
		(void)gethostname(host, sizeof(host) - 1);
		printf("after this, on your own machine:  "
		       "ssh -L %d:127.0.0.1:%d %s%s%s\n", PORT, PORT,
		       user ? user : "", user ? "@" : "", host);
	}
	fflush(stdout);
	fprintf(stderr, "Serving %s; end with Ctrl-C.\n", path);
}

/* Returns the number of children started. */
static int serve_child(int listener, int fd, const struct http_file *file)
{
	pid_t pid = fork();

	if (pid) {              /* if there is none, the page asks again */
		close(fd);
		return pid > 0;
	}
	close(listener);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	_exit(http_serve(fd, file) == 1 ? SENT_FILE : 0);
}

/* Reaps the children that have ended; returns how many sent the file. */
static int reap(int *nr_children)
{
	int status, sent = 0;

	while (waitpid(-1, &status, WNOHANG) > 0) {
		--*nr_children;
		sent += WIFEXITED(status) && WEXITSTATUS(status) == SENT_FILE;
	}
	return sent;
}

static int serve(int listener, const struct http_file *file, bool keep)
{
	struct pollfd poll_fd = { .fd = listener, .events = POLLIN };
	int nr_children = 0, sent = 0, idle_ms = 0, fd;

	while (!stopped && (keep || !sent || idle_ms < GRACE_MS)) {
		bool ready = poll(&poll_fd, nr_children < MAX_CHILDREN,
				  100) > 0;

		sent += reap(&nr_children);
		idle_ms = ready || nr_children ? 0 : idle_ms + 100;
		if (!ready)
			continue;
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		nr_children += serve_child(listener, fd, file);
	}
	close(listener);
	return STATUS_DONE;
}

/* The page sees the last part of the path, as a part of its link. */
static bool make_name(const char *path, char *name, size_t size)
{
	const char *base = strrchr(path, '/');

	return http_quote(base ? base + 1 : path, name, size);
}

static int open_and_serve(const char *path, bool keep)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct http_file file = { .path = path };
	struct stat st;
	int fd;

	if (stat(path, &st))
		return complain("%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || access(path, R_OK))
		return complain("%s: %s", path, S_ISREG(st.st_mode) ?
				strerror(errno) : "not a regular file");
	if (!make_name(path, file.name, sizeof(file.name)))
		return complain("%s: the name is too long", path);
	fd = listen_on_port();
	if (fd == -EADDRINUSE)
		return complain("port %d is busy: perhaps another 'gputrace "
				"open' runs; end it first (the page allows no "
				"other port)", PORT);
	if (fd < 0)
		return complain("cannot listen on port %d: %s", PORT,
				strerror(-fd));
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	print_link(path, file.name);
	return serve(fd, &file, keep);
}

int cmd_open(int argc, char **argv)
{
	struct options o = {
		.command = "open", .usage = "[options] FILE",
		.about = "Serves a trace on 127.0.0.1:9001 and prints the "
			"link that opens it in Perfetto.\nNothing leaves this "
			"machine: the page fetches the file itself.",
		.specs = specs, .nr = sizeof(specs) / sizeof(*specs),
		.argc = argc, .argv = argv,
	};
	bool keep = false;
	int option, status;

	while ((option = options_next(&o)) >= 0)
		keep = true;
	status = options_status(&o, option, "FILE");
	if (status >= 0)
		return status;
	if (o.nr_operands != 1)
		return options_usage(&o, "one FILE, please");
	return open_and_serve(argv[1], keep);
}
