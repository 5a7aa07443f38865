/* SPDX-License-Identifier: MIT */
/*
 * From context switches, and from looks at /proc, to slices of states: times,
 * sums, groups of short ones, gaps.  The slices are caught where they would go
 * into the ring; the answers were worked out on paper.
 */
#include <linux/perf_event.h>
#include <stdbool.h>
#include <string.h>

#include "collector/cpu_task.h"
#include "collector/loss.h"
#include "collector/source.h"
#include "test/check.h"

#define MS 1000000ull

static struct caught {
	char name[32];
	uint64_t start_ns, end_ns, values[7];
} caught[4096];
static int nr_caught;

void source_slice(const struct slice_kind *kind, uint32_t tid,
		  uint64_t start_ns, uint64_t end_ns, const uint64_t *values,
		  uint32_t nr_values, const char *text, uint32_t text_len)
{
	struct caught *slice = &caught[nr_caught++ % 4096];

	CHECK(kind->row == ROW_STATE && tid == 7 && nr_values <= 7);
	CHECK(end_ns > start_ns && text_len < sizeof slice->name);
	memset(slice, 0, sizeof *slice);
	memcpy(slice->name, text, text_len);
	memcpy(slice->values, values, nr_values * sizeof *values);
	slice->start_ns = start_ns;
	slice->end_ns = end_ns;
}

void source_count(const struct slice_kind *kind, uint32_t device,
		  uint64_t t_ns, const uint64_t *values, uint32_t nr_values)
{
	CHECK(!kind && !device && !t_ns && !values && !nr_values);
}

static void check_slice(int i, const char *name, uint64_t start_ns,
			uint64_t end_ns, bool is_sampled)
{
	CHECK(i < nr_caught && !strcmp(caught[i].name, name));
	CHECK_EQ(caught[i].start_ns, start_ns);
	CHECK_EQ(caught[i].end_ns, end_ns);
	CHECK_EQ(caught[i].values[0], is_sampled);
}

static uint64_t sum(const char *name)
{
	uint64_t ns = 0;

	for (int i = 0; i < nr_caught; i++)
		if (!strcmp(caught[i].name, name))
			ns += caught[i].end_ns - caught[i].start_ns;
	return ns;
}

/* No two overlap, and none is missing between. */
static void check_whole(uint64_t start_ns, uint64_t end_ns)
{
	uint64_t at = start_ns;

	for (int i = 0; i < nr_caught; i++) {
		CHECK_EQ(caught[i].start_ns, at);
		at = caught[i].end_ns;
	}
	CHECK_EQ(at, end_ns);
}

static char a_page[16];

/* As cpu_tasks.c makes one with a ring. */
static struct task exact(enum task_state first_seen)
{
	nr_caught = 0;
	return (struct task){ .tid = 7, .since_ns = 1000 * MS,
		.ring.page = a_page, .first_seen = first_seen };
}

static void change(struct task *task, enum cpu_change_kind kind, uint64_t t_ns,
		   uint64_t merge_ns)
{
	struct cpu_change now = { .kind = kind, .number = 9 };

	task_change(task, &now, t_ns, merge_ns);
}

static void test_switches(void)
{
	struct task task = exact(TASK_SLEEPING);

	change(&task, CHANGE_IN, 1010 * MS, 0);
	change(&task, CHANGE_PREEMPTED, 1013 * MS, 0);
	change(&task, CHANGE_IN, 1014 * MS, 0);
	change(&task, CHANGE_OUT, 1015 * MS, 0);
	task_name_off(&task, 'R');              /* it was woken: no news */
	change(&task, CHANGE_IN, 1020 * MS, 0);
	change(&task, CHANGE_OUT, 1021 * MS, 0);
	task_name_off(&task, 'D');
	task_name_off(&task, 'S');              /* the first word stands */
	task_finish(&task, 1030 * MS);
	CHECK_EQ(nr_caught, 7);
	check_slice(0, "Sleeping", 1000 * MS, 1010 * MS, true);
	check_slice(1, "Running", 1010 * MS, 1013 * MS, false);
	check_slice(2, "Preempted", 1013 * MS, 1014 * MS, false);
	check_slice(3, "Running", 1014 * MS, 1015 * MS, false);
	check_slice(4, "Off CPU", 1015 * MS, 1020 * MS, false);
	check_slice(5, "Running", 1020 * MS, 1021 * MS, false);
	check_slice(6, "Uninterruptible", 1021 * MS, 1030 * MS, true);
}

/* What it was before the first change. */
static void test_first(void)
{
	struct task task = exact(TASK_RUNNING);

	change(&task, CHANGE_OUT, 1001 * MS, 0);
	check_slice(0, "Running", 1000 * MS, 1001 * MS, false);
	task = exact(TASK_RUNNING);
	change(&task, CHANGE_IN, 1001 * MS, 0);
	check_slice(0, "Runnable", 1000 * MS, 1001 * MS, true);
	task = exact(TASK_OFF);
	change(&task, CHANGE_IN, 1001 * MS, 0);
	check_slice(0, "Off CPU", 1000 * MS, 1001 * MS, false);
	task = exact(TASK_SLEEPING);
	task_finish(&task, 1500 * MS);
	check_slice(0, "Sleeping", 1000 * MS, 1500 * MS, true);
	task = exact(TASK_RUNNING);
	change(&task, CHANGE_ENDED, 1002 * MS, 0);
	CHECK(task.has_ended);
	check_slice(0, "Running", 1000 * MS, 1002 * MS, false);
}

