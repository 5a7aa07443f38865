/* SPDX-License-Identifier: MIT */
/*
 * Ranges and their projections: small scenes whose answers were worked out on
 * paper.  The trace is written into memory and looked at event by event.
 */
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/check.h"
#include "test/unit/scene.h"
#include "test/unit/scene_trace.h"

#define US UINT64_C(1000)
#define SELF ((uint32_t)syscall(SYS_gettid))

static struct bytes file;
static uint64_t base_ns;

static int keep(struct sink *sink, const void *bytes, size_t len)
{
	(void)sink;
	bytes_add(&file, bytes, len);
	return 0;
}

static uint64_t size(const struct sink *sink, size_t tail_len)
{
	(void)sink;
	return file.len + tail_len;
}

static void nothing(struct sink *sink)
{
	(void)sink;
}

static struct sink *open_memory(struct trace *unused)
{
	static const struct sink_ops ops = {
		.append = keep, .commit = keep, .size = size,
		.forget = nothing, .close = nothing,
	};
	static struct sink sink = { &ops };

	(void)unused;
	return &sink;
}

static void begin(void)
{
	static const struct writer_options options = {
		.out = "none", .memory = 16 << 20, .world_size = 1,
	};

	bytes_clear(&file);
	scene_open_trace(&options);
	trace->open_sink = open_memory;
	base_ns = trace->base_ns;
	scene.t_ns = clock_now_ns();
}

static void finish(void)
{
	step(false);
	drain_rings(trace);
	drain_rings(trace);
	drain_close_ranges(trace, scene.t_ns + 1000 * US);
	batch_write(trace, true);
	output_commit(trace, true);
	bytes_add(&file, "", 1);
	scene_close_trace();
}

/* The event of that category and name: its start, duration (ns of the scene)
 * and lane; false if there is none, or a second one. */
struct found {
	uint64_t start, dur;
	unsigned int pid, tid, nr;
	char line[1024];
};

static struct found find(const char *cat, const char *name)
{
	struct found found = { 0 };
	char head[256], *line, *at, *end;
	double ts, dur;

	snprintf(head, sizeof(head), "\"cat\":\"%s\",\"name\":\"%s\",", cat,
		 name);
	for (line = file.data; line && *line; line = end ? end + 1 : NULL) {
		end = strchr(line, '\n');
		if (!memmem(line, end ? (size_t)(end - line) : strlen(line),
			    head, strlen(head)))
			continue;
		found.nr++;
		snprintf(found.line, sizeof(found.line), "%.*s",
			 end ? (int)(end - line) : 1000, line);
		at = strstr(found.line, "\"pid\":");
		CHECK(sscanf(at, "\"pid\":%u,\"tid\":%u,\"ts\":%lf,"
			     "\"dur\":%lf", &found.pid, &found.tid, &ts,
			     &dur) == 4);
		found.start = (uint64_t)(ts * 1000 + 0.5) + base_ns -
			scene.t_ns;
		found.dur = (uint64_t)(dur * 1000 + 0.5);
	}
	return found;
}

static void expect(const char *cat, const char *name, uint64_t start,
		   uint64_t end)
{
	struct found found = find(cat, name);

	if (found.nr != 1 || found.start != start ||
	    found.dur != end - start) {
		fprintf(stderr, "%s %s: %u found, %llu + %llu, want %llu + "
			"%llu\n", cat, name, found.nr,
			(unsigned long long)found.start,
			(unsigned long long)found.dur,
			(unsigned long long)start,
			(unsigned long long)(end - start));
		check_failures++;
	}
}

/*
 *   outer      0                                        100
 *   inner          10            40
 *   launches          20:k1   30:k2        50:k3
 *   GPU                    60[k1]70 [k2]90      100[k3]130     one stream
 */
static void test_nested(bool late)
{
	begin();
	scene_push(0, 0, "outer");
	scene_push(10 * US, 1, "inner");
	scene_pop(40 * US, 1);
	scene_pop(100 * US, 0);
	if (late)       /* the calls come two write-outs after the ranges */
		step(false), step(false);
	scene_launch(SELF, 1, 20 * US, 22 * US);
	scene_launch(SELF, 2, 30 * US, 32 * US);
	scene_launch(SELF, 3, 50 * US, 52 * US);
	step(false);
	scene_kernel("k1", 7, 1, 60 * US, 70 * US);
	scene_kernel("k2", 7, 2, 70 * US, 90 * US);
	scene_kernel("k3", 7, 3, 100 * US, 130 * US);
	finish();
}

