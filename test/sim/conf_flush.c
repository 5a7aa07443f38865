// SPDX-License-Identifier: MIT
/* Buffers: who asks, who gets them back, when, and what is in them. */
#include "test/sim/conf.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#define KERNEL CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL

static const int kernels_only[] = { KERNEL, 0 };
static const int kernels_driver[] = {
	KERNEL, CUPTI_ACTIVITY_KIND_DRIVER, 0,
};

static void launch_many(CUstream s, int n)
{
	for (int i = 0; i < n; i++)
		gpu_empty(s);
}

static void prepare(const int *kinds, int per_thread)
{
	conf_set_per_thread(per_thread);
	conf_trace(kinds);
	gpu_open();
	conf_settle();
	conf_forget();
}

static void print_last_buffer(void)
{
	const struct conf_buffer *b = &conf_buffers[0];

	fact("requested-on", "%s", conf_thread(b->requested_on));
	fact("completed-on", "%s", conf_thread(b->completed_on));
	fact("zeroed", "%s", yes(b->zeroed));
}

/* Idle GPU: does FlushAll(0) bring all, and before it returns? */
static void idle(const char *per_thread)
{
	prepare(kernels_driver, *per_thread == '1');
	launch_many(gpu.plain, 20);
	MUST(cuCtxSynchronize());
	fact("before-flush", "%u", conf_count(KERNEL));
	fact("flush", "%d", cupti.ActivityFlushAll(0));
	fact("at-return", "%s", conf_count(KERNEL) ? "some" : "none");
	usleep(200000);
	fact("later", "%u", conf_count(KERNEL));
	fact("driver-records-later", "%u",
	     conf_count(CUPTI_ACTIVITY_KIND_DRIVER));
	fact("flush-forced", "%d", cupti.ActivityFlushAll(1));
	usleep(200000);
	fact("after-forced", "%u", conf_count(KERNEL));
	fact("outstanding", "%u", conf_count_outstanding());
	print_last_buffer();
}

/* No synchronisation by the program, and nobody flushes. */
static void unflushed(const char *variant)
{
	(void)variant;
	prepare(kernels_only, 1);
	launch_many(gpu.plain, 20);
	usleep(1500000);
	fact("after-1.5s", "%u", conf_count(KERNEL));
	launch_many(gpu.plain, 5000);
	usleep(1500000);
	fact("full-buffers-come", "%s", yes(conf_count(KERNEL) > 1000));
	conf_settle();
	fact("all", "%u", conf_count(KERNEL));
}

static void count_fact(const char *key)
{
	usleep(50000);
	fact(key, "complete=%u incomplete=%u", conf_count_ended(KERNEL),
	     conf_count(KERNEL) - conf_count_ended(KERNEL));
}

/* One long kernel; short ones before it, and beside it on another stream. */
static void in_flight(const char *per_thread)
{
	prepare(kernels_only, *per_thread == '1');
	launch_many(gpu.plain, 10);
	MUST(cuCtxSynchronize());
	gpu_spin(gpu.plain, 1500000000);
	launch_many(gpu.high, 7);
	MUST(cuStreamSynchronize(gpu.high));
	fact("flush", "%d", cupti.ActivityFlushAll(0));
	count_fact("flush-0");
	fact("forced", "%d", cupti.ActivityFlushAll(1));
	count_fact("flush-1");
	launch_many(gpu.high, 5);
	MUST(cuStreamSynchronize(gpu.high));
	cupti.ActivityFlushAll(0);
	count_fact("after-forced-flush-0");
	MUST(cuCtxSynchronize());
	conf_settle();
	count_fact("kernel-ended");
	cupti.ActivityFlushAll(1);
	count_fact("kernel-ended-forced");
}

/* The same, with the short kernels flushed before the long one starts. */
static void in_flight_apart(const char *per_thread)
{
	prepare(kernels_only, *per_thread == '1');
	gpu_spin(gpu.plain, 1500000000);
	cupti.ActivityFlushAll(0);
	count_fact("flush-0");
	launch_many(gpu.high, 3000);
	MUST(cuStreamSynchronize(gpu.high));
	cupti.ActivityFlushAll(0);
	usleep(50000);
	fact("full-buffers-pass", "%s", yes(conf_count(KERNEL) > 0));
	MUST(cuCtxSynchronize());
	conf_settle();
	count_fact("kernel-ended");
}

static sem_t go, gone;
static bool leaves;

static void *short_kernels(void *unused)
{
	MUST(cuCtxSetCurrent(gpu.context));
	for (int i = 0; i < 10; i++)
		gpu_empty(gpu.high);
	MUST(cuStreamSynchronize(gpu.high));
	sem_post(&gone);
	if (!leaves)
		sem_wait(&go);
	return unused;
}

