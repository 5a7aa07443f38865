/* SPDX-License-Identifier: MIT */
/*
 * Steps: of sequences and of small traces whose steps are known because they
 * are written here.
 */
#include "tools/steps.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/check.h"

enum { MAX = 20000 };
static uint32_t sequence[MAX];
static size_t nr;

static void add(uint32_t name)
{
	sequence[nr++] = name;
}

/* A step of `layers` equal layers of 9 kernels between two others. */
static void add_step(int layers)
{
	add(100);
	for (int i = 0; i < layers * 9; i++)
		add(i % 9);
	add(101);
}

static void test_periods(void)
{
	nr = 0;
	CHECK_EQ(steps_period(sequence, nr), 0);
	for (int i = 0; i < 100; i++)
		add(7);
	CHECK_EQ(steps_period(sequence, nr), 0);
	nr = 0;
	for (int i = 0; i < 1000; i++)          /* nothing repeats */
		add(i);
	CHECK_EQ(steps_period(sequence, nr), 0);
	nr = 0;
	for (int i = 0; i < 700; i++)           /* a warm-up in front */
		add(i * i % 191 + 200);
	for (int i = 0; i < 10; i++)
		add_step(38);
	CHECK_EQ(steps_period(sequence, nr), 38 * 9 + 2);
	nr = 0;
	for (int i = 0; i < 5; i++)             /* many layers, few steps */
		add_step(80);
	CHECK_EQ(steps_period(sequence, nr), 80 * 9 + 2);
	nr = 0;
	for (int i = 0; i < 40; i++) {          /* one more, now and then */
		add_step(5);
		if (i == 3 || i == 27 || i == 32)
			add(55);
	}
	CHECK_EQ(steps_period(sequence, nr), 5 * 9 + 2);
}

/* Two kernels in the order that a coin gives (xorshift64). */
static void test_no_period(void)
{
	uint64_t coin = 88172645463325252u;
	int found = 0;

	for (int round = 0; round < 500; round++) {
		nr = 0;
		for (int i = 0; i < 100 + 10 * round; i++) {
			coin ^= coin << 13;
			coin ^= coin >> 7;
			coin ^= coin << 17;
			add(coin >> 40 & 1);
		}
		found += steps_period(sequence, nr) != 0;
	}
	CHECK_EQ(found, 0);
}

static void test_names(void)
{
	CHECK(steps_is_name("step", "step"));
	CHECK(steps_is_name("step 12", "step"));
	CHECK(steps_is_name("step12", "step"));
	CHECK(steps_is_name("step_12", "step"));
	CHECK(steps_is_name("ProfilerStep#3", "ProfilerStep"));
	CHECK(!steps_is_name("steps", "step"));
	CHECK(!steps_is_name("step 1 of 2", "step"));
	CHECK(!steps_is_name("step ", "step"));
	CHECK(!steps_is_name("ste", "step"));
}

static char path[] = "/tmp/gputrace-steps-XXXXXX";
static FILE *out;

static void begin(void)
{
	out = fopen(path, "w");
	if (!out)
		exit(EXIT_FAILURE);
	fputs("{\"traceEvents\":[{\"ph\":\"M\"}", out);
}

/* Times are us. */
static void slice(const char *cat, const char *name, int tid, int ts, int dur,
		  int correlation)
{
	bool gpu = !strcmp(cat, "kernel");

	fprintf(out, ",\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\","
		"\"pid\":1,\"tid\":%d,\"ts\":%d,\"dur\":%d,\"args\":{"
		"\"correlation\":%d%s}}", cat, name, tid, ts, dur,
		correlation, gpu ? ",\"device\":0,\"stream\":7" : "");
}

static void launch(const char *name, int tid, int at, int start, int dur)
{
	static int correlation;

	slice("cuda_driver", "cuLaunchKernel", tid, at, 2, ++correlation);
	slice("kernel", name, 9, start, dur, correlation);
}

