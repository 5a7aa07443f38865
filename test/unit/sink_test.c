/* SPDX-License-Identifier: MIT */
/*
 * The file at every moment: SIGKILL at random times, writes cut after every
 * byte count, full disks, names that are taken, folders that vanish,
 * descriptors that the program closes.  What is seen must be a whole document
 * (begin, lines in order, tail), plain and gz alike.
 *
 * Not of sink_fd.c: a file that is known by its descriptor alone has no name
 * for a twin, and is whole only when it is closed.  sink_fd_test.c has it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/check.h"
#include "test/unit/document.h"
#include "writer/path.h"
#include "writer/sink.h"
#include "writer/twin.h"

static char folder[256];

static const char *in_folder(const char *name)
{
	static char path[4][512];
	static int turn;

	turn = (turn + 1) % 4;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, name);
	return path[turn];
}

static struct sink *create(const char *path, int *err)
{
	char name[4096];
	struct sink *sink;

	snprintf(name, sizeof(name), "%s", path);
	sink = path_open_sink(name, sizeof(name), false, 1, err);
	return sink;
}

static void test_plain_run(const char *name)
{
	const char *path = in_folder(name);
	unsigned int next = 0, i;
	struct stat st;
	char twin[512];
	int err;
	struct sink *sink = create(path, &err);

	CHECK(sink);
	CHECK_EQ(append_begin(sink), 0);
	CHECK_EQ(read_document(path), -2);
	for (i = 0; i < 20; i++) {
		CHECK_EQ(append_lines(sink, &next, i * 37), 0);
		CHECK_EQ(append_lines(sink, &next, 5), 0);
		CHECK_EQ(commit(sink, next), 0);
		CHECK_EQ(read_document(path), next);
	}
	CHECK(!stat(path, &st) && (st.st_mode & 0777) == 0600);
	CHECK_EQ(twin_path(path, twin, sizeof(twin)), 0);
	CHECK(!access(twin, F_OK) && twin_is_held(path));
	sink_close(sink);
	CHECK(access(twin, F_OK) && !twin_is_held(path));
	CHECK_EQ(read_document(path), next);
	unlink(path);
}

static void write_for_ever(const char *path)
{
	unsigned int next = 0;
	int err;
	struct sink *sink = create(path, &err);

	if (!sink || append_begin(sink))
		_exit(1);
	for (;;) {
		if (append_lines(sink, &next, 1 + next % 977) ||
		    commit(sink, next))
			_exit(1);
	}
}

/* Each kill leaves a twin; the next run clears it away. */
static void test_kill(const char *name, int rounds)
{
	const char *path = in_folder(name);
	struct timespec nap = { 0, 0 };
	unsigned int random = 12345;
	int i, status, lines, seen = 0;
	pid_t child;

	for (i = 0; i < rounds; i++) {
		child = fork();
		if (!child)
			write_for_ever(path);
		random = random * 1103515245 + 12345;
		nap.tv_nsec = 1000000 + random % 15000000;
		nanosleep(&nap, NULL);
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
		CHECK(WIFSIGNALED(status));
		lines = read_document(path);
		CHECK(lines != -1);
		seen += lines > 0;
	}
	CHECK(seen > rounds / 2);
	twin_remove_stale(path);
	unlink(path);
	CHECK_EQ(rmdir(folder), 0);     /* nothing is left behind */
	CHECK_EQ(mkdir(folder, 0700), 0);
}

/* A limit on the file's size cuts a write after `limit` bytes. */
static void test_cut(const char *name)
{
	struct rlimit limit = { 0, RLIM_INFINITY };
	const char *path = in_folder(name);
	unsigned int next, bytes;
	int err, done, lines;
	struct sink *sink;

	signal(SIGXFSZ, SIG_IGN);
	for (bytes = 0; bytes < 420; bytes++) {
		limit.rlim_cur = bytes;
		setrlimit(RLIMIT_FSIZE, &limit);
		next = 0;
		done = -2;
		sink = create(path, &err);
		CHECK(sink);
		err = append_begin(sink);
		while (!err) {
			err = append_lines(sink, &next, 3);
			if (!err)
				err = commit(sink, next);
			if (!err)
				done = (int)next;
		}
		CHECK_EQ(err, -EFBIG);
		lines = read_document(path);
		CHECK_EQ(lines, done);
		CHECK_EQ(append_lines(sink, &next, 1), -EFBIG);
		sink_close(sink);
		limit.rlim_cur = RLIM_INFINITY;
		setrlimit(RLIMIT_FSIZE, &limit);
		unlink(path);
	}
	CHECK_EQ(rmdir(folder), 0);
	CHECK_EQ(mkdir(folder, 0700), 0);
}

static void test_full_disk(void)
{
	const char *path = in_folder("full.json");
	unsigned int next = 0, done = 0;
	struct sink *sink;
	int err;

	if (mount("none", folder, "tmpfs", 0, "size=256k")) {
		fprintf(stderr, "no tmpfs here: full disk not tried\n");
		return;
	}
	sink = create(path, &err);
	CHECK(sink);
	err = append_begin(sink);
	while (!err) {
		err = append_lines(sink, &next, 100);
		if (!err)
			err = commit(sink, next);
		if (!err)
			done = next;
	}
	CHECK_EQ(err, -ENOSPC);
	CHECK(done > 1000);
	CHECK_EQ(read_document(path), done);
	sink_close(sink);
	CHECK_EQ(read_document(path), done);
	CHECK_EQ(umount(folder), 0);
}

