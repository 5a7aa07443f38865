/* SPDX-License-Identifier: MIT */
/*
 * A file that is known by its descriptor alone, at every moment: all that is
 * done to it is written down and done again, a byte at a time, as if SIGKILL
 * had come there; then by real kills; then by writes that fail after every
 * byte count.  What the command makes of it (tools/mend.c) must be what was
 * committed last, plain and gz alike.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/check.h"
#include "test/unit/document.h"
#include "tools/mend.h"
#include "writer/kept_tail.h"

static char path[64];

/* ---- What is done to the file ---- */

struct step {
	enum { WRITE, CUT, COMMITTED } what;
	uint64_t at;            /* offset; size; lines */
	size_t len;
	char *bytes;
};

static struct step steps[4096];
static size_t nr_steps;
static bool is_noted;

static void note(struct step step)
{
	if (!is_noted)
		return;
	if (nr_steps == sizeof(steps) / sizeof(*steps))
		abort();
	steps[nr_steps++] = step;
}

/* In front of libc's, for the sink, which is linked statically. */
ssize_t pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
	struct step step = { WRITE, (uint64_t)offset, len, NULL };

	if (is_noted) {
		step.bytes = malloc(len);
		memcpy(step.bytes, bytes, len);
		note(step);
	}
	return syscall(SYS_pwrite64, fd, bytes, len, offset);
}

int ftruncate(int fd, off_t size)
{
	note((struct step){ CUT, (uint64_t)size, 0, NULL });
	return (int)syscall(SYS_ftruncate, fd, size);
}

/* ---- Writing ---- */

static struct sink *create(bool is_gz)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), err;
	struct sink *sink = sink_fd_create(fd, &err);

	CHECK(sink);
	return is_gz ? sink_gz_create(sink) : sink;
}

/* Tails that are shorter and longer than the pieces, and than each other. */
static int write_some(struct sink *sink, unsigned int *next, int round)
{
	static const size_t widths[] = { 0, 200, 3, 90, 700, 0, 31 };
	static const unsigned int pieces[][3] = {
		{ 1, 0, 0 }, { 3, 20, 1 }, { 0, 0, 0 }, { 40, 1, 1 },
		{ 1, 1, 1 }, { 2, 60, 0 }, { 5, 0, 9 },
	};
	int err = 0, i;

	for (i = 0; i < 3 && !err; i++)
		err = append_lines(sink, next, pieces[round % 7][i]);
	if (!err)
		err = commit_wide(sink, *next, widths[round % 7]);
	if (!err)
		note((struct step){ COMMITTED, *next, 0, NULL });
	return err;
}

/* ---- What is left ---- */

/* Its lines, as the command reads it; less than 0: none. */
static int rescued(void)
{
	int lines = read_document(path), fd;

	if (lines >= 0)
		return lines;
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(mend_tail(fd) >= 0);
	close(fd);
	return read_document(path);
}

struct image {
	char bytes[64 << 10];
	uint64_t size;
};

static void save(const struct image *image)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK_EQ(syscall(SYS_pwrite64, fd, image->bytes, image->size, 0),
		 image->size);
	close(fd);
}

static void check_image(const struct image *image, int done, int coming)
{
	int lines;

	save(image);
	lines = rescued();
	if (lines != done && lines != coming && done >= 0)
		fprintf(stderr, "%d lines of %d\n", lines, done);
	CHECK(lines == done || lines == coming || done < 0);
}

/* The lines that are committed next. */
static int coming_lines(size_t i)
{
	while (i < nr_steps && steps[i].what != COMMITTED)
		i++;
	return i < nr_steps ? (int)steps[i].at : -1;
}

/* A mark lies in one page. */
static bool is_whole_or_not(const struct step *step)
{
	return step->len == sizeof(struct kept_tail) && step->at % 64 == 0 &&
		!memcmp(step->bytes, KEPT_TAIL_MAGIC, 16);
}

static void put(struct image *image, uint64_t at, char byte)
{
	CHECK(at < sizeof(image->bytes));
	image->bytes[at] = byte;
	if (image->size <= at)
		image->size = at + 1;
}

