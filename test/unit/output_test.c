/* SPDX-License-Identifier: MIT */
/*
 * Files that fill up: rotation, stop; lanes under disorder; a traced process
 * that is killed.  Every file is read by the judge or a strict parser.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collector/loss.h"
#include "test/check.h"
#include "test/unit/scene.h"
#include "writer/output.h"
#include "writer/trace.h"

static char folder[256];
static bool has_judge;

static int run(const char *format, const char *path)
{
	char command[2048];

	snprintf(command, sizeof(command), format, path);
	return system(command);
}

static void judge(const char *path)
{
	const char *tools = getenv("GPUTRACE_JUDGE");
	char command[1024];

	snprintf(command, sizeof(command), "python3 %s/check_trace.py "
		 "--profile all --strict '%%s' >&2",
		 tools ? tools : "../shared/tools");
	if (has_judge)
		CHECK_EQ(run(command, path), 0);
	else
		CHECK_EQ(run("python3 -c 'import json,gzip,sys; p=sys.argv[1]; "
			     "json.load((gzip.open if p.endswith(\"gz\") else "
			     "open)(p))' '%s'", path), 0);
}

static const char *file(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static struct trace *begin(const char *path, uint64_t max_size,
			   enum on_full on_full)
{
	struct writer_options options = {
		.out = path, .memory = 16 << 20, .world_size = 1,
		.max_size = max_size, .on_full = on_full, .keep = 3,
	};
	struct trace *trace = calloc(1, sizeof(*trace));

	CHECK_EQ(trace_init(trace, &options), 0);
	scene.t_ns = clock_now_ns();
	scene_device();
	return trace;
}

static void step(struct trace *trace, bool everything)
{
	scene_flush();
	batch_take(trace);
	drain_rings(trace);
	batch_write(trace, everything);
	output_commit(trace, everything);
}

static void fill(struct trace *trace, uint32_t batches)
{
	static uint32_t c;
	uint32_t i, k, tid = (uint32_t)syscall(SYS_gettid);
	uint64_t t = 0;

	for (i = 0; i < batches; i++) {
		scene_push(t, 0, "batch");
		for (k = 0; k < 100; k++, t += 5000) {
			scene_launch(tid, ++c, t + 100, t + 2000);
			scene_kernel("k", 7, c, t + 4000, t + 8000);
		}
		scene_pop(t, 0);
		step(trace, i + 1 == batches);
	}
	trace_fini(trace);
	free(trace);
}

static uint64_t size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

/* 60 batches of 100 kernels at 600 bytes: 3.6 MB in files of 300 KB. */
static void test_rotation(void)
{
	uint64_t lost = loss_get(LOSS_ROTATED);
	char name[64];
	int i, nr = 0, first = -1, last = -1;

	fill(begin(file("r.json"), 300 << 10, ON_FULL_ROTATE), 60);
	for (i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), i ? "r.r%d.json" : "r.json", i);
		if (!size_of(file(name)))
			continue;
		CHECK(size_of(file(name)) <= 300 << 10);
		judge(file(name));
		first = first < 0 ? i : first;
		last = i;
		nr++;
	}
	CHECK_EQ(nr, 3);
	CHECK_EQ(last - first, 2);
	CHECK(first > 5);
	/* What went is what was there: 6000 launches, kernels, arrows. */
	CHECK(loss_get(LOSS_ROTATED) > lost + 15000);
	snprintf(name, sizeof(name), "r.r%d.json", last);
	CHECK_EQ(run("grep -q '\"events in files rotated away\":' %s",
		     file(name)), 0);
}

static void test_stop(void)
{
	uint64_t lost = loss_get(LOSS_WRITE);

	fill(begin(file("s.json.gz"), 100 << 10, ON_FULL_STOP), 60);
	CHECK(size_of(file("s.json.gz")) > 5000);
	CHECK(size_of(file("s.json.gz")) <= 100 << 10);
	CHECK(!size_of(file("s.r1.json.gz")));
	CHECK(loss_get(LOSS_WRITE) > lost + 1000);
	judge(file("s.json.gz"));
}

/* Kernels in any order, overlapping or not; calls and waits that cross. */
static void test_disorder(void)
{
	struct trace *trace = begin(file("d.json"), 1 << 30, ON_FULL_STOP);
	uint32_t random = 7, i, c = 500000;
	uint32_t tid = (uint32_t)syscall(SYS_gettid);

	for (i = 0; i < 4000; i++) {
		CUpti_ActivitySynchronization2 *sync;
		uint64_t t, dur;

		random = random * 1103515245 + 12345;
		t = 1000000 + (random >> 8) % 3000000;
		random = random * 1103515245 + 12345;
		dur = (random >> 8) % 7 ? (random >> 8) % 1500 : 0;
		scene_launch(tid, ++c, 1000 + i * 200, 1100 + i * 200);
		scene_kernel("k", 7 + i % 3, c, t, t + dur);
		if (i % 4)
			continue;
		sync = scene_room(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
		sync->type = 3;
		sync->start = scene.t_ns + t;
		sync->end = scene.t_ns + t + dur * 3;
		sync->contextId = 1;
		sync->streamId = i % 8 ? 7 : UINT32_MAX;
		sync->correlationId = ++c;
		/* calls that cross: told wrongly, shown all the same */
		scene_call(CUPTI_ACTIVITY_KIND_RUNTIME, 1, tid + 1, ++c, t,
			   t + dur * 2);
		if (i % 400 == 0)
			step(trace, false);
	}
	step(trace, true);
	trace_fini(trace);
	free(trace);
	judge(file("d.json"));
}

static void write_for_ever(const char *path)
{
	struct trace *trace = begin(path, 1 << 30, ON_FULL_STOP);
	uint32_t i, c = 1000;
	uint64_t t = 0;

	for (;;) {
		for (i = 0; i < 300; i++, t += 5000) {
			scene_launch(99, ++c, t, t + 2000);
			scene_kernel("k", 7, c, t + 4000, t + 8000);
		}
		step(trace, false);
	}
}

/* The first file takes as long as the machine is slow; 20 s at most. */
static void wait_for_file(const char *path)
{
	int i;

	for (i = 0; i < 2000 && access(path, F_OK); i++)
		usleep(10000);
}

static void test_kill(const char *name)
{
	uint32_t random = 99;
	int i, status;
	pid_t child;

	for (i = 0; i < 8; i++) {
		child = fork();
		if (!child)
			write_for_ever(file(name));
		wait_for_file(file(name));
		random = random * 1103515245 + 12345;
		usleep(20000 + random / 65536 % 40000);
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
		CHECK(WIFSIGNALED(status));
		CHECK(size_of(file(name)) > 0);
		judge(file(name));
	}
}

int main(void)
{
	const char *tools = getenv("GPUTRACE_JUDGE");
	char path[512];

	snprintf(path, sizeof(path), "%s/check_trace.py",
		 tools ? tools : "../shared/tools");
	has_judge = !access(path, R_OK);
	snprintf(folder, sizeof(folder), "/tmp/gputrace-output-%d", getpid());
	CHECK_EQ(mkdir(folder, 0700), 0);
	scene_begin();
	test_rotation();
	test_stop();
	test_disorder();
	test_kill("k.json");
	test_kill("k.json.gz");
	CHECK_EQ(run("rm -rf '%s'", folder), 0);
	return check_result();
}
