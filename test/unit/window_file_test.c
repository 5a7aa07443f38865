/* SPDX-License-Identifier: MIT */
/*
 * Windows with a file of their own: by name, by descriptor, by number.  The
 * writer's thread runs; CUPTI's part (handing over, settling) is played here.
 * Every file is read by the judge; what is in it, by its text.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collector/activity_buffer.h"
#include "test/check.h"
#include "test/unit/files.h"
#include "test/unit/scene.h"
#include "writer/writer.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

#define SECOND UINT64_C(1000000000)

static uint32_t correlation;

static void begin(const char *out)
{
	struct writer_options options = {
		.out = out, .flush_ns = 200000000, .max_size = 1 << 30,
		.keep = 2, .memory = 16 << 20, .world_size = 1,
	};

	CHECK_EQ(writer_start(&options), 0);
	scene_device();
	scene_flush();
}

static void end(void)
{
	CHECK_EQ(writer_finish(clock_now_ns() + 10 * SECOND), 0);
}

/* `nr` kernels in a range that no pop ends, with the devices at first. */
static void work(uint32_t nr)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid), i;

	scene.t_ns = clock_now_ns();
	scene_push(0, 0, "the window's");
	for (i = 0; i < nr; i++) {
		scene_launch(tid, ++correlation, 100 + i * 20, 110 + i * 20);
		scene_kernel("k", 7, correlation, 112 + i * 20, 118 + i * 20);
	}
	/* The window closes later than all that. */
	while (clock_now_ns() < scene.t_ns + 200 + nr * 20)
		;
}

/* Opens, works, closes; the end of it is handed over late. */
static uint32_t window(uint32_t nr)
{
	uint32_t n = window_open() / 2 + 1;

	work(nr);
	window_close();
	scene_flush();
	window_settle();
	activity_wake();
	return n;
}

static struct writer_result wait_for(uint32_t n)
{
	struct writer_result result = { .error = 77 };

	CHECK_EQ(writer_wait_window(n, clock_now_ns() + 20 * SECOND, &result),
		 0);
	return result;
}

static int set_path(const char *path)
{
	struct writer_target target = { .fd = -1 };

	snprintf(target.path, sizeof(target.path), "%s", path);
	return writer_set_target(&target);
}

static int open_descriptor(const char *path, int flags)
{
	return open(path, flags | O_CREAT | O_CLOEXEC, 0600);
}

static int set_descriptor(int fd, bool is_gz)
{
	struct writer_target target = { .fd = fd, .is_gz = is_gz };

	return writer_set_target(&target);
}

static uint64_t size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

/* A file of its own between two that share one. */
static void test_names(void)
{
	struct writer_result first, own, numbered, last;
	const char *common = in_folder("common.json");
	char path[512];
	uint32_t n;

	begin(common);
	first = wait_for(window(10));
	CHECK(!strcmp(first.path, common));
	CHECK_EQ(first.kernels, 10);
	CHECK_EQ(kernels_in(common), 10);

	CHECK_EQ(set_path(in_folder("own.json.gz")), 0);
	own = wait_for(window(20));
	CHECK(!strcmp(own.path, in_folder("own.json.gz")));
	CHECK_EQ(own.error, 0);
	CHECK_EQ(own.kernels, 20);
	/* Also their calls, two ends of arrows each, the range twice, and
	 * what we did ourselves. */
	CHECK(own.events >= 20 * 4 + 2 && own.events <= 20 * 4 + 4);
	CHECK_EQ(own.lost, 0);
	CHECK_EQ(own.bytes, size_of(own.path));

	CHECK_EQ(set_path(""), 0);
	n = window(5);
	numbered = wait_for(n);
	snprintf(path, sizeof(path), "%s/common.w%u.json", folder, n);
	CHECK(!strcmp(numbered.path, path));

	last = wait_for(window(7));
	CHECK(!strcmp(last.path, common));
	CHECK_EQ(last.kernels, 7);
	CHECK_EQ(kernels_in(common), 17);
	CHECK_EQ(kernels_in(own.path), 20);
	CHECK_EQ(kernels_in(path), 5);
	end();
	CHECK_EQ(count(common, "\"kernels\":17,"), 1);
	CHECK_EQ(count(own.path, "\"kernels\":20,"), 1);
	CHECK_EQ(count(own.path, "\"finished\":true"), 1);
	CHECK_EQ(count(common, "\"finished\":true"), 1);
	/* A late waiter. */
	CHECK_EQ(wait_for(n).kernels, 5);
	CHECK_EQ(writer_wait_window(n + 100, 0, &last), -ENOENT);
	judge(common);
	judge(own.path);
	judge(path);
}

