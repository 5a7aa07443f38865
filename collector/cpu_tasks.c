/* SPDX-License-Identifier: MIT */
#include "collector/cpu_tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "collector/clock.h"
#include "collector/loss.h"
#include "collector/own_thread.h"

enum {
	NR_BUCKETS = 1024,
	RING_PAGES_FIRST = 2,
	/* Of all rings: 4 MiB, and half of what all programs of this user may
	 * lock for such rings (516 KiB a CPU). */
	PAGES_MAX = 1024,
	MLOCK_KB_DEFAULT = 516,
	SWITCH_SIZE = 16,
	/* The largest record is not written where there is less. */
	FULL_ROOM = 64,
	/* Of a ring that was once half full. */
	GROWN_PAGES_MAX = 64,
	/* Switches between two looks that are all shown; where there are more
	 * short slices go into groups. */
	SHOWN_MAX = 400,
};

/* The shortest slice then, if not more is needed to stay below that. */
#define MERGE_MIN_NS UINT64_C(100000)

/* The kernel counts rings with what the user locks otherwise (io_uring): half
 * of that limit is the program's, too. */
static uint64_t pages_lockable(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) ||
	    limit.rlim_cur == RLIM_INFINITY)
		return PAGES_MAX;
	return limit.rlim_cur / 2 / proc_page_size();
}

static uint32_t pages_allowed(const char *proc)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t kb = proc_number(proc, "kernel/perf_event_mlock_kb",
				  MLOCK_KB_DEFAULT), pages, lockable;

	if (kb > MLOCK_KB_DEFAULT * 16)
		kb = MLOCK_KB_DEFAULT * 16;
	pages = kb / (proc_page_size() / 1024) *
		(uint64_t)(cpus > 0 ? cpus : 1) / 2;
	lockable = pages_lockable();
	if (pages > lockable)
		pages = lockable;
	return pages < PAGES_MAX ? (uint32_t)pages : PAGES_MAX;
}

int cpu_tasks_init(struct cpu_tasks *tasks, const char *proc, bool may_perf)
{
	memset(tasks, 0, sizeof *tasks);
	tasks->proc = proc;
	tasks->limit_ns = UINT64_MAX;
	tasks->perf_error = may_perf ? 0 : -EPERM;
	tasks->pages_max = may_perf ? pages_allowed(proc) : 0;
	tasks->buckets = calloc(NR_BUCKETS, sizeof *tasks->buckets);
	return tasks->buckets ? 0 : -ENOMEM;
}

void cpu_tasks_fini(struct cpu_tasks *tasks)
{
	struct task *task;

	while ((task = tasks->list)) {
		tasks->list = task->next;
		cpu_ring_close(&task->ring);
		free(task);
	}
	free(tasks->buckets);
	memset(tasks, 0, sizeof *tasks);
}

/* ---- Threads come and go ---- */

static struct task *find(const struct cpu_tasks *tasks, uint32_t tid)
{
	struct task *task = tasks->buckets[tid % NR_BUCKETS];

	while (task && task->tid != tid)
		task = task->next_in_bucket;
	return task;
}

/* By how much of the memory is used up; 0: too much of it. */
static uint32_t pages_for_next(const struct cpu_tasks *tasks)
{
	uint32_t pages = tasks->pages < tasks->pages_max / 4 ?
		RING_PAGES_FIRST : 1;

	return tasks->pages + pages + CPU_RING_EXTRA <=
		tasks->pages_max / 4 * 3 ? pages : 0;
}

/* Its ring, or it is sampled.  A smaller one where no more may be locked. */
static void open_ring(struct cpu_tasks *tasks, struct task *task)
{
	uint32_t pages = pages_for_next(tasks);
	int err = -ENOMEM;

	for (; pages; pages /= 2) {
		err = cpu_ring_open(&task->ring, task->tid, pages);
		if (err != -EPERM && err != -ENOMEM)
			break;
	}
	if (err) {
		/* Where not even the first is had, none will be. */
		if (err != -ESRCH && !tasks->pages)
			tasks->pages_max = 0;
		if (err != -ESRCH && !tasks->perf_error)
			tasks->perf_error = err;
		tasks->nr_sampled++;
		return;
	}
	task->ring_pages = pages + CPU_RING_EXTRA;
	tasks->pages += task->ring_pages;
}