/* A daemon closes all descriptors; another file gets our number. */
static void test_stolen_descriptors(void)
{
	const char *path = in_folder("stolen.json");
	const char *other = in_folder("other");
	unsigned int next = 0;
	struct stat st;
	int err, fd, foreign[32], i;
	struct sink *sink = create(path, &err);

	CHECK(sink && !append_begin(sink));
	for (i = 0; i < 4; i++)
		CHECK(!append_lines(sink, &next, 10) && !commit(sink, next));
	for (fd = 3; fd < 32; fd++)
		close(fd);
	for (i = 0; i < 32; i++)
		foreign[i] = open(other, O_RDWR | O_CREAT, 0600);
	for (i = 0; i < 4; i++)
		CHECK(!append_lines(sink, &next, 10) && !commit(sink, next));
	CHECK_EQ(read_document(path), 80);
	CHECK(!stat(other, &st) && st.st_size == 0);
	sink_close(sink);
	for (i = 0; i < 32; i++)
		CHECK_EQ(close(foreign[i]), 0);
	unlink(path);
	unlink(other);
}

static void test_removed(void)
{
	const char *path = in_folder("gone/x.json");
	unsigned int next = 0;
	int err;
	struct sink *sink;

	CHECK(!create(path, &err));
	CHECK_EQ(err, -ENOENT);
	mkdir(in_folder("gone"), 0700);
	sink = create(path, &err);
	CHECK(sink && !append_begin(sink) && !commit(sink, 0));
	CHECK(!append_lines(sink, &next, 1) && !commit(sink, next));
	unlink(path);
	CHECK(append_lines(sink, &next, 1) || commit(sink, next));
	sink_close(sink);
	CHECK_EQ(rmdir(in_folder("gone")), 0);
}

/* What the user named is a device: never replaced, never written. */
static void test_special(void)
{
	const char *path = in_folder("fifo.json");
	struct stat st;
	int err;

	CHECK_EQ(mkfifo(path, 0600), 0);
	CHECK(!create(path, &err));
	CHECK_EQ(err, -EINVAL);
	CHECK(!stat(path, &st) && S_ISFIFO(st.st_mode));
	unlink(path);
}

static const char *opened(const char *name, bool is_pattern,
			  struct sink **sink)
{
	static char path[4096];
	int err;

	snprintf(path, sizeof(path), "%s", in_folder(name));
	*sink = path_open_sink(path, sizeof(path), is_pattern, 77, &err);
	if (*sink)
		CHECK(!append_begin(*sink) && !commit(*sink, 0));
	return *sink ? path + strlen(folder) + 1 : "none";
}

static void test_names(void)
{
	struct sink *a, *b, *c, *d, *e, *f;

	CHECK(!strcmp(opened("p-1.json", true, &a), "p-1.json"));
	CHECK(!strcmp(opened("p-1.json", true, &b), "p-1-2.json"));
	sink_close(a);
	CHECK(!strcmp(opened("p-1.json", true, &c), "p-1-3.json"));
	CHECK(!strcmp(opened("exact.json.gz", false, &d), "exact.json.gz"));
	CHECK(!strcmp(opened("exact.json.gz", false, &e),
		      "exact-77.json.gz"));
	sink_close(d);
	CHECK(!strcmp(opened("exact.json.gz", false, &f), "exact.json.gz"));
	sink_close(b);
	sink_close(c);
	sink_close(e);
	sink_close(f);
}

static void expand(const char *pattern, const char *want, bool is_pattern)
{
	struct path_values values = {
		.pid = 42, .rank = 3, .host = "no/de", .program = "py",
		.start_ns = UINT64_C(1795979700000000000),
	};
	char path[64] = "";
	bool got;

	CHECK_EQ(path_expand(pattern, &values, path, sizeof(path), &got), 0);
	CHECK(!strcmp(path, want) && got == is_pattern);
}

static void test_patterns(void)
{
	char path[64];

	expand("gputrace-%h-%p.json", "gputrace-no_de-42.json", true);
	expand("/t/%n.%r.%t.json.gz", "/t/py.3.20261129T191500.json.gz", true);
	expand("100%%.json", "100%.json", false);
	expand("%z%", "%z%", false);
	expand("x.json", "x.json", false);
	CHECK(!path_insert("a.b/c.json.gz", "-2", path, sizeof(path)) &&
	      !strcmp(path, "a.b/c-2.json.gz"));
	CHECK(!path_insert("a.b/c", ".r1", path, sizeof(path)) &&
	      !strcmp(path, "a.b/c.r1"));
	CHECK(!path_insert("/x/.json", "-2", path, sizeof(path)) &&
	      !strcmp(path, "/x/.json-2"));
	CHECK_EQ(path_insert("abcdefgh", "-2", path, 8), -ENAMETOOLONG);
}

int main(void)
{
	char command[300];

	snprintf(folder, sizeof(folder), "/tmp/gputrace-sink-%d", getpid());
	CHECK_EQ(mkdir(folder, 0700), 0);
	test_plain_run("plain.json");
	test_plain_run("packed.json.gz");
	test_kill("killed.json", 120);
	test_kill("killed.json.gz", 120);
	test_cut("cut.json");
	test_cut("cut.json.gz");
	test_full_disk();
	test_stolen_descriptors();
	test_removed();
	test_special();
	test_names();
	test_patterns();
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	CHECK_EQ(system(command), 0);
	return check_result();
}