static long replay(void)
{
	static struct image image;
	int done = -1, coming;
	long nr = 0;
	size_t i, n;

	memset(&image, 0, sizeof(image));
	for (i = 0; i < nr_steps; i++) {
		const struct step *step = &steps[i];

		coming = coming_lines(i);
		if (step->what == COMMITTED)
			done = (int)step->at;
		if (step->what == CUT) {
			/* What is behind reads as zeroes from then on. */
			if (step->at < image.size)
				memset(image.bytes + step->at, 0,
				       image.size - step->at);
			image.size = step->at;
		}
		for (n = 0; step->what == WRITE && n < step->len; n++, nr++) {
			put(&image, step->at + n, step->bytes[n]);
			if (n + 1 < step->len && is_whole_or_not(step))
				continue;
			check_image(&image, done, coming);
		}
		check_image(&image, done, coming);
	}
	return nr;
}

static void test_every_byte(bool is_gz)
{
	struct sink *sink = create(is_gz);
	unsigned int next = 0, done;
	int round;
	long nr;

	nr_steps = 0;
	is_noted = true;
	CHECK_EQ(append_begin(sink), 0);
	for (round = 0; round < 14; round++)
		CHECK_EQ(write_some(sink, &next, round), 0);
	/* What is not committed is taken back. */
	done = next;
	CHECK_EQ(append_lines(sink, &next, 17), 0);
	CHECK_EQ(append_lines(sink, &next, 400), 0);
	sink_close(sink);
	is_noted = false;
	CHECK_EQ(read_document(path), done);
	nr = replay();
	CHECK(nr > 2000);
	while (nr_steps)
		free(steps[--nr_steps].bytes);
}

/* Closes `begun` when there is a document. */
static void write_for_ever(bool is_gz, int begun)
{
	struct sink *sink = create(is_gz);
	unsigned int next = 0;

	if (append_begin(sink))
		_exit(1);
	for (;;) {
		if (append_lines(sink, &next, 1 + next % 977) ||
		    append_lines(sink, &next, 1 + next % 3001) ||
		    commit_wide(sink, next, next % 4000))
			_exit(1);
		if (begun >= 0)
			close(begun);
		begun = -1;
	}
}

static void test_kill(bool is_gz, int rounds)
{
	struct timespec nap = { 0, 0 };
	unsigned int random = 12345;
	int i, status, ends[2], seen = 0, cut = 0;
	char byte;
	pid_t child;

	for (i = 0; i < rounds; i++) {
		CHECK_EQ(pipe(ends), 0);
		child = fork();
		if (!child)
			write_for_ever(is_gz, ends[1]);
		close(ends[1]);
		CHECK_EQ(read(ends[0], &byte, 1), 0);
		close(ends[0]);
		random = random * 1103515245 + 12345;
		nap.tv_nsec = random % 10000000;
		nanosleep(&nap, NULL);
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
		CHECK(WIFSIGNALED(status));
		cut += read_document(path) < 0;
		seen += rescued() > 0;
	}
	CHECK_EQ(seen, rounds);
	fprintf(stderr, "%d of %d were cut\n", cut, rounds);
}

/* A limit on the file's size lets a write fail after `bytes`. */
static void test_limit(bool is_gz)
{
	struct rlimit limit = { 0, RLIM_INFINITY };
	unsigned int next, bytes;
	int err, done, round;
	struct sink *sink;

	signal(SIGXFSZ, SIG_IGN);
	for (bytes = 0; bytes < 800; bytes++) {
		limit.rlim_cur = bytes;
		setrlimit(RLIMIT_FSIZE, &limit);
		next = 0;
		done = -1;
		sink = create(is_gz);
		err = append_begin(sink);
		for (round = 0; !err; round++) {
			err = write_some(sink, &next, round);
			if (!err)
				done = (int)next;
		}
		CHECK_EQ(err, -EFBIG);
		CHECK(done < 0 || read_document(path) == done);
		CHECK_EQ(append_lines(sink, &next, 1), -EFBIG);
		sink_close(sink);
		CHECK(done < 0 || read_document(path) == done);
		limit.rlim_cur = RLIM_INFINITY;
		setrlimit(RLIMIT_FSIZE, &limit);
	}
	CHECK(done > 0);
}

int main(void)
{
	snprintf(path, sizeof(path), "/tmp/gputrace-fd-%d", getpid());
	test_every_byte(false);
	test_every_byte(true);
	test_kill(false, 40);
	test_kill(true, 40);
	test_limit(false);
	test_limit(true);
	unlink(path);
	return check_result();
}