/* What was in the file before goes, whatever its length. */
static void test_descriptors(void)
{
	const char *plain = in_folder("plain.json");
	const char *packed = in_folder("packed.json.gz");
	struct writer_result result;
	static char old[1 << 20];
	int fd, ends[2];

	begin(in_folder("unused.json"));
	fd = open_descriptor(plain, O_RDWR);
	CHECK_EQ(write(fd, old, sizeof(old)), sizeof(old));
	CHECK_EQ(set_descriptor(fd, false), 0);
	result = wait_for(window(30));
	CHECK(result.error == 0 && !result.path[0]);
	CHECK_EQ(result.kernels, 30);
	CHECK_EQ(fcntl(fd, F_GETFD), -1);       /* the writer closes it */
	CHECK_EQ(kernels_in(plain), 30);

	fd = open_descriptor(packed, O_RDWR);
	CHECK_EQ(set_descriptor(fd, true), 0);
	CHECK_EQ(wait_for(window(40)).kernels, 40);
	CHECK_EQ(kernels_in(packed), 40);

	/* Refused: then it stays the caller's. */
	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(set_descriptor(ends[1], false), -EINVAL);
	fd = open_descriptor(in_folder("x"), O_WRONLY);
	CHECK_EQ(set_descriptor(fd, false), -EINVAL);
	CHECK_EQ(close(fd), 0);
	fd = open_descriptor(in_folder("x"), O_RDWR | O_APPEND);
	CHECK_EQ(set_descriptor(fd, false), -EINVAL);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(set_descriptor(fd, false), -EBADF);
	/* Taken back: the start failed. */
	fd = open_descriptor(in_folder("x"), O_RDWR);
	CHECK_EQ(set_descriptor(fd, true), 0);
	CHECK_EQ(writer_set_target(NULL), 0);
	CHECK_EQ(close(fd), 0);
	CHECK(!close(ends[0]) && !close(ends[1]));
	end();
	CHECK_EQ(size_of(in_folder("unused.json")), 0);
	judge(plain);
	judge(packed);
}

/* While a window is open, or has not settled, no other gets a file; one that
 * opens all the same shares that of the one before. */
static void test_overlap(void)
{
	const char *own = in_folder("shared.json");
	struct writer_result result;
	uint32_t n;

	begin(in_folder("overlap.json"));
	CHECK_EQ(set_path("relative.json"), -EINVAL);
	CHECK_EQ(set_path(own), 0);
	n = window_open() / 2 + 1;
	work(10);
	CHECK_EQ(set_path(in_folder("other.json")), -EBUSY);
	window_close();
	CHECK_EQ(set_path(in_folder("other.json")), -EBUSY);
	CHECK_EQ(writer_wait_window(n, clock_now_ns() + SECOND / 5, &result),
		 -ETIMEDOUT);
	CHECK_EQ(window(10), n + 1);
	result = wait_for(n);
	CHECK(!strcmp(result.path, own));
	CHECK(!strcmp(wait_for(n + 1).path, own));
	CHECK_EQ(kernels_in(own), 20);
	CHECK_EQ(set_path(in_folder("other.json")), 0);
	CHECK_EQ(wait_for(window(1)).kernels, 1);
	end();
	judge(own);
	judge(in_folder("other.json"));
}

/* One that cannot be made loses its window, not the next. */
static void test_errors(void)
{
	struct writer_result result;

	begin(in_folder("after.json"));
	CHECK_EQ(set_path(in_folder("no/folder.json")), 0);
	result = wait_for(window(10));
	CHECK_EQ(result.error, -ENOENT);
	CHECK(!result.path[0]);
	CHECK_EQ(result.kernels, 0);
	CHECK(result.lost >= 10 * 4);
	CHECK_EQ(wait_for(window(10)).kernels, 10);
	end();
	begin("/dev/null");
	CHECK_EQ(set_path(""), -ENOSYS);
	CHECK_EQ(set_path(in_folder("beside.json")), 0);
	CHECK_EQ(wait_for(window(10)).kernels, 10);
	end();
	judge(in_folder("after.json"));
	judge(in_folder("beside.json"));
}

