/* SPDX-License-Identifier: MIT */
/*
 * All threads of this program, with rings and without: found, followed, gone,
 * each with states that leave no hole; what was locked is given back.
 */
#include <pthread.h>
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
	if (follow(true))
		test_pages();
	CHECK_EQ(loss_get(LOSS_TABLE_FULL), 0);
	atomic_store(&is_over, true);
	for (int i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	return check_result();
}
