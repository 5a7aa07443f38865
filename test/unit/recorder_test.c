/* SPDX-License-Identifier: MIT */
/*
 * The flight recorder: what it keeps, what a dump says, that recording goes on
 * meanwhile.  Every file is read by the judge, whose rules hold arrows to
 * their launches; how many of what is in it, by its text.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collector/activity_buffer.h"
#include "test/check.h"
#include "test/unit/files.h"
#include "test/unit/scene.h"
#include "writer/dump.h"
#include "writer/recorder.h"
#include "writer/writer.h"

#define SECOND UINT64_C(1000000000)

static uint32_t correlation;

/* `nr` kernels in a range, handed over and flushed. */
static void work(uint32_t nr)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid), i;

	scene.t_ns = clock_now_ns();
	scene_push(0, 0, "a step");
	for (i = 0; i < nr; i++) {
		scene_launch(tid, ++correlation, 100 + i * 20, 110 + i * 20);
		scene_kernel("k", 7, correlation, 112 + i * 20, 118 + i * 20);
	}
	scene_pop(200 + nr * 20, 0);
	scene_flush();
	activity_flushed();
}

static int dump(const char *path, struct writer_result *result)
{
	struct writer_target target = { .fd = -1 };

	snprintf(target.path, sizeof(target.path), "%s", path);
	return writer_dump(&target, clock_now_ns() + 20 * SECOND, result);
}

static void begin(uint64_t keep_ns, uint64_t bytes, uint64_t max_size)
{
	struct writer_options options = {
		.out = in_folder("none.json"), .flush_ns = 60 * SECOND,
		.max_size = max_size, .memory = 16 << 20, .world_size = 1,
		.recorder_ns = keep_ns, .recorder_bytes = bytes,
	};

	CHECK_EQ(writer_start(&options), 0);
	scene_device();
	scene_flush();
}

static void end(void)
{
	struct writer_summary summary;

	CHECK_EQ(writer_finish(clock_now_ns() + 10 * SECOND), 0);
	writer_summary(&summary);
	CHECK(summary.is_recorder);
	CHECK(access(in_folder("none.json"), F_OK));
}

/* ---- The sink ---- */

static void note(struct sink *sink, uint64_t newest_ns, uint32_t kernels)
{
	struct stretch stretch = { newest_ns, UINT64_MAX,
				   { kernels, kernels } };

	recorder_note(sink, &stretch);
}

static uint64_t kept(struct sink *sink)
{
	const struct segment *at = recorder_read(sink);
	uint64_t nr = 0;

	for (; at; at = recorder_read_next(sink))
		nr += at->stretch.tally.kernels;
	return nr;
}

/* What is too old goes, what is new stays. */
static void test_by_time(void)
{
	struct sink *sink = sink_recorder_create(10 * SECOND, 64 << 20);
	uint64_t now_ns = clock_now_ns();
	struct bytes piece = { 0 };
	int i;

	/* Each is a segment of its own. */
	while (piece.len < 1 << 20)
		bytes_add(&piece, ",\n{}", 4);
	for (i = 20; i > 0; i--) {
		note(sink, now_ns - (uint64_t)i * SECOND - SECOND / 2, 1);
		CHECK_EQ(sink_append(sink, &piece), 0);
		/* Those from 13 s to 9 s ago are one: a commit is kept, or
		 * forgotten, as a whole. */
		if (i > 13 || i < 10)
			CHECK_EQ(sink_commit(sink, &(struct bytes){ 0 }), 0);
	}
	CHECK_EQ(kept(sink), 13);
	CHECK_EQ(recorder_forgotten(sink).tally.kernels, 7);
	CHECK_EQ(recorder_forgotten(sink).newest_ns,
		 now_ns - 14 * SECOND - SECOND / 2);
	sink_close(sink);
	bytes_fini(&piece);
}

/* 24 MB of noise, which does not shrink; 12 may be kept.  While it is read
 * nothing goes of what is still to be read. */