static void test_projection(void)
{
	int late;

	for (late = 0; late < 2; late++) {
		test_nested(late);
		expect("user_annotation", "outer", 0, 100 * US);
		expect("user_annotation", "inner", 10 * US, 40 * US);
		expect("gpu_user_annotation", "outer", 60 * US, 130 * US);
		expect("gpu_user_annotation", "inner", 60 * US, 90 * US);
		CHECK(strstr(find("gpu_user_annotation", "outer").line,
			     "\"GPU operations\":3"));
		CHECK(strstr(find("gpu_user_annotation", "inner").line,
			     "\"GPU operations\":2"));
		CHECK_EQ(find("gpu_user_annotation", "inner").tid,
			 find("gpu_user_annotation", "outer").tid);
	}
}

/*
 *   domain A   a 0 ----------- 50
 *   domain B        b 20 -------------- 80       crosses a
 *   launches     10:k1    30:k2    60:k3         k2 is in both
 */
static void test_crossing(void)
{
	struct nvtx_domain *other = calloc(1, sizeof(*other) + 8);
	struct range_record *record;

	memcpy(other->name, "B", 2);
	other->len = 1;
	begin();
	scene_push(0, 0, "a");
	record = scene_range(RECORD_RANGE_PUSH, 20 * US, 0, "b");
	record->domain = other;
	scene_commit();
	scene_pop(50 * US, 0);
	record = scene_range(RECORD_RANGE_POP, 80 * US, 0, NULL);
	record->domain = other;
	scene_commit();
	scene_launch(SELF, 1, 10 * US, 12 * US);
	scene_launch(SELF, 2, 30 * US, 32 * US);
	/* a call that lasts over the end of a: not on the lane of its thread
	 * if that one shows a */
	scene_launch(SELF, 4, 79 * US, 82 * US);
	scene_launch(SELF, 3, 60 * US, 62 * US);
	scene_kernel("k1", 7, 1, 110 * US, 120 * US);
	scene_kernel("k2", 7, 2, 130 * US, 140 * US);
	scene_kernel("k3", 7, 3, 150 * US, 160 * US);
	scene_kernel("k4", 7, 4, 170 * US, 180 * US);
	finish();
	expect("user_annotation", "a", 0, 50 * US);
	expect("user_annotation", "b", 20 * US, 80 * US);
	CHECK(find("user_annotation", "a").tid !=
	      find("user_annotation", "b").tid);
	CHECK(strstr(find("user_annotation", "b").line, "\"domain\":\"B\""));
	expect("gpu_user_annotation", "a", 110 * US, 140 * US);
	expect("gpu_user_annotation", "b", 130 * US, 180 * US);
	CHECK(find("gpu_user_annotation", "a").tid !=
	      find("gpu_user_annotation", "b").tid);
	free(other);
}

/* A start/end range: by the thread that started it, ended by anyone; one
 * whose END is read before its START; two streams. */
static void test_started(void)
{
	begin();
	scene_range(RECORD_RANGE_START, 0, 900, "request");
	scene_commit();
	scene_range(RECORD_RANGE_END, 90 * US, 901, NULL);
	scene_commit();
	scene_range(RECORD_RANGE_START, 5 * US, 901, "early");
	scene_commit();
	scene_push(10 * US, 0, "inside");
	scene_pop(70 * US, 0);
	scene_range(RECORD_RANGE_END, 60 * US, 900, NULL);
	scene_commit();
	scene_launch(SELF, 1, 20 * US, 21 * US);
	scene_launch(SELF, 2, 65 * US, 66 * US);
	scene_launch(SELF + 1, 3, 30 * US, 31 * US);
	scene_kernel("k1", 7, 1, 100 * US, 110 * US);
	scene_kernel("k2", 9, 2, 120 * US, 130 * US);
	scene_kernel("k3", 7, 3, 140 * US, 150 * US);
	finish();
	expect("user_annotation", "request", 0, 60 * US);
	expect("user_annotation", "early", 5 * US, 90 * US);
	CHECK_EQ(find("user_annotation", "request").tid / 1000000, 5);
	expect("gpu_user_annotation", "request", 100 * US, 110 * US);
	CHECK_EQ(find("gpu_user_annotation", "early").nr, 2);
	CHECK_EQ(find("gpu_user_annotation", "inside").nr, 2);
}

