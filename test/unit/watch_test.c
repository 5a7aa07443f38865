/* SPDX-License-Identifier: MIT */
/*
 * The watchdog's decisions: counts in, verdict out.  A sick CUPTI is found in
 * time, a healthy one never: long kernels, captures, copies, idle hours.
 */
#include "collector/watch.h"

#include "test/check.h"

#define SECOND UINT64_C(1000000000)

static struct watch watch;
static struct watch_sample sample;

static void begin(void)
{
	watch = (struct watch){ 0 };
	sample = (struct watch_sample){ .now_ns = 1000 * SECOND, .epoch = 1,
					.buffers = 100 };
	(void)watch_decide(&watch, &sample);
}

/* A second later. */
static enum watch_fault look(void)
{
	sample.now_ns += SECOND;
	return watch_decide(&watch, &sample).fault;
}

/* The worst of so many seconds in which so much comes each. */
static enum watch_fault seconds(int nr, uint64_t launches, uint64_t kernels)
{
	enum watch_fault worst = WATCH_FINE, fault;

	while (nr--) {
		sample.counts.activities += launches + kernels;
		sample.counts.launches += launches;
		sample.counts.kernels += kernels;
		sample.counts.work += kernels;
		fault = look();
		worst = fault > worst ? fault : worst;
	}
	return worst;
}

static void test_healthy(void)
{
	begin();
	CHECK_EQ(seconds(100, 5000, 5000), WATCH_FINE);
	CHECK_EQ(seconds(10000, 0, 0), WATCH_FINE);     /* idle */
	CHECK_EQ(seconds(100, 1, 1), WATCH_FINE);
	sample.counts.work += 1000000;                  /* copies alone */
	CHECK_EQ(seconds(100, 0, 0), WATCH_FINE);
}

static void test_times(void)
{
	struct watch_verdict verdict;

	begin();
	sample.counts.no_time = 255;
	CHECK_EQ(seconds(1, 0, 255), WATCH_FINE);       /* too few to say */
	begin();
	sample.counts.no_time = 100;
	sample.counts.reversed = 100;
	sample.counts.kernels = 400;
	verdict = watch_decide(&watch, &sample);
	CHECK_EQ(verdict.fault, WATCH_TIMES);
	CHECK_EQ(verdict.n, 200);
	CHECK_EQ(verdict.m, 400);
	CHECK(watch_stops(WATCH_TIMES));
	/* Of the recent ones, however many were good before. */
	begin();
	CHECK_EQ(seconds(1, 0, 25000000), WATCH_FINE);
	sample.counts.no_time += 300;
	CHECK_EQ(seconds(1, 0, 500), WATCH_TIMES);
	begin();
	sample.counts.reversed += 30;
	CHECK_EQ(seconds(1, 0, 1000), WATCH_FEW_TIMES);
	CHECK(!watch_stops(WATCH_FEW_TIMES));
	begin();
	sample.counts.reversed += 3;
	CHECK_EQ(seconds(1, 0, 1000), WATCH_FINE);
}

static void test_buffers(void)
{
	begin();
	sample.lost = 1;
	CHECK_EQ(look(), WATCH_FEW_BUFFERS);
	CHECK_EQ(look(), WATCH_FINE);                   /* no more */
	sample.lost = 50;
	CHECK_EQ(look(), WATCH_BUFFERS);
	CHECK(watch_stops(WATCH_BUFFERS));
}

static void test_no_kernels(void)
{
	begin();
	CHECK_EQ(seconds(5, 100, 0), WATCH_FINE);       /* may yet come */
	CHECK_EQ(seconds(3, 100, 0), WATCH_NO_KERNELS);
	CHECK(!watch_stops(WATCH_NO_KERNELS));
	begin();
	CHECK_EQ(seconds(100, 100, 100), WATCH_FINE);
	CHECK_EQ(seconds(10, 100, 0), WATCH_NO_KERNELS);
	begin();
	CHECK_EQ(seconds(50, 1, 0), WATCH_FINE);        /* too few */
	begin();
	CHECK_EQ(seconds(3, 1000, 0), WATCH_FINE);
	CHECK_EQ(seconds(100, 0, 1), WATCH_FINE);       /* they came */
}

/* Work in flight is forced out after 5 s: that explains the silence. */
static void test_long_kernels(void)
{
	begin();
	for (int i = 0; i < 100; i++) {
		sample.forced += i % 5 == 4;
		CHECK_EQ(seconds(1, 1000, 0), WATCH_FINE);
	}
}

static void test_captures(void)
{
	begin();
	sample.counts.captures++;                       /* one has begun */
	CHECK_EQ(seconds(60, 5000, 0), WATCH_FINE);
	sample.counts.captures++;
	CHECK_EQ(seconds(5, 1000, 0), WATCH_FINE);
	for (int i = 0; i < 50; i++) {                  /* short ones */
		sample.counts.captures += 2;
		CHECK_EQ(seconds(1, 1000, 0), WATCH_FINE);
	}
	CHECK_EQ(seconds(10, 1000, 0), WATCH_NO_KERNELS);
}

static void test_graphs(void)
{
	begin();
	for (int i = 0; i < 50; i++) {                  /* of copies */
		sample.counts.graphs += 100;
		sample.counts.work++;
		CHECK_EQ(look(), WATCH_FINE);
	}
	for (int i = 0; i < 4; i++) {
		sample.counts.graphs += 100;
		CHECK_EQ(look(), WATCH_FINE);
	}
	for (int i = 0; i < 4; i++) {
		sample.counts.graphs += 100;
		(void)look();
	}
	CHECK_EQ(look(), WATCH_NO_KERNELS);
}

static void test_silent(void)
{
	begin();
	CHECK_EQ(seconds(100, 0, 0), WATCH_FINE);       /* before cuInit ends */
	begin();
	CHECK_EQ(seconds(1, 100, 100), WATCH_FINE);
	sample.epoch = 2;                               /* closed */
	CHECK_EQ(seconds(100, 0, 0), WATCH_FINE);
	sample.epoch = 3;
	CHECK_EQ(seconds(6, 0, 0), WATCH_FINE);
	CHECK_EQ(seconds(2, 0, 0), WATCH_SILENT);
	sample.epoch = 5;
	(void)look();
	sample.counts.activities++;                     /* a device */
	CHECK_EQ(seconds(100, 0, 0), WATCH_FINE);
}

/* CUPTI 13.0 to 13.3: 32 bytes a kernel. */
static void test_memory(void)
{
	static const struct { uint32_t version; bool keeps; } versions[] = {
		{ 28, false }, { 130000, true }, { 130303, true },
		{ 130400, false },
	};

	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
		begin();
		sample.cupti_version = versions[i].version;
		CHECK_EQ(seconds(100, 100000, 100000), WATCH_FINE);
		sample.counts.plain = (8 << 20) - 1;
		CHECK_EQ(seconds(1, 100, 100), WATCH_FINE);
		sample.counts.plain++;
		CHECK_EQ(seconds(1, 100, 100), versions[i].keeps ?
			 WATCH_MEMORY : WATCH_FINE);
	}
	CHECK(!watch_stops(WATCH_MEMORY));
}

/* What stops wins over what warns. */
static void test_worst_first(void)
{
	begin();
	sample.counts.no_time = 50;
	sample.lost = 60;
	CHECK_EQ(seconds(1, 0, 1000), WATCH_BUFFERS);
}

int main(void)
{
	test_healthy();
	test_times();
	test_buffers();
	test_no_kernels();
	test_long_kernels();
	test_captures();
	test_graphs();
	test_silent();
	test_memory();
	test_worst_first();
	return check_result();
}