static void finish(struct model *m, const char *name, struct steps *s)
{
	struct trace_problem problem;

	fputs("]}\n", out);
	fclose(out);
	model_init(m);
	CHECK_EQ(model_add_file(m, path, &problem), 0);
	model_finish(m);
	CHECK(!m->no_memory);
	CHECK_EQ(steps_find(m, 0, name, s), 0);
}

static void finish_and_forget(const char *name, struct steps *s)
{
	struct model m;

	finish(&m, name, s);
	model_fini(&m);
}

/* Two threads have `step`; the second launches more.  The last kernel runs
 * on behind the last step, one more is launched behind it. */
static void put_two_threads(void)
{
	begin();
	slice("user_annotation", "step", 1, 0, 1000, 0);
	launch("a", 1, 5, 10, 5);
	for (int i = 0; i < 3; i++) {
		slice("user_annotation", "step 5", 2, 100 + i * 100, 80, 0);
		slice("user_annotation", "step", 2, 110 + i * 100, 10, 0);
		launch("b", 2, 105 + i * 100, 200 + i * 100, 50);
	}
	launch("c", 2, 500, 600, 50);
}

static void test_ranges(void)
{
	struct model m;
	struct steps s;

	put_two_threads();
	finish(&m, NULL, &s);
	CHECK_EQ(s.source, STEPS_RANGE);
	CHECK_EQ(s.nr, 3);
	CHECK_EQ(s.step[0].start, 100000);
	CHECK_EQ(s.step[0].end, 200000);
	CHECK_EQ(s.step[2].end, 380000);
	CHECK_EQ(s.window_start, 100000);
	CHECK_EQ(s.window_end, 450000);
	CHECK_EQ(m.lane[s.lane].tid, 2);
	CHECK_EQ(m.device[0].nr, 5);
	CHECK_EQ(steps_of_work(&s, &m, &m.work[1]), 0);
	CHECK_EQ(steps_of_work(&s, &m, &m.work[3]), 2);
	CHECK_EQ(steps_of_work(&s, &m, &m.work[4]), MODEL_NONE);
	steps_fini(&s);
	model_fini(&m);
	put_two_threads();
	finish_and_forget("nothing", &s);
	CHECK_EQ(s.nr, 0);
	CHECK_EQ(s.source, STEPS_NONE);
	CHECK_EQ(s.window_start, 10000);
	CHECK_EQ(s.window_end, 650000);
	begin();
	slice("user_annotation", "step", 1, 0, 1000, 0);
	slice("user_annotation", "ProfilerStep#4", 1, 10, 100, 0);
	slice("user_annotation", "ProfilerStep#5", 1, 110, 100, 0);
	finish_and_forget(NULL, &s);
	CHECK_EQ(s.source, STEPS_PROFILER);
	CHECK_EQ(s.nr, 2);
	steps_fini(&s);
}

/* Steps of a b b c, 100 us apart, a stranger before the fourth: the idle time
 * tells where they begin. */
static void test_kernels(void)
{
	static const char *const names[] = { "a", "b", "b", "c" };
	struct steps s;
	int late = 0;

	begin();
	for (int i = 0; i < 6; i++) {
		if (i == 3) {
			launch("stranger", 1, 1, 1000 + i * 100, 5);
			late = 10;
		}
		for (int k = 0; k < 4; k++)
			launch(names[k], 1, 1, 1000 + i * 100 + k * 11 + late,
			       10);
	}
	finish_and_forget(NULL, &s);
	CHECK_EQ(s.source, STEPS_KERNELS);
	CHECK_EQ(s.period, 4);
	CHECK_EQ(s.nr, 6);
	CHECK_EQ(s.step[0].start, 1000000);
	CHECK_EQ(s.step[0].end, 1100000);
	CHECK_EQ(s.step[2].end, 1243000);
	CHECK_EQ(s.step[3].start, 1310000);
	CHECK_EQ(s.window_end, 1553000);
	steps_fini(&s);
}

int main(void)
{
	int fd = mkstemp(path);

	if (fd < 0)
		return EXIT_FAILURE;
	close(fd);
	test_periods();
	test_no_period();
	test_names();
	test_ranges();
	test_kernels();
	unlink(path);
	return check_result();
}