/*
 * The main thread's kernel runs; another thread's kernels have ended. Does
 * FlushAll(0) give the other thread's buffer back?
 */
static void two_threads(const char *order)
{
	pthread_t t;

	prepare(kernels_only, 1);
	sem_init(&go, 0, 0);
	sem_init(&gone, 0, 0);
	leaves = strstr(order, "leaves") != NULL;
	if (strstr(order, "long-first"))
		gpu_spin(gpu.plain, 1500000000);
	pthread_create(&t, NULL, short_kernels, NULL);
	sem_wait(&gone);
	if (leaves)
		pthread_join(t, NULL);
	if (!strstr(order, "long-first"))
		gpu_spin(gpu.plain, 1500000000);
	cupti.ActivityFlushAll(0);
	usleep(100000);
	fact("flush-0", "%u", conf_count(KERNEL));
	if (!leaves) {
		sem_post(&go);
		pthread_join(t, NULL);
	}
	MUST(cuCtxSynchronize());
	conf_settle();
	fact("later", "%u", conf_count(KERNEL));
}

/* Copies, sets and syncs in flight behind a long kernel. */
static void in_flight_behind(const char *variant)
{
	static const int kinds[] = {
		CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_DRIVER, 0,
	};

	(void)variant;
	prepare(kinds, 1);
	gpu_spin(gpu.plain, 1000000000);
	MUST(cuMemcpyHtoDAsync(gpu.memory[0], gpu.pinned, 4096, gpu.plain));
	cupti.ActivityFlushAll(0);
	usleep(50000);
	fact("flush-0", "%u", conf_record_count);
	cupti.ActivityFlushAll(1);
	usleep(50000);
	conf_print_records("forced-", 0, UINT64_MAX);
	conf_forget();
	MUST(cuCtxSynchronize());
	conf_settle();
	fact("copies-later", "%u", conf_count(CUPTI_ACTIVITY_KIND_MEMCPY));
}

static void *flusher(void *unused)
{
	conf_name_thread("flusher");
	fact("flush", "%d", cupti.ActivityFlushAll(0));
	fact("at-return", "%s", conf_count(KERNEL) ? "some" : "none");
	return unused;
}

static void second_thread(const char *per_thread)
{
	pthread_t t;

	prepare(kernels_only, *per_thread == '1');
	launch_many(gpu.plain, 20);
	MUST(cuCtxSynchronize());
	pthread_create(&t, NULL, flusher, NULL);
	pthread_join(t, NULL);
	usleep(200000);
	fact("kernels", "%u", conf_count(KERNEL));
	fact("completed-on", "%s", conf_thread(
		conf_buffers[conf_count_completed() - 1].completed_on));
	launch_many(gpu.plain, 1);
	fact("buffer-after-flush", "%s",
	     yes(conf_count_outstanding() > 0));
}

static unsigned int fill_percent(void)
{
	size_t most = 0;

	for (unsigned int i = 0; i < conf_buffer_count; i++)
		if (conf_buffers[i].valid > most)
			most = conf_buffers[i].valid;
	return (unsigned int)(100 * most / conf_buffer_size);
}