/* Open at the end of the window, carried into it, popped before it. */
static void test_open(void)
{
	struct range_record *record;
	struct window window;
	uint64_t open;

	begin();
	CHECK(window_get(1, &window));
	open = window.open_ns;
	record = scene_range(RECORD_RANGE_PUSH, 0, 0, "carried");
	record->head.t_ns = 0;
	record->flags = RECORD_CARRIED;
	scene_commit();
	scene_pop(30 * US, 3);          /* of a range that nobody knows */
	scene_push(40 * US, 1, "lost pop");
	scene_pop(50 * US, 0);
	scene_push(60 * US, 0, "open");
	step(false);
	bytes_clear(&trace->tail);
	encode_open_ranges(trace, &trace->tail, scene.t_ns + 70 * US);
	bytes_add(&trace->tail, "", 1);
	CHECK(strstr(trace->tail.data, "\"name\":\"open\"") &&
	      strstr(trace->tail.data, "\"open\":true") &&
	      !strstr(trace->tail.data, "carried"));
	finish();
	CHECK_EQ(find("user_annotation", "carried").nr, 1);
	CHECK_EQ(find("user_annotation", "carried").dur,
		 scene.t_ns + 50 * US - open);
	expect("user_annotation", "lost pop", 40 * US, 50 * US);
	expect("user_annotation", "open", 60 * US, 1000 * US);
	CHECK(strstr(find("user_annotation", "open").line, "\"open\":true"));
}

/* A launch inside a call of another library's range that ended long ago, a
 * thousand siblings later; and that nodes do not pile up. */
static void test_many(void)
{
	uint32_t i, k;
	char name[16];

	begin();
	scene_push(0, 0, "main");
	for (i = 0; i < 40; i++) {
		for (k = 0; k < 50; k++) {
			uint64_t t = (i * 50 + k + 1) * 10 * US;

			snprintf(name, sizeof(name), "n%u", i * 50 + k);
			scene_push(t, 1, name);
			scene_pop(t + 5 * US, 1);
			scene_launch(SELF, 10 + i * 50 + k, t + US,
				     t + 2 * US);
			scene_kernel("k", 7, 10 + i * 50 + k, t + 3 * US,
				     t + 4 * US);
		}
		step(false);
		CHECK(trace->ranges.nr < 400);
	}
	finish();
	for (k = 0; k < 2000; k += 111) {
		snprintf(name, sizeof(name), "n%u", k);
		expect("gpu_user_annotation", name, (k + 1) * 10 * US + 3 * US,
		       (k + 1) * 10 * US + 4 * US);
	}
	CHECK(strstr(find("gpu_user_annotation", "main").line,
		     "\"GPU operations\":2000"));
}

/* Payloads, colours, categories; marks; a name without text. */
static void test_attributes(void)
{
	struct range_record *record;
	double half = 0.5;

	begin();
	record = scene_range(RECORD_RANGE_PUSH, 0, 0, "paid");
	record->payload_type = PAYLOAD_DOUBLE;
	memcpy(&record->payload, &half, 8);
	record->color = 0xFF00FF10;
	record->flags = RECORD_HAS_COLOR;
	record->category = 7;
	scene_commit();
	record = scene_range(RECORD_MARK, 1 * US, 0, "mark");
	record->payload_type = PAYLOAD_I32;
	record->payload = (uint32_t)-5;
	scene_commit();
	scene_push(2 * US, 1, "");
	scene_pop(3 * US, 1);
	scene_pop(4 * US, 0);
	finish();
	CHECK(strstr(find("user_annotation", "paid").line,
		     "\"args\":{\"category\":7,\"color\":\"#ff00ff10\","
		     "\"payload\":0.5}"));
	CHECK(strstr(file.data, "\"ph\":\"i\",\"s\":\"t\",\"cat\":"
		     "\"cpu_instant_event\",\"name\":\"mark\""));
	CHECK(strstr(file.data, "\"payload\":-5"));
	expect("user_annotation", "(no name)", 2 * US, 3 * US);
}

/* A time of the process's clock, of windows and records, as the scene's. */
static uint64_t scene_time(uint64_t t_ns)
{
	return t_ns - scene.t_ns;
}

static uint64_t close_window(void)
{
	struct window window = { 0 };

	CHECK(window_get(window_close() / 2, &window));
	return scene_time(window.close_ns);
}