static void close_ring(struct cpu_tasks *tasks, struct task *task)
{
	if (!task->ring.page)
		tasks->nr_sampled--;
	cpu_ring_close(&task->ring);
	tasks->pages -= task->ring_pages;
	task->ring_pages = 0;
}

static struct task *link_new(struct cpu_tasks *tasks, uint32_t tid)
{
	struct task **bucket = &tasks->buckets[tid % NR_BUCKETS];
	struct task *task = tasks->nr < TASKS_MAX ? calloc(1, sizeof *task) :
		NULL;

	if (!task) {
		loss_add(LOSS_TABLE_FULL, 1);
		return NULL;
	}
	task->tid = tid;
	task->next_in_bucket = *bucket;
	*bucket = task;
	task->next = tasks->list;
	tasks->list = task;
	tasks->nr++;
	return task;
}

static void look_at(struct cpu_tasks *tasks, struct task *task,
		    uint64_t now_ns);

static struct task *add(struct cpu_tasks *tasks, uint32_t tid)
{
	struct proc_stat stat;
	struct proc_sched sched;
	struct task *task;

	if (own_thread_is(tid))
		return NULL;
	task = link_new(tasks, tid);
	if (!task)
		return NULL;
	open_ring(tasks, task);
	task->since_ns = clock_now_ns();
	if (!task->ring.page) {
		look_at(tasks, task, task->since_ns);
		task->delay_ns = task->seen.delay_ns;
		return task;
	}
	/* Behind the ring: what changes from here on is in it. */
	if (proc_read_stat(tasks->proc, tid, &stat))
		task->first_seen = task_state_of(stat.state);
	else
		task->first_seen = TASK_OFF;
	if (proc_read_sched(tasks->proc, tid, &sched)) {
		task->delay_ns = sched.delay_ns;
		task->first_run_ns = sched.run_ns;
	}
	return task;
}

static void drop(struct cpu_tasks *tasks, struct task *task)
{
	struct task **at = &tasks->buckets[task->tid % NR_BUCKETS];

	while (*at != task)
		at = &(*at)->next_in_bucket;
	*at = task->next_in_bucket;
	if (tasks->next_named == task)
		tasks->next_named = task->next;
	close_ring(tasks, task);
	free(task);
	tasks->nr--;
}

static void drop_ended(struct cpu_tasks *tasks)
{
	struct task **at = &tasks->list, *task;

	while ((task = *at)) {
		if (!task->has_ended) {
			at = &task->next;
			continue;
		}
		*at = task->next;
		drop(tasks, task);
	}
}

/* NULL: one of ours, no memory, or not to be told yet. */
static struct task *find_or_add(struct cpu_tasks *tasks, uint32_t tid)
{
	struct task *task = find(tasks, tid);

	if (task)
		return task;
	/* It may be that one of ours: the next look tells. */
	if (own_thread_is_starting()) {
		tasks->is_partial = true;
		return NULL;
	}
	return add(tasks, tid);
}

static void see(void *context, uint32_t tid)
{
	struct cpu_tasks *tasks = context;
	struct task *task = find_or_add(tasks, tid);

	if (task)
		task->scan = tasks->scan;
}

bool cpu_tasks_scan(struct cpu_tasks *tasks, uint64_t now_ns)
{
	struct task *task;

	tasks->scan++;
	tasks->is_partial = false;
	if (!proc_threads(tasks->proc, see, tasks))
		return false;
	for (task = tasks->list; task; task = task->next) {
		if (task->scan == tasks->scan || task->has_ended)
			continue;
		/* A sampled one ends with the last look at it. */
		task_finish(task, task->ring.page ? now_ns : task->seen_ns);
		task->has_ended = true;
	}
	drop_ended(tasks);
	return true;
}