static void test_rotation(void)
{
	struct writer_options options = {
		.out = in_folder("r.%w.json"), .flush_ns = 20000000,
		.max_size = 100 << 10, .keep = 2, .memory = 16 << 20,
		.world_size = 1,
	};
	char path[512];
	uint32_t n;
	int i, nr;

	CHECK_EQ(writer_start(&options), 0);
	scene_device();
	for (i = 0; i < 2; i++) {
		n = window(2000);
		CHECK(wait_for(n).kernels < 2000);
	}
	end();
	for (i = 0, nr = 0; i < 60; i++) {
		snprintf(path, sizeof(path), "%s/r.%u.r%d.json", folder, n, i);
		if (!size_of(path))
			continue;
		CHECK(size_of(path) <= 100 << 10);
		judge(path);
		nr++;
	}
	CHECK_EQ(nr, 2);
}

static void started(uint64_t t_ns)
{
	static uint64_t id;

	scene.t_ns = t_ns ? 0 : scene.t_ns;
	scene_range(RECORD_RANGE_START, t_ns, ++id, "started");
	scene_commit();
	scene_range(RECORD_RANGE_END, t_ns + 10, id, NULL);
	scene_commit();
}

/* A kernel that was running when it was fetched: who launched it, in which
 * range; not in the next window's file. */
static void test_unfinished(void)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid), n;
	struct writer_result result;
	char text[256];

	begin(in_folder("u.%w.json"));
	n = window_open() / 2 + 1;
	scene.t_ns = clock_now_ns();
	scene_push(0, 0, "decode \"1\"");
	started(0);
	scene_launch(tid, ++correlation, 100, 200);
	scene_kernel("hung_kernel", 13, correlation, 300, 0)->end = 0;
	while (clock_now_ns() < scene.t_ns + 1000)
		;
	window_close();
	scene_flush();
	window_settle();
	result = wait_for(n);
	CHECK_EQ(result.unfinished, 1);
	CHECK_EQ(result.lost, 1);
	CHECK_EQ(wait_for(window(5)).unfinished, 0);
	window_open();
	started(clock_now_ns());
	window_close();
	window_settle();
	end();
	snprintf(text, sizeof(text), "\"unfinished_launches\":[{\"name\":"
		 "\"hung_kernel\",\"correlation\":%u,\"device\":0,"
		 "\"context\":1,\"stream\":13,\"launched_ns\":",
		 correlation - 5);
	CHECK_EQ(count(result.path, text), 1);
	snprintf(text, sizeof(text), "\"tid\":%u,\"thread\":\"", tid);
	CHECK_EQ(count(result.path, text), 1);
	CHECK_EQ(count(result.path, "\"range\":\"decode \\\"1\\\"\"}]"), 1);
	CHECK_EQ(count(wait_for(n + 1).path, "\"unfinished_launches\":[]"), 1);
	/* Nor is a lane named there that only this one has. */
	CHECK_EQ(count(result.path, "\"start/end ranges\""), 1);
	CHECK_EQ(count(wait_for(n + 1).path, "\"start/end ranges\""), 0);
	CHECK_EQ(count(wait_for(n + 2).path, "\"start/end ranges\""), 1);
}

static int nr_descriptors(void)
{
	DIR *open_ones = opendir("/proc/self/fd");
	int nr = 0;

	while (readdir(open_ones))
		nr++;
	closedir(open_ones);
	return nr;
}

static uint64_t resident_kb(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long size = 0, resident = 0;

	CHECK(file && fscanf(file, "%lu %lu", &size, &resident) == 2);
	fclose(file);
	return resident * 4;
}

/* By descriptor and by number in turn. */
static void test_cycles(void)
{
	int before = nr_descriptors(), i;
	uint64_t kb = 0;

	begin(in_folder("c.%w.json.gz"));
	for (i = 0; i < 120; i++) {
		if (i % 2)
			CHECK_EQ(set_descriptor(open_descriptor(
				 in_folder("cycle.json"), O_RDWR), false), 0);
		CHECK_EQ(wait_for(window(50)).kernels, 50);
		if (i == 20)
			kb = resident_kb();
	}
	/* A sanitizer keeps what was freed. */
	CHECK(IS_SANITIZED || resident_kb() < kb + 2048);
	end();
	CHECK_EQ(nr_descriptors(), before);
	CHECK_EQ(kernels_in(in_folder("cycle.json")), 50);
	judge(in_folder("cycle.json"));
}

int main(void)
{
	char command[300];

	snprintf(folder, sizeof(folder), "/tmp/gputrace-windows-%d", getpid());
	CHECK_EQ(mkdir(folder, 0700), 0);
	scene_begin();
	window_close();
	window_settle();
	test_names();
	test_descriptors();
	test_overlap();
	test_errors();
	test_rotation();
	test_unfinished();
	test_cycles();
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	CHECK_EQ(system(command), 0);
	return check_result();
}