/* Long states are written in parts; a clock that is steered goes not back. */
static void test_times(void)
{
	struct task task = exact(TASK_SLEEPING);

	task_cut(&task, 1999 * MS);
	CHECK_EQ(nr_caught, 0);
	task_cut(&task, 2000 * MS);
	check_slice(0, "Sleeping", 1000 * MS, 2000 * MS, true);
	change(&task, CHANGE_IN, 2000 * MS - 300, 0);
	change(&task, CHANGE_OUT, 2000 * MS + 5, 0);
	CHECK_EQ(nr_caught, 2);
	check_slice(1, "Running", 2000 * MS, 2000 * MS + 5, false);
}

static void test_groups(void)
{
	struct task task = exact(TASK_SLEEPING);
	uint64_t at = 1000 * MS, running = 0, preempted = 0, off = 0, n = 0;

	/* 3 us on, 2 us off; 20,000 times: 100 ms */
	for (int i = 0; i < 20000; i++, at += 5000) {
		change(&task, CHANGE_IN, at, 200000);
		change(&task, i % 2 ? CHANGE_OUT : CHANGE_PREEMPTED, at + 3000,
		       200000);
	}
	change(&task, CHANGE_IN, at, 200000);
	change(&task, CHANGE_OUT, at + 5 * MS, 200000);
	task_finish(&task, at + 6 * MS);
	CHECK(nr_caught <= 100 * 5 + 3);
	check_whole(1000 * MS, at + 6 * MS);
	for (int i = 0; i < nr_caught; i++) {
		n += caught[i].values[2];
		running += caught[i].values[3];
		preempted += caught[i].values[4];
		off += caught[i].values[5];
	}
	CHECK_EQ(n, 20000);
	CHECK_EQ(running, 60 * MS);
	CHECK_EQ(preempted, 20 * MS);
	CHECK_EQ(off, 20 * MS);
	CHECK_EQ(sum("Running"), 5 * MS);
	CHECK_EQ(sum("Off CPU"), MS);
}

/* 9 changes are missing from 1002 to 1010 ms; the kernel counted 5 ms more. */
static void test_gap(void)
{
	struct task task = exact(TASK_SLEEPING);
	struct proc_sched sched = { .run_ns = 107 * MS };

	task.first_run_ns = 100 * MS;
	change(&task, CHANGE_IN, 1001 * MS, 0);
	change(&task, CHANGE_OUT, 1002 * MS, 0);
	change(&task, CHANGE_LOST, 1010 * MS, 0);
	change(&task, CHANGE_OUT, 1010 * MS + 5, 0);
	CHECK_EQ(loss_get(LOSS_SWITCHES), 9);
	change(&task, CHANGE_IN, 1011 * MS, 0);
	task_count(&task, &sched, 1012 * MS, false);
	check_slice(nr_caught - 1, "Switching", 1002 * MS, 1010 * MS, false);
	CHECK_EQ(caught[nr_caught - 1].values[3], 5 * MS - 5);
	CHECK_EQ(caught[nr_caught - 1].values[5], 3 * MS + 5);
	CHECK_EQ(caught[nr_caught - 1].values[6], 9);
	CHECK_EQ(task.gap.end_ns, 0);
	/* Nobody counted in this one. */
	change(&task, CHANGE_LOST, 1020 * MS, 0);
	task_finish(&task, 1021 * MS);
	CHECK_EQ(sum("Switching"), 8 * MS + 9 * MS);
}

/* ---- Sampled ---- */

/* Runs 30 % and waits for a CPU 10 % of each interval, with odd rests. */
static void test_looks(void)
{
	struct task task = { .tid = 7 };
	struct proc_sched sched = { .run_ns = 777, .delay_ns = 333 };
	uint64_t now = 5000 * MS;
	static const char letters[] = { 'R', 'S', 'S', 'R', 'D' };

	nr_caught = 0;
	task_set_interval(20 * MS);
	task_look(&task, 'S', &sched, now);
	for (int i = 0; i < 1000; i++) {
		now += 20 * MS;
		sched.run_ns += 6 * MS + (i % 2 ? 400000 : -400000);
		sched.delay_ns += 2 * MS;
		task_look(&task, letters[i % 5], &sched, now);
	}
	task_finish(&task, now);
	check_whole(5000 * MS, 25000 * MS);
	/* What is owed at the end is less than a part. */
	CHECK(sum("Running") / MS >= 5999 && sum("Running") / MS <= 6001);
	CHECK(sum("Runnable") / MS >= 1999 && sum("Runnable") / MS <= 2001);
	CHECK(sum("Uninterruptible") > 0);
	CHECK_EQ(caught[0].values[0], true);
	CHECK_EQ(caught[0].values[1], 20);
}