/* ---- Rings ---- */

/* Each thread that switches has two slices at most in so long. */
static uint64_t merge_time(struct cpu_tasks *tasks, uint64_t passed_ns)
{
	uint32_t bytes, nr_busy = 0;
	uint64_t all = 0, merge_ns;
	struct task *task;

	for (task = tasks->list; task; task = task->next) {
		bytes = task->ring.page ? cpu_ring_look(&task->ring) : 0;
		all += bytes;
		nr_busy += bytes > 2 * SWITCH_SIZE;
	}
	if (all / SWITCH_SIZE <= SHOWN_MAX)
		return 0;
	merge_ns = nr_busy * passed_ns / (SHOWN_MAX / 2);
	return merge_ns > MERGE_MIN_NS ? merge_ns : MERGE_MIN_NS;
}

static void take_change(struct cpu_tasks *tasks, struct task *task,
			const struct cpu_change *change, uint64_t merge_ns)
{
	uint64_t t_ns = change->boottime_ns + tasks->offset_ns;

	if (t_ns < task->from_ns || t_ns > tasks->limit_ns || task->has_ended)
		return;
	if (change->kind != CHANGE_STARTED)
		task_change(task, change, t_ns, merge_ns);
	/* At the end no memory is asked for any more. */
	else if (change->number && tasks->limit_ns == UINT64_MAX)
		(void)find_or_add(tasks, (uint32_t)change->number);
}

/*
 * What a full ring has no room for the kernel counts and tells when there is
 * room again; how long the thread ran meanwhile schedstat knows.  That is read
 * before the ring: all changes until then are in it.
 */
static void drain_one(struct cpu_tasks *tasks, struct task *task,
		      uint64_t merge_ns)
{
	struct proc_sched sched = { 0 };
	uint64_t read_ns = clock_now_ns();
	bool has_sched = task->was_full &&
		proc_read_sched(tasks->proc, task->tid, &sched);
	struct cpu_change change;
	uint32_t bytes = cpu_ring_look(&task->ring);

	task->ring_use = bytes;
	task->was_full = bytes + FULL_ROOM > task->ring.size;
	while (cpu_ring_next(&task->ring, &change)) {
		if (has_sched && task->gap.end_ns && change.boottime_ns +
		    tasks->offset_ns > read_ns) {
			task_count(task, &sched, read_ns, false);
			has_sched = false;
		}
		take_change(tasks, task, &change, merge_ns);
	}
	cpu_ring_give_back(&task->ring);
	if (has_sched && task->gap.end_ns)
		task_count(task, &sched, read_ns, task->was_full);
}

/* From now_ns on the thread's changes are in another ring.  How many the old
 * one, if it was full, has lost since it was last read it tells with the next
 * change only. */
static void change_rings(struct task *task, uint64_t since_ns, uint64_t now_ns)
{
	struct cpu_change lost = { .kind = CHANGE_LOST };

	if (task->was_full && task->since_ns == since_ns)
		task_change(task, &lost, now_ns, 0);
	task->from_ns = task->since_ns < now_ns ? now_ns : task->since_ns + 1;
}

/* One that was too small. */
static void grow_ring(struct cpu_tasks *tasks, struct task *task)
{
	uint32_t pages = (task->ring_pages - CPU_RING_EXTRA) * 4;
	uint64_t since_ns = task->since_ns;
	struct cpu_ring new;
	struct clock_pair pair;
	bool was_full;

	if (pages > GROWN_PAGES_MAX || tasks->pages + pages > tasks->pages_max)
		return;
	if (cpu_ring_open(&new, task->tid, pages))
		return;
	clock_snapshot(&pair);
	was_full = task->was_full;
	drain_one(tasks, task, MERGE_MIN_NS);
	task->was_full |= was_full;
	change_rings(task, since_ns, pair.boottime_ns + tasks->offset_ns);
	cpu_ring_close(&task->ring);
	task->ring = new;
	tasks->pages += pages + CPU_RING_EXTRA - task->ring_pages;
	task->ring_pages = pages + CPU_RING_EXTRA;
}

