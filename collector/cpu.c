/* SPDX-License-Identifier: MIT */
#include "collector/cpu.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "collector/clock.h"
#include "collector/cpu_load.h"
#include "collector/cpu_proc.h"
#include "collector/cpu_tasks.h"
#include "collector/filter.h"
#include "collector/log.h"
#include "collector/sampler.h"

#define MS UINT64_C(1000000)

enum {
	/* A ring's page holds 256 switches. */
	RINGS_MS = 10,
	LISTS_MS = 100,
	LISTS_AGAIN_MS = 1,
	/* Between two looks at threads that are sampled, as far as a look
	 * takes no more than a hundredth of that. */
	LOOK_MIN_MS = 20,
	LOOK_MAX_MS = 500,
	LOOK_COST = 100,
	CUT_MS = 500,
	/* Threads with a ring that are looked at in 10 ms for what they wait
	 * for: 10 us each. */
	NAMED_AT_ONCE = 4,
};

/* One window's. */
struct recording {
	struct cpu_tasks tasks;
	struct cpu_load load;
	uint64_t look_ns, list_ns, cut_ns;      /* when it is due */
	uint64_t interval_ns;
	bool is_said;
};

static uint64_t between(uint64_t low, uint64_t value, uint64_t high)
{
	return value < low ? low : value > high ? high : value;
}

/* What a look cost decides when the next one is. */
static void look(struct recording *recording)
{
	uint64_t before_ns = proc_cpu_ns(CLOCK_THREAD_CPUTIME_ID), cost_ns;

	cpu_tasks_look(&recording->tasks);
	cost_ns = proc_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;
	recording->interval_ns = between(LOOK_MIN_MS * MS, cost_ns * LOOK_COST,
					 LOOK_MAX_MS * MS);
	task_set_interval(recording->interval_ns);
}

static bool is_due(uint64_t *at_ns, uint64_t now_ns, uint64_t every_ns)
{
	if (now_ns < *at_ns)
		return false;
	*at_ns = now_ns + every_ns;
	return true;
}

static void list(struct recording *recording, uint64_t now_ns)
{
	struct cpu_tasks *tasks = &recording->tasks;

	(void)cpu_tasks_scan(tasks, now_ns);
	if (tasks->is_partial)
		recording->list_ns = now_ns + LISTS_AGAIN_MS * MS;
	else
		cpu_load_tell(&recording->load, now_ns, tasks->nr,
			      cpu_tasks_delay(tasks));
}

static void step(struct recording *recording)
{
	struct cpu_tasks *tasks = &recording->tasks;
	uint64_t now_ns = clock_now_ns();

	cpu_tasks_drain(tasks);
	if (is_due(&recording->list_ns, now_ns, LISTS_MS * MS) ||
	    tasks->is_partial)
		list(recording, now_ns);
	if (tasks->nr_sampled &&
	    is_due(&recording->look_ns, now_ns, recording->interval_ns))
		look(recording);
	cpu_tasks_name_off(tasks, NAMED_AT_ONCE);
	if (is_due(&recording->cut_ns, now_ns, CUT_MS * MS))
		cpu_tasks_cut(tasks, now_ns);
}

static uint64_t next_step(const struct recording *recording)
{
	uint64_t now_ns = clock_now_ns(), next_ns = recording->list_ns;

	if (recording->tasks.pages && now_ns + RINGS_MS * MS < next_ns)
		next_ns = now_ns + RINGS_MS * MS;
	if (recording->look_ns < next_ns && recording->tasks.nr_sampled)
		next_ns = recording->look_ns;
	return next_ns > now_ns ? next_ns - now_ns : 1;
}

/* Once in a window: whether states are exact, and if not, why. */
static void say_how(struct recording *recording, bool may_perf)
{
	const struct cpu_tasks *tasks = &recording->tasks;
	const char *why = !may_perf ? "a filter of system calls (seccomp) may "
		"not know perf_event_open" : strerror(-tasks->perf_error);

	if (recording->is_said || tasks->is_partial)
		return;
	recording->is_said = true;
	if (!tasks->nr)
		log_queue(LOG_WARN, "no thread states: no thread is seen in "
			  "/proc/self/task");
	else if (tasks->nr_sampled)
		log_queue(LOG_INFO, "states of %u of %u threads are sampled: "
			  "%s; see perf_event_paranoid and "
			  "perf_event_mlock_kb in /proc/sys/kernel",
			  tasks->nr_sampled, tasks->nr, why);
}

static void finish(struct recording *recording, uint64_t end_ns)
{
	struct cpu_tasks *tasks = &recording->tasks;

	tasks->limit_ns = end_ns;
	cpu_tasks_drain(tasks);
	cpu_tasks_look(tasks);
	cpu_tasks_finish(tasks, end_ns);
	cpu_load_tell(&recording->load, end_ns, tasks->nr,
		      cpu_tasks_delay(tasks));
}

static void record(struct sampler *sampler)
{
	/* A filter may end the process for a call that it does not know. */
	bool may_perf = !filter_is_there();
	struct recording recording = { .interval_ns = LOOK_MIN_MS * MS };

	if (cpu_tasks_init(&recording.tasks, "/proc", may_perf)) {
		log_queue(LOG_WARN, "no thread states in this window: no "
			  "memory");
		return;
	}
	cpu_load_init(&recording.load, "/proc", "");
	task_set_interval(recording.interval_ns);
	do {
		step(&recording);
		say_how(&recording, may_perf);
	} while (sampler_wait(sampler, next_step(&recording)));
	finish(&recording, sampler_end_ns(sampler));
	sampler_done(sampler);
	cpu_tasks_fini(&recording.tasks);
}

static struct sampler sampler = { .name = "gputrace-cpu", .record = record };

static void open_window(void)
{
	sampler_open(&sampler);
}

static void close_window(void)
{
	sampler_close(&sampler);
}

static void forget(void)
{
	sampler_forget(&sampler);
}

const struct source cpu_source = {
	.name = "cpu", .open = open_window, .close = close_window,
	.forget = forget,
};
