/* SPDX-License-Identifier: MIT */
/*
 * All threads of this program, with rings and without: found, followed, gone,
 * each with states that leave no hole; what was locked is given back.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collector/clock.h"
#include "collector/cpu_tasks.h"
#include "collector/loss.h"
#include "collector/own_thread.h"
#include "collector/source.h"
#include "test/check.h"

#define MS 1000000ull

enum { NR_THREADS = 30, NR_ROWS_MAX = 512, NR_SHORT = 100 };

static struct row {
	uint32_t tid, nr;
	uint64_t first_ns, last_ns, told_ns;
} rows[NR_ROWS_MAX];
static int nr_rows;

static struct row *row_of(uint32_t tid)
{
	for (int i = 0; i < nr_rows; i++)
		if (rows[i].tid == tid)
			return &rows[i];
	return NULL;
}

void source_slice(const struct slice_kind *kind, uint32_t tid,
		  uint64_t start_ns, uint64_t end_ns, const uint64_t *values,
		  uint32_t nr_values, const char *text, uint32_t text_len)
{
	struct row *row = row_of(tid);

	CHECK(kind && values + nr_values >= values && text && text_len);
	CHECK(end_ns > start_ns);
	if (!row && nr_rows < NR_ROWS_MAX) {
		row = &rows[nr_rows++];
		*row = (struct row){ .tid = tid, .first_ns = start_ns };
	}
	if (!row)
		return;
	row->nr++;
	row->last_ns = end_ns;
	row->told_ns += end_ns - start_ns;
}

void source_count(const struct slice_kind *kind, uint32_t device,
		  uint64_t t_ns, const uint64_t *values, uint32_t nr_values)
{
	CHECK(!kind && !device && !t_ns && !values && !nr_values);
}

/* ---- Threads ---- */

static atomic_bool is_over;
static _Atomic uint32_t tids[NR_THREADS], own_tid;

static void *doze(void *argument)
{
	atomic_store((_Atomic uint32_t *)argument,
		     (uint32_t)syscall(SYS_gettid));
	while (!atomic_load(&is_over))
		usleep(2000);
	return NULL;
}

static void *begin_and_end(void *argument)
{
	usleep(1000);
	return argument;
}

static void check_rows(uint64_t start_ns, uint64_t end_ns)
{
	for (int i = 0; i < NR_THREADS; i++) {
		const struct row *row = row_of(atomic_load(&tids[i]));

		CHECK(row != NULL);
		if (!row)
			continue;
		CHECK(row->nr >= 1);
		CHECK(row->first_ns >= start_ns);
		CHECK_EQ(row->last_ns, end_ns);
		/* No hole, and no overlap. */
		CHECK_EQ(row->told_ns, end_ns - row->first_ns);
		CHECK(row->told_ns >= (end_ns - start_ns) / 2);
	}
	CHECK(!row_of(atomic_load(&own_tid)));
}

static void step(struct cpu_tasks *tasks)
{
	uint64_t now_ns = clock_now_ns();

	cpu_tasks_drain(tasks);
	CHECK(cpu_tasks_scan(tasks, now_ns));
	cpu_tasks_look(tasks);
	cpu_tasks_name_off(tasks, 4);
	cpu_tasks_cut(tasks, now_ns);
	usleep(5000);
}

/* Returns whether any had a ring. */
static bool follow(bool may_perf)
{
	pthread_t shorts[NR_SHORT];
	struct cpu_tasks tasks;
	uint64_t start_ns, end_ns;
	bool had_rings;

	nr_rows = 0;
	CHECK_EQ(cpu_tasks_init(&tasks, "/proc", may_perf), 0);
	start_ns = clock_now_ns();
	step(&tasks);
	CHECK(tasks.nr >= NR_THREADS + 1);
	had_rings = tasks.pages > 0;
	CHECK(tasks.pages <= tasks.pages_max && (may_perf || !had_rings));
	for (int i = 0; i < NR_SHORT; i++) {
		CHECK(!pthread_create(&shorts[i], NULL, begin_and_end, NULL));
		if (i % 10 == 0)
			step(&tasks);
	}
	for (int i = 0; i < NR_SHORT; i++)
		pthread_join(shorts[i], NULL);
	for (int i = 0; i < 20; i++)
		step(&tasks);
	/* A sanitizer has a thread of its own. */
	CHECK(tasks.nr <= NR_THREADS + 3);
	(void)cpu_tasks_delay(&tasks);
	end_ns = clock_now_ns();
	tasks.limit_ns = end_ns;
	cpu_tasks_drain(&tasks);
	cpu_tasks_look(&tasks);
	cpu_tasks_finish(&tasks, end_ns);
	cpu_tasks_fini(&tasks);
	check_rows(start_ns, end_ns);
	return had_rings;
}

/* The memory for rings is used up in steps, and given back. */
static void test_pages(void)
{
	struct cpu_tasks tasks;

	nr_rows = 0;
	CHECK_EQ(cpu_tasks_init(&tasks, "/proc", true), 0);
	tasks.pages_max = 60;
	CHECK(cpu_tasks_scan(&tasks, clock_now_ns()));
	CHECK(tasks.pages <= 60);
	CHECK(tasks.nr_sampled >= 1 && tasks.nr_sampled < tasks.nr);
	cpu_tasks_fini(&tasks);
}

/* ---- One of ours that has not begun ---- */

static atomic_bool is_held, is_there;
static _Atomic uint32_t late_tid;

/* It asks for its number first: then it waits for us. */
long syscall(long number, ...)
{
	static long (*_Atomic found)(long, ...);
	long (*real)(long, ...) = atomic_load(&found);
	long a[6];
	va_list list;

	if (!real) {
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
		atomic_store(&found, real);
	}
	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_gettid && atomic_load(&is_held)) {
		atomic_store(&is_there, true);
		while (atomic_load(&is_held))
			usleep(1000);
	}
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* The ring of the thread that starts it tells of it before we know it. */
static void test_starting(void)
{
	struct cpu_tasks tasks;

	nr_rows = 0;
	CHECK_EQ(cpu_tasks_init(&tasks, "/proc", true), 0);
	step(&tasks);
	atomic_store(&is_held, true);
	CHECK(!own_thread_start("gputrace-test", doze, (void *)&late_tid));
	while (!atomic_load(&is_there))
		usleep(1000);
	cpu_tasks_drain(&tasks);
	CHECK(tasks.is_partial);
	atomic_store(&is_held, false);
	while (!atomic_load(&late_tid))
		usleep(1000);
	step(&tasks);
	CHECK(!tasks.is_partial);
	cpu_tasks_finish(&tasks, clock_now_ns());
	CHECK(!row_of(atomic_load(&late_tid)));
	CHECK(row_of(atomic_load(&tids[0])) != NULL);
	cpu_tasks_fini(&tasks);
}

int main(void)
{
	pthread_t threads[NR_THREADS];

	clock_init();
	for (int i = 0; i < NR_THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, doze,
				      (void *)&tids[i]));
	CHECK(!own_thread_start("gputrace-test", doze, (void *)&own_tid));
	for (int i = 0; i < NR_THREADS; i++)
		while (!atomic_load(&tids[i]))
			usleep(1000);
	while (!atomic_load(&own_tid))
		usleep(1000);
	follow(false);
	if (follow(true)) {
		test_pages();
		test_starting();
	}
	CHECK_EQ(loss_get(LOSS_TABLE_FULL), 0);
	atomic_store(&is_over, true);
	for (int i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	return check_result();
}