static void test_by_size(void)
{
	struct sink *sink = sink_recorder_create(UINT64_MAX / 4, 12 << 20);
	const struct segment *at, *first;
	struct bytes piece = { 0 };
	uint32_t random = 1, i;
	uint64_t seen = 0;

	for (i = 0; i < 1 << 20; i++) {
		random = random * 1103515245 + 12345;
		bytes_add(&piece, &(char){ (char)(random >> 16) }, 1);
	}
	for (i = 0; i < 24; i++) {
		note(sink, i + 1, 1);
		CHECK_EQ(sink_append(sink, &piece), 0);
		CHECK_EQ(sink_commit(sink, &(struct bytes){ 0 }), 0);
		CHECK(sink_size(sink, 0) <= 12 << 20);
	}
	CHECK(kept(sink) > 4 && kept(sink) < 12);
	CHECK_EQ(kept(sink) + recorder_forgotten(sink).tally.kernels, 24);
	first = recorder_read(sink);
	for (i = 0; i < 12; i++) {
		note(sink, 100 + i, 1);
		CHECK_EQ(sink_append(sink, &piece), 0);
		CHECK_EQ(sink_commit(sink, &(struct bytes){ 0 }), 0);
	}
	for (at = first; at && at->stretch.newest_ns < 100;
	     at = recorder_read_next(sink))
		seen += at->stretch.tally.kernels;
	CHECK(seen > 4 && seen < 12);
	recorder_read_end(sink);
	CHECK_EQ(sink_commit(sink, &(struct bytes){ 0 }), 0);
	CHECK(sink_size(sink, 0) <= 12 << 20);
	sink_close(sink);
	bytes_fini(&piece);
}

/* Arrows at the edge: of three, two come from before it. */
static void test_cut(void)
{
	static const char in[] =
		",\n{\"ph\":\"X\",\"cat\":\"kernel\",\"ts\":9.000,\"args\":{\"a\":1}}"
		",\n{\"ph\":\"s\",\"id\":1,\"ts\":5.001}"
		",\n{\"ph\":\"f\",\"id\":1,\"ts\":9.000}"
		",\n{\"ph\":\"X\",\"cat\":\"kernel\",\"ts\":10.000,\"args\":{\"a\":2}}"
		",\n{\"ph\":\"s\",\"id\":2,\"ts\":5.000}"
		",\n{\"ph\":\"f\",\"id\":2,\"ts\":10.000}"
		",\n{\"ph\":\"X\",\"ts\":4.000,\"args\":{\"a\":3,\"before launch ns\":7}}"
		",\n{\"ph\":\"i\",\"name\":\"\\\"ph\\\":\\\"s\\\"\",\"ts\":1.000}";
	static const char want[] =
		",\n{\"ph\":\"X\",\"cat\":\"kernel\",\"ts\":9.000,\"args\":{\"a\":1}}"
		",\n{\"ph\":\"s\",\"id\":1,\"ts\":5.001}"
		",\n{\"ph\":\"f\",\"id\":1,\"ts\":9.000}"
		",\n{\"ph\":\"X\",\"cat\":\"kernel\",\"ts\":10.000,\"args\":{\"a\":2,"
		"\"launch not traced\":true}}"
		",\n{\"ph\":\"X\",\"ts\":4.000,\"args\":{\"a\":3,\"before launch ns\":7,"
		"\"launch not traced\":true}}"
		",\n{\"ph\":\"i\",\"name\":\"\\\"ph\\\":\\\"s\\\"\",\"ts\":1.000}";
	struct bytes events = { 0 }, out = { 0 };

	bytes_add(&events, in, sizeof(in) - 1);
	dump_cut(&events, 1000000, 1005000, &out);
	CHECK(out.len == sizeof(want) - 1 && !memcmp(out.data, want, out.len));
	bytes_fini(&events);
	bytes_fini(&out);
}

/* ---- The writer ---- */

/* All that is not too old is in the dump; then more comes, and a second dump
 * has it, too. */