static void sizes(const char *kilobytes)
{
	static const struct {
		const char *name;
		size_t size;
	} list[] = {
		{ "64K", 64 << 10 }, { "256K", 256 << 10 }, { "1M", 1 << 20 },
		{ "1K", 1 << 10 }, { "100", 100 },
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		if (!strcmp(list[i].name, kilobytes))
			conf_buffer_size = list[i].size;
	prepare(kernels_only, 1);
	launch_many(gpu.plain, 12000);
	MUST(cuCtxSynchronize());
	conf_settle();
	fact("kernels", "%u", conf_count(KERNEL));
	fact("filled-over-97-percent", "%s", yes(fill_percent() >= 97));
	fact("buffers-as-needed", "%s", yes(conf_buffer_count >=
		(unsigned int)(12000 * 216 / conf_buffer_size)));
}

static void limited(const char *variant)
{
	unsigned int most = 0, in[16] = { 0 };

	(void)variant;
	conf_buffer_limit = 10;
	prepare(kernels_only, 1);
	launch_many(gpu.plain, 35);
	MUST(cuCtxSynchronize());
	conf_settle();
	fact("kernels", "%u", conf_count(KERNEL));
	for (unsigned int i = 0; i < conf_record_count; i++)
		in[conf_records[i].buffer % 16]++;
	for (unsigned int i = 0; i < 16; i++)
		most = in[i] > most ? in[i] : most;
	fact("most-in-one", "%u", most);
}

static void refused(const char *variant)
{
	size_t dropped = 0;

	(void)variant;
	prepare(kernels_only, 1);
	conf_refuse = true;
	launch_many(gpu.plain, 20);
	MUST(cuCtxSynchronize());
	conf_settle();
	fact("kernels", "%u", conf_count(KERNEL));
	launch_many(gpu.plain, 20);
	MUST(cuCtxSynchronize());
	conf_settle();
	fact("dropped", "%d", cupti.ActivityGetNumDroppedRecords(NULL, 0,
								 &dropped));
	fact("dropped-some", "%s", yes(dropped > 0));
	conf_refuse = false;
	launch_many(gpu.plain, 20);
	MUST(cuCtxSynchronize());
	conf_settle();
	fact("afterwards", "%s", yes(conf_count(KERNEL) >= 20));
}

static void windows(const char *variant)
{
	(void)variant;
	prepare(kernels_driver, 1);
	launch_many(gpu.plain, 5);
	MUST(cuCtxSynchronize());
	conf_settle();
	fact("first", "%u", conf_count(KERNEL));
	cupti.ActivityDisable(KERNEL);
	cupti.ActivityDisable(CUPTI_ACTIVITY_KIND_DRIVER);
	conf_settle();
	conf_forget();
	launch_many(gpu.plain, 6);
	MUST(cuCtxSynchronize());
	conf_settle();
	fact("off", "%u", conf_record_count);
	MUST(cupti.ActivityEnable(KERNEL));
	MUST(cupti.ActivityEnable(CUPTI_ACTIVITY_KIND_DRIVER));
	launch_many(gpu.plain, 7);
	MUST(cuCtxSynchronize());
	conf_settle();
	fact("second", "%u", conf_count(KERNEL));
	conf_print_records("", 0, UINT64_MAX);
}

static void disabled_in_flight(const char *variant)
{
	(void)variant;
	prepare(kernels_only, 1);
	launch_many(gpu.plain, 3);
	gpu_spin(gpu.plain, 300000000);
	launch_many(gpu.plain, 3);
	cupti.ActivityDisable(KERNEL);
	launch_many(gpu.plain, 3);
	fact("flush", "%d", cupti.ActivityFlushAll(0));
	count_fact("at-once");
	MUST(cuCtxSynchronize());
	conf_settle();
	count_fact("later");
}

static void enabled_in_flight(const char *variant)
{
	static const int none[] = { 0 };

	(void)variant;
	conf_trace(none);
	gpu_open();
	gpu_spin(gpu.plain, 300000000);
	launch_many(gpu.plain, 3);
	MUST(cupti.ActivityEnable(KERNEL));
	launch_many(gpu.plain, 4);
	MUST(cuCtxSynchronize());
	conf_settle();
	count_fact("kernels");
}

static void period(const char *variant)
{
	(void)variant;
	prepare(kernels_only, 1);
	fact("set", "%d", cupti.ActivityFlushPeriod(100));
	launch_many(gpu.plain, 20);
	MUST(cuCtxSynchronize());
	usleep(1000000);
	fact("partly-filled-comes", "%s", yes(conf_count(KERNEL) > 0));
}

#define FLUSH(n, f, v) { "flush." n, f, v, "flush" }

const struct conf_experiment conf_flush[] = {
	FLUSH("idle-per-thread", idle, "1"), FLUSH("idle-shared", idle, "0"),
	FLUSH("unflushed", unflushed, ""),
	FLUSH("in-flight-per-thread", in_flight, "1"),
	FLUSH("in-flight-shared", in_flight, "0"),
	FLUSH("in-flight-apart-per-thread", in_flight_apart, "1"),
	FLUSH("in-flight-apart-shared", in_flight_apart, "0"),
	FLUSH("two-threads-long-first", two_threads, "long-first"),
	FLUSH("two-threads-long-second", two_threads, "long-second"),
	FLUSH("two-threads-long-first-leaves", two_threads,
	      "long-first leaves"),
	FLUSH("two-threads-long-second-leaves", two_threads,
	      "long-second leaves"),
	FLUSH("in-flight-behind", in_flight_behind, ""),
	FLUSH("second-thread-per-thread", second_thread, "1"),
	FLUSH("second-thread-shared", second_thread, "0"),
	FLUSH("size-64K", sizes, "64K"), FLUSH("size-256K", sizes, "256K"),
	FLUSH("size-1M", sizes, "1M"), FLUSH("size-1K", sizes, "1K"),
	FLUSH("size-100", sizes, "100"),
	FLUSH("limited", limited, ""), FLUSH("refused", refused, ""),
	FLUSH("windows", windows, ""),
	FLUSH("disabled-in-flight", disabled_in_flight, ""),
	FLUSH("enabled-in-flight", enabled_in_flight, ""),
	FLUSH("period", period, ""),
	{ NULL, NULL, NULL, NULL },
};