/* 100 us each time: shown when they are 1 ms; always: one slice. */
static void test_little(void)
{
	struct task task = { .tid = 7 };
	struct proc_sched sched = { 0 };
	uint64_t now = 5000 * MS;

	nr_caught = 0;
	task_look(&task, 'S', &sched, now);
	for (int i = 0; i < 500; i++) {
		sched.run_ns += 100000;
		task_look(&task, 'S', &sched, now += 20 * MS);
	}
	task_finish(&task, now);
	CHECK_EQ(sum("Running"), 50 * MS);
	CHECK_EQ(nr_caught, 1 + 2 * 50);        /* begins and ends asleep */
	memset(&task, 0, sizeof task);
	task.tid = 7;
	nr_caught = 0;
	task_look(&task, 'R', &sched, now);
	for (int i = 0; i < 500; i++) {
		sched.run_ns += 20 * MS - 1000;
		task_look(&task, 'R', &sched, now += 20 * MS);
	}
	task_finish(&task, now);
	CHECK_EQ(nr_caught, 1);
	/* Its number was given to another thread: counts begin anew. */
	memset(&sched, 0, sizeof sched);
	task_look(&task, 'R', &sched, now + 20 * MS);
	CHECK_EQ(nr_caught, 1);
}

/* It waits 100 ms for a CPU, which the kernel counts at its end. */
static void test_waiting(void)
{
	struct task task = { .tid = 7 };
	struct proc_sched sched = { .nr_runs = 5 };
	uint64_t now = 5000 * MS;

	nr_caught = 0;
	task_look(&task, 'R', &sched, now);
	for (int i = 0; i < 5; i++)
		task_look(&task, 'R', &sched, now += 20 * MS);
	sched.nr_runs++;
	sched.run_ns += 15 * MS;
	sched.delay_ns += 105 * MS;
	task_look(&task, 'R', &sched, now += 20 * MS);
	task_finish(&task, now);
	check_whole(5000 * MS, 5120 * MS);
	CHECK_EQ(sum("Runnable"), 105 * MS);
	CHECK_EQ(sum("Running"), 15 * MS);
}

/* It runs each time that somebody looks, and sleeps half of the time between:
 * nothing of that was waiting, and little may be told so. */
static void test_no_waiting(void)
{
	struct task task = { .tid = 7 };
	struct proc_sched sched = { .nr_runs = 5 };
	uint64_t now = 5000 * MS;

	nr_caught = 0;
	task_look(&task, 'R', &sched, now);
	for (int i = 0; i < 500; i++) {
		sched.nr_runs++;
		sched.run_ns += 10 * MS;
		task_look(&task, 'R', &sched, now += 20 * MS);
	}
	task_finish(&task, now);
	check_whole(5000 * MS, 15000 * MS);
	CHECK_EQ(sum("Running"), 5000 * MS);
	CHECK(sum("Runnable") <= 50 * MS);
	CHECK_EQ(sum("Off CPU"), 5000 * MS - sum("Runnable"));
}

/* ---- Records of the kernel ---- */

static void test_records(void)
{
	struct {
		struct perf_event_header head;
		uint64_t words[4];
	} record = { .words = { 11, 22, 33, 44 } };
	struct cpu_change got;
	uint32_t pids[4] = { 5, 5, 6, 5 };

	record.head.type = PERF_RECORD_SWITCH;
	CHECK(cpu_change_parse(&record, 16, &got));
	CHECK(got.kind == CHANGE_IN && got.boottime_ns == 11);
	record.head.misc = PERF_RECORD_MISC_SWITCH_OUT;
	CHECK(cpu_change_parse(&record, 16, &got) && got.kind == CHANGE_OUT);
	record.head.misc |= 1 << 14;
	CHECK(cpu_change_parse(&record, 16, &got) &&
	      got.kind == CHANGE_PREEMPTED);
	record.head.type = PERF_RECORD_LOST;
	CHECK(cpu_change_parse(&record, 32, &got) && got.number == 22 &&
	      got.boottime_ns == 33 && got.kind == CHANGE_LOST);
	memcpy(record.words, pids, sizeof pids);
	record.head.type = PERF_RECORD_FORK;
	CHECK(cpu_change_parse(&record, 40, &got) && got.number == 6 &&
	      got.kind == CHANGE_STARTED && got.boottime_ns == 33);
	pids[0] = 9;            /* a process */
	memcpy(record.words, pids, sizeof pids);
	CHECK(!cpu_change_parse(&record, 40, &got));
	record.head.type = PERF_RECORD_EXIT;
	CHECK(cpu_change_parse(&record, 40, &got) &&
	      got.kind == CHANGE_ENDED);
	for (uint32_t size = 0; size < 40; size++)
		CHECK(!cpu_change_parse(&record, size, &got));
	record.head.type = PERF_RECORD_THROTTLE;
	CHECK(!cpu_change_parse(&record, 40, &got));
}

int main(void)
{
	test_switches();
	test_first();
	test_times();
	test_groups();
	test_gap();
	test_looks();
	test_little();
	test_waiting();
	test_no_waiting();
	test_records();
	return check_result();
}