static void test_dumps(void)
{
	struct writer_target target = { .is_gz = true };
	struct writer_result result;
	const char *first = in_folder("first.json");
	char number[512];

	begin(100 * SECOND, 64 << 20, 1 << 30);
	work(1000);
	CHECK_EQ(dump(first, &result), 0);
	CHECK_EQ(result.kernels, 1000);
	CHECK_EQ(kernels_in(first), 1000);
	CHECK_EQ(count(first, "launch not traced"), 0);
	CHECK_EQ(count(first, "\"finished\":true"), 1);
	CHECK(!strcmp(result.path, first));
	CHECK(result.span_ns > 0 && result.span_ns < 100 * SECOND);
	work(500);
	target.fd = open(in_folder("second.json.gz"),
			 O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK_EQ(writer_dump(&target, clock_now_ns() + 20 * SECOND, &result),
		 0);
	CHECK_EQ(fcntl(target.fd, F_GETFD), -1);
	CHECK_EQ(kernels_in(in_folder("second.json.gz")), 1500);
	CHECK_EQ(writer_dump(NULL, clock_now_ns() + 20 * SECOND, &result), 0);
	snprintf(number, sizeof(number), "%s/none.d3.json", folder);
	CHECK(!strcmp(result.path, number));
	CHECK_EQ(kernels_in(number), 1500);
	CHECK_EQ(dump(in_folder("no/folder.json"), &result), -ENOENT);
	CHECK_EQ(dump("relative.json", &result), -EINVAL);
	CHECK_EQ(dump(in_folder("fifth.json.gz"), &result), 0);
	CHECK_EQ(kernels_in(in_folder("fifth.json.gz")), 1500);
	end();
	judge(first);
	judge(in_folder("second.json.gz"));
	judge(in_folder("fifth.json.gz"));
}

/* A second is kept; two are worked.  The dump begins in the middle, also of
 * calls whose kernels are there. */
static void check_forgotten(const char *path)
{
	struct writer_result result;
	int kernels, cut;

	CHECK_EQ(dump(path, &result), 0);
	kernels = kernels_in(path);
	cut = count(path, "launch not traced");
	CHECK_EQ(result.kernels, kernels);
	CHECK(kernels > 0 && (uint32_t)kernels < correlation);
	CHECK_EQ(count(path, "\"ph\":\"s\""), kernels - cut);
	CHECK(cut < kernels);
	/* A segment more than a second, at most. */
	CHECK(result.span_ns < 3 * SECOND);
	CHECK_EQ(count(path, "\"forgotten_kernels\":0"), 0);
}

static void test_forgetting(void)
{
	uint64_t until_ns = clock_now_ns() + 5 * SECOND / 2;

	begin(SECOND, 64 << 20, 1 << 30);
	for (; clock_now_ns() < until_ns; usleep(20000))
		work(100);
	check_forgotten(in_folder("forgetting.json"));
	check_forgotten(in_folder("forgetting.json.gz"));
	end();
	judge(in_folder("forgetting.json"));
	judge(in_folder("forgetting.json.gz"));
}

/* One file holds so much; the oldest is left out.  All comes in one batch, its
 * calls first: they are not in the file, and each kernel says so. */
static void test_max_size(void)
{
	struct writer_result result;
	const char *path = in_folder("max.json");
	struct stat st;

	begin(100 * SECOND, 64 << 20, 4 << 20);
	work(12000);
	CHECK_EQ(dump(path, &result), 0);
	CHECK(!stat(path, &st) && st.st_size <= 4 << 20);
	CHECK(st.st_size > 1 << 20);
	CHECK_EQ(result.kernels, kernels_in(path));
	CHECK(result.kernels > 1000);
	CHECK_EQ(count(path, "launch not traced"), kernels_in(path));
	CHECK_EQ(count(path, "\"ph\":\"s\""), 0);
	end();
	judge(path);
}

static void *dump_often(void *argument)
{
	struct writer_result result;
	int i;

	for (i = 0; i < 10; i++)
		CHECK_EQ(dump(argument, &result), 0);
	return NULL;
}

/* Rings and buffers are read while dumps are written. */
static void test_meanwhile(void)
{
	static char path[512];
	struct writer_result result;
	pthread_t thread;
	uint32_t before = correlation, i;

	snprintf(path, sizeof(path), "%s", in_folder("meanwhile.json"));
	begin(100 * SECOND, 64 << 20, 1 << 30);
	pthread_create(&thread, NULL, dump_often, path);
	for (i = 0; i < 200; i++) {
		work(100);
		usleep(5000);
	}
	pthread_join(thread, NULL);
	CHECK_EQ(dump(path, &result), 0);
	CHECK_EQ(result.kernels, correlation - before);
	CHECK_EQ(result.lost, 0);
	CHECK_EQ(kernels_in(path), (int)(correlation - before));
	CHECK_EQ(count(path, "\"cat\":\"user_annotation\""), 200);
	end();
}

/* Without a recorder the file is brought up to date. */
static void test_no_recorder(void)
{
	struct writer_options options = {
		.out = in_folder("plain.json"), .flush_ns = 60 * SECOND,
		.memory = 16 << 20, .world_size = 1,
	};
	struct writer_result result;

	CHECK_EQ(writer_start(&options), 0);
	CHECK_EQ(writer_dump(NULL, clock_now_ns() + 20 * SECOND, &result),
		 -ENODATA);
	scene_device();
	work(100);
	CHECK_EQ(writer_dump(NULL, clock_now_ns() + 20 * SECOND, &result), 0);
	CHECK(!strcmp(result.path, options.out));
	CHECK_EQ(result.kernels, 100);
	CHECK_EQ(kernels_in(options.out), 100);
	CHECK_EQ(writer_finish(clock_now_ns() + 10 * SECOND), 0);
}

int main(void)
{
	char command[300];

	snprintf(folder, sizeof(folder), "/tmp/gputrace-recorder-%d",
		 getpid());
	CHECK_EQ(mkdir(folder, 0700), 0);
	scene_begin();
	test_by_time();
	test_by_size();
	test_cut();
	test_dumps();
	test_forgetting();
	test_max_size();
	test_meanwhile();
	test_no_recorder();
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	CHECK_EQ(system(command), 0);
	return check_result();
}