void cpu_tasks_drain(struct cpu_tasks *tasks)
{
	struct clock_pair pair;
	uint64_t merge_ns;
	struct task *task;

	clock_snapshot(&pair);
	tasks->offset_ns = pair.t_ns - pair.boottime_ns;
	merge_ns = merge_time(tasks, pair.t_ns - tasks->drained_ns);
	tasks->drained_ns = pair.t_ns;
	/* New ones are put before those that are still to be read. */
	for (task = tasks->list; task; task = task->next)
		if (task->ring.page && task->ring.head != task->ring.tail) {
			drain_one(tasks, task, merge_ns);
			if (task->ring_use > task->ring.size / 2 &&
			    tasks->limit_ns == UINT64_MAX)
				grow_ring(tasks, task);
		}
	drop_ended(tasks);
}

void cpu_tasks_name_off(struct cpu_tasks *tasks, uint32_t nr)
{
	struct task *task = tasks->next_named;
	struct proc_stat stat;
	uint32_t i;

	for (i = 0; i < tasks->nr && nr; i++, task = task->next) {
		if (!task)
			task = tasks->list;
		if (task->state != TASK_OFF || !task->ring.page)
			continue;
		nr--;
		if (proc_read_stat(tasks->proc, task->tid, &stat) &&
		    !cpu_ring_look(&task->ring))
			task_name_off(task, stat.state);
	}
	tasks->next_named = task;
}

/* ---- /proc ---- */

/* Also a kernel that counts in ticks only tells how long it ran. */
static void look_at(struct cpu_tasks *tasks, struct task *task,
		    uint64_t now_ns)
{
	struct proc_sched sched;
	struct proc_stat stat;
	bool has_sched = proc_read_sched(tasks->proc, task->tid, &sched);

	/* It has not been on a CPU since: it still waits for the same. */
	if (has_sched && task->seen_ns && task->state >= TASK_OFF &&
	    sched.nr_runs == task->seen.nr_runs &&
	    sched.delay_ns == task->seen.delay_ns) {
		task->seen_ns = now_ns;
		return;
	}
	if (!proc_read_stat(tasks->proc, task->tid, &stat))
		return;         /* the next list tells that it is gone */
	if (!has_sched)
		sched.run_ns = stat.cpu_ns;
	task_look(task, stat.state, &sched, now_ns);
}

void cpu_tasks_look(struct cpu_tasks *tasks)
{
	struct task *task;
	uint64_t now_ns;

	for (task = tasks->list; task && tasks->nr_sampled; task = task->next) {
		now_ns = clock_now_ns();
		if (!task->ring.page)
			look_at(tasks, task, now_ns < tasks->limit_ns ?
				now_ns : tasks->limit_ns);
	}
}

uint64_t cpu_tasks_delay(struct cpu_tasks *tasks)
{
	struct proc_sched sched;
	uint64_t all_ns = 0, now_ns;
	struct task *task;

	for (task = tasks->list; task; task = task->next) {
		if (task->ring.page && task->has_changed) {
			task->has_changed = false;
			if (!proc_read_sched(tasks->proc, task->tid, &sched))
				continue;
			now_ns = sched.delay_ns;
		} else {
			now_ns = task->ring.page ? task->delay_ns :
				task->seen.delay_ns;
		}
		if (now_ns > task->delay_ns)
			all_ns += now_ns - task->delay_ns;
		task->delay_ns = now_ns;
	}
	return all_ns;
}

void cpu_tasks_cut(struct cpu_tasks *tasks, uint64_t t_ns)
{
	struct task *task;

	for (task = tasks->list; task; task = task->next)
		task_cut(task, t_ns);
}

void cpu_tasks_finish(struct cpu_tasks *tasks, uint64_t end_ns)
{
	struct task *task;

	for (task = tasks->list; task; task = task->next)
		task_finish(task, end_ns);
}