static void expect_same_lane(const char *cat, const char *name,
			     const char *other_cat, const char *other,
			     bool is_same)
{
	struct found one = find(cat, name), two = find(other_cat, other);

	CHECK(one.nr == 1 && two.nr == 1);
	CHECK_EQ(one.tid == two.tid, is_same);
}

/*
 *   step      0 ------------------------- (no pop: the window is closed)
 *   sample        1 ------------- close ---- pop
 *   request   0 ----------------- close ---- end
 *
 * A thread that lost its CPU between its look at the window and its look at
 * the clock: its pop is told, later than the window's end.
 */
static void test_pop_after_close(void)
{
	uint64_t closed;

	begin();
	scene_push(0, 0, "step");
	scene_push(1, 1, "sample");
	scene_range(RECORD_RANGE_START, 0, 900, "request");
	scene_commit();
	step(false);
	closed = close_window();
	scene_pop(closed + 125 * US, 1);
	scene_range(RECORD_RANGE_END, closed + 125 * US, 900, NULL);
	scene_commit();
	scene_launch(SELF, 1, 2, closed + 100 * US);
	finish();
	expect("user_annotation", "step", 0, closed);
	expect("user_annotation", "sample", 1, closed);
	expect("user_annotation", "request", 0, closed);
	expect("cuda_runtime", "cudaLaunchKernel", 2, closed);
	CHECK(strstr(find("user_annotation", "sample").line, "\"open\":true"));
	CHECK(strstr(find("user_annotation", "request").line,
		     "\"open\":true"));
	expect_same_lane("user_annotation", "step", "user_annotation",
			 "sample", true);
	CHECK(window_open() & 1);
}

/* 10 s, when the window has been closed. */
#define LATE (10000000 * US)

/* The same, but all is told before the window's end is known. */
static void test_close_known_late(void)
{
	uint64_t closed;

	begin();
	scene_push(0, 0, "outside");
	scene_push(1, 1, "step");
	scene_push(2, 2, "sample");
	scene_launch(SELF, 1, 3, LATE);
	scene_pop(LATE + US, 2);
	step(false);
	closed = close_window();
	CHECK(closed < LATE);
	finish();
	expect("user_annotation", "sample", 2, LATE + US);
	expect("user_annotation", "step", 1, closed);
	expect("user_annotation", "outside", 0, closed);
	expect_same_lane("cuda_runtime", "cudaLaunchKernel",
			 "user_annotation", "sample", true);
	expect_same_lane("user_annotation", "step", "user_annotation",
			 "sample", false);
	expect_same_lane("user_annotation", "step", "user_annotation",
			 "outside", true);
	CHECK(window_open() & 1);
}

/* CUPTI's clock is ahead of ours: a call ends behind the pop, or the push, that
 * follows it, which is read later than the call. */
static void test_call_ends_behind(void)
{
	begin();
	scene_push(0, 0, "outer");
	scene_push(10 * US, 1, "inner");
	scene_launch(SELF, 1, 20 * US, 82 * US);
	step(false);
	scene_pop(80 * US, 1);
	scene_push(81 * US, 1, "within");
	scene_pop(81 * US + 500, 1);
	scene_pop(90 * US, 0);
	scene_call(CUPTI_ACTIVITY_KIND_RUNTIME,
		   CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, SELF, 2,
		   100 * US, 112 * US);
	step(false);
	scene_push(111 * US, 0, "beyond");
	scene_pop(120 * US, 0);
	finish();
	expect("user_annotation", "inner", 10 * US, 80 * US);
	expect("user_annotation", "beyond", 111 * US, 120 * US);
	expect_same_lane("cuda_runtime", "cudaMemcpyAsync", "user_annotation",
			 "beyond", false);
	expect_same_lane("cuda_runtime", "cudaLaunchKernel",
			 "user_annotation", "inner", false);
	expect_same_lane("cuda_runtime", "cudaLaunchKernel",
			 "user_annotation", "within", true);
	expect_same_lane("cuda_runtime", "cudaLaunchKernel",
			 "user_annotation", "outer", true);
}

static struct nvtx_domain module_domain = {
	.recorded = 1, .cat = "python_function", .ends_inside = 1,
};
static struct nvtx_domain operator_domain = {
	.recorded = 1, .cat = "cpu_op", .is_operator = 1,
};

