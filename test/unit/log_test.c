/* SPDX-License-Identifier: MIT */
/*
 * Queued lines: what another thread is writing when the process ends is out
 * before log_finish() returns, though the reader of stderr is slow.
 */
#include "collector/log.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/check.h"

static char text[1 << 21];
static size_t len;

static void fill(int fd)
{
	static const char page[4096];

	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (write(fd, page, sizeof page) > 0)
		;
	fcntl(fd, F_SETFL, 0);
}

static void *carry(void *arg)
{
	log_carry();
	return arg;
}

/* A process that ends while a thread waits for room for its first line. */
static void end_with_two_lines(int fd)
{
	pthread_t carrier;

	dup2(fd, STDERR_FILENO);
	log_keep_stderr();
	log_queue(LOG_WARN, "one");
	pthread_create(&carrier, NULL, carry, NULL);
	pthread_detach(carrier);
	poll(NULL, 0, 5);
	log_queue(LOG_WARN, "two");
	log_finish();
	_exit(0);
}

static int holds(const char *line)
{
	return memmem(text, len, line, strlen(line)) != NULL;
}

int main(void)
{
	int ends[2];
	ssize_t n;
	pid_t pid;

	CHECK(pipe(ends) == 0);
	fill(ends[1]);
	pid = fork();
	if (!pid)
		end_with_two_lines(ends[1]);
	close(ends[1]);
	poll(NULL, 0, 20);      /* less than a line waits for */
	while ((n = read(ends[0], text + len, sizeof text - len)) > 0)
		len += (size_t)n;
	waitpid(pid, NULL, 0);
	CHECK(holds("gputrace: one\n"));
	CHECK(holds("gputrace: two\n"));
	return check_result();
}