static void range_of(struct nvtx_domain *domain, uint16_t kind, uint64_t t_ns,
		     const char *name)
{
	scene_range(kind, t_ns, 0, name)->domain = domain;
	scene_commit();
}

static void op(const char *name, uint64_t start, uint64_t end)
{
	range_of(&operator_domain, RECORD_RANGE_PUSH, start, name);
	range_of(&operator_domain, RECORD_RANGE_POP, end, NULL);
}

/*
 * What is over is known late, and ends with the last operator inside.
 *
 *   m      10 ------------------ 45 . . . . . 90     its POP comes at 90
 *   ops    10 -- 20      30 --- 40
 *   x               25 --------- 45                  began in m: stays in it
 *   y                                50 ---- 80      behind it
 *   n                                             100 -- 110, with no POP
 */
static void test_ends_inside(void)
{
	begin();
	range_of(&module_domain, RECORD_RANGE_PUSH, 10 * US, "m");
	op("first", 10 * US, 20 * US);
	step(false);
	scene_push(25 * US, 0, "x");
	op("second", 30 * US, 40 * US);
	scene_pop(45 * US, 0);
	scene_push(50 * US, 0, "y");
	step(false);
	scene_pop(80 * US, 0);
	step(false);
	range_of(&module_domain, RECORD_RANGE_POP, 90 * US, NULL);
	range_of(&module_domain, RECORD_RANGE_PUSH, 100 * US, "n");
	op("third", 100 * US, 110 * US);
	finish();
	/* x began before the last operator in it: it is inside. */
	expect("python_function", "m", 10 * US, 45 * US);
	expect("user_annotation", "y", 50 * US, 80 * US);
	expect("python_function", "n", 100 * US, 110 * US);
	expect_same_lane("python_function", "m", "user_annotation", "x", true);
	expect_same_lane("python_function", "m", "user_annotation", "y", true);
	CHECK(!strstr(find("python_function", "m").line, "open"));
	CHECK(!strstr(find("python_function", "n").line, "open"));
	CHECK(!find("gpu_user_annotation", "m").nr);
}

/* Around the operator, behind pushes that nobody pops; and no more of them
 * are looked for than are open. */
static void test_ends_far_inside(void)
{
	const struct range_log *log;
	uint32_t i;

	begin();
	range_of(&module_domain, RECORD_RANGE_PUSH, 10 * US, "outer m");
	scene_push(11 * US, 0, "between");
	scene_range(RECORD_RANGE_PUSH, 12 * US, 1, "inner m")->domain =
		&module_domain;
	scene_commit();
	for (i = 1; i <= 100; i++)
		scene_push((20 + i) * US, i, "leaked");
	op("far", 300 * US, 310 * US);
	step(false);
	log = cpu_thread_find(&trace->threads, SELF)->log;
	CHECK_EQ(log->nr_passing, 2);
	scene_range(RECORD_RANGE_POP, 390 * US, 1, NULL)->domain =
		&module_domain;
	scene_commit();
	step(false);
	CHECK_EQ(log->nr_passing, 1);
	op("later", 400 * US, 410 * US);
	range_of(&module_domain, RECORD_RANGE_POP, 420 * US, NULL);
	step(false);
	CHECK_EQ(log->nr_passing, 0);
	finish();
	expect("python_function", "inner m", 12 * US, 310 * US);
	expect("python_function", "outer m", 10 * US, 410 * US);
}

/* In the file while it is open: to its last operator, or the one that runs. */
static void test_open_ends_inside(void)
{
	begin();
	range_of(&module_domain, RECORD_RANGE_PUSH, 10 * US, "m");
	op("first", 10 * US, 20 * US);
	range_of(&operator_domain, RECORD_RANGE_PUSH, 30 * US, "runs");
	finish();
	expect("python_function", "m", 10 * US, 1000 * US);
	CHECK(strstr(find("python_function", "m").line, "\"open\":true"));
	expect_same_lane("python_function", "m", "cpu_op", "runs", true);
}

int main(void)
{
	scene_begin();
	test_projection();
	test_crossing();
	test_started();
	test_open();
	test_many();
	test_attributes();
	test_pop_after_close();
	test_close_known_late();
	test_call_ends_behind();
	test_ends_inside();
	test_ends_far_inside();
	test_open_ends_inside();
	bytes_fini(&file);
	return check_result();
}
