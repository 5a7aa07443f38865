/* SPDX-License-Identifier: MIT */
#include "collector/cpu_task.h"

#include <string.h>

#include "collector/loss.h"
#include "collector/source.h"

/*
 * In sampled mode: shorter parts of an interval are kept for the next one, so
 * that the sums are the kernel's, and a thread that runs for some microseconds
 * each time does not make a slice of each.
 */
#define PART_MIN_NS INT64_C(1000000)
#define OWED_MAX_NS INT64_C(1000000000)
#define DEBT_MAX_NS INT64_C(30000000)

/* What lasts longer is written in parts. */
#define CUT_NS UINT64_C(1000000000)

static uint64_t interval_ns;

static const struct slice_kind state_kind = {
	.cat = "thread_state", .row = ROW_STATE,
	.fields = {
		{ .name = "sampled", .type = VALUE_TRUE },
		{ .name = "interval ms", .type = VALUE_ABSENT_0 },
		{ .name = "switches", .type = VALUE_ABSENT_0 },
		{ .name = "running ns", .type = VALUE_ABSENT_0 },
		{ .name = "preempted ns", .type = VALUE_ABSENT_0 },
		{ .name = "off CPU ns", .type = VALUE_ABSENT_0 },
		{ .name = "lost", .type = VALUE_ABSENT_0 },
	},
};

static const char *const names[NR_TASK_STATES] = {
	[TASK_UNKNOWN] = "Unknown",
	[TASK_RUNNING] = "Running",
	[TASK_PREEMPTED] = "Preempted",
	[TASK_RUNNABLE] = "Runnable",
	[TASK_OFF] = "Off CPU",
	[TASK_SLEEPING] = "Sleeping",
	[TASK_UNINTERRUPTIBLE] = "Uninterruptible",
	[TASK_STOPPED] = "Stopped",
};

/* Of a group. */
#define SWITCHING "Switching"

const char *task_state_name(enum task_state state)
{
	return names[state];
}

enum task_state task_state_of(char letter)
{
	switch (letter) {
	case 'R': return TASK_RUNNING;
	case 'S': case 'I': return TASK_SLEEPING;
	case 'D': return TASK_UNINTERRUPTIBLE;
	case 'T': case 't': return TASK_STOPPED;
	default: return TASK_OFF;
	}
}

void task_set_interval(uint64_t ns)
{
	interval_ns = ns;
}

static void write_slice(const struct task *task, uint64_t start_ns,
			uint64_t end_ns)
{
	uint64_t values[] = {
		task->is_sampled,
		/* The state of an exact one was seen once. */
		task->is_sampled && !task->ring.page ?
			interval_ns / 1000000 : 0,
	};
	const char *name = names[task->state];

	source_slice(&state_kind, task->tid, start_ns, end_ns, values,
		     task->is_sampled ? 2 : 0, name, (uint32_t)strlen(name));
}

static void write_group(struct task *task)
{
	struct task_group *group = &task->group;
	uint64_t values[] = {
		false, 0, group->nr_switches, group->running_ns,
		group->preempted_ns, group->off_ns,
	};

	if (group->end_ns)
		source_slice(&state_kind, task->tid, group->start_ns,
			     group->end_ns, values, 6, SWITCHING,
			     sizeof SWITCHING - 1);
	memset(group, 0, sizeof *group);
}

/* run_ns: how long it was on a CPU in it; UINT64_MAX: not known. */
static void write_gap(struct task *task, uint64_t run_ns)
{
	struct task_gap *gap = &task->gap;
	uint64_t dur_ns = gap->end_ns - gap->start_ns;
	uint64_t values[] = { false, 0, 0, 0, 0, 0, gap->nr_lost };

	if (run_ns != UINT64_MAX) {
		values[3] = run_ns < dur_ns ? run_ns : dur_ns;
		values[5] = dur_ns - values[3];
		task->run_ns += values[3];
	}
	if (gap->end_ns > gap->start_ns)
		source_slice(&state_kind, task->tid, gap->start_ns,
			     gap->end_ns, values, 7, SWITCHING,
			     sizeof SWITCHING - 1);
	memset(gap, 0, sizeof *gap);
}

static void add_to_group(struct task_group *group, enum task_state state,
			 uint64_t start_ns, uint64_t end_ns)
{
	uint64_t dur_ns = end_ns - start_ns;

	if (!group->end_ns)
		group->start_ns = start_ns;
	group->end_ns = end_ns;
	group->nr_switches += state == TASK_RUNNING;
	if (state == TASK_RUNNING)
		group->running_ns += dur_ns;
	else if (state == TASK_PREEMPTED)
		group->preempted_ns += dur_ns;
	else
		group->off_ns += dur_ns;
}

/* The state from since_ns to t_ns, as a slice or in a group. */
static void end_state(struct task *task, uint64_t t_ns, uint64_t merge_ns)
{
	struct task_group *group = &task->group;

	if (task->state == TASK_UNKNOWN || t_ns == task->since_ns)
		return;
	if (task->state == TASK_RUNNING)
		task->run_ns += t_ns - task->since_ns;
	if (t_ns - task->since_ns < merge_ns) {
		add_to_group(group, task->state, task->since_ns, t_ns);
		if (group->end_ns - group->start_ns >= merge_ns)
			write_group(task);
		return;
	}
	write_group(task);
	write_slice(task, task->since_ns, t_ns);
}

void task_enter(struct task *task, enum task_state state, bool is_sampled,
		uint64_t t_ns, uint64_t merge_ns)
{
	/* The clock that we convert to is steered: never back. */
	if (t_ns < task->since_ns)
		t_ns = task->since_ns;
	end_state(task, t_ns, merge_ns);
	task->state = state;
	task->is_sampled = is_sampled;
	task->since_ns = t_ns;
	task->has_changed = true;
}

/* ---- Exact: the kernel's ring ---- */

/* What it was before the first change follows from that change. */
static void learn_first(struct task *task, enum cpu_change_kind kind)
{
	if (task->state != TASK_UNKNOWN)
		return;
	if (kind == CHANGE_IN) {
		/* It could run when we looked: it waited for a CPU. */
		task->state = task->first_seen == TASK_RUNNING ?
			TASK_RUNNABLE : task->first_seen;
		task->is_sampled = task->state != TASK_OFF;
	} else {
		task->state = TASK_RUNNING;
	}
}

/* Some changes are missing since the last one. */
static void lose(struct task *task, uint64_t nr, uint64_t t_ns)
{
	loss_add(LOSS_SWITCHES, nr);
	write_group(task);
	write_gap(task, UINT64_MAX);
	if (t_ns < task->since_ns)
		t_ns = task->since_ns;
	task->gap = (struct task_gap){ task->since_ns, t_ns, nr };
	task->state = TASK_UNKNOWN;
	task->first_seen = TASK_OFF;
	task->since_ns = t_ns;
}

void task_count(struct task *task, const struct proc_sched *sched,
		uint64_t now_ns, bool is_full)
{
	uint64_t told_ns = task->run_ns;
	int64_t owed_ns;

	if (!is_full && task->state == TASK_RUNNING &&
	    now_ns > task->since_ns)
		told_ns += now_ns - task->since_ns;
	owed_ns = (int64_t)(sched->run_ns - task->first_run_ns - told_ns);
	write_gap(task, owed_ns > 0 ? (uint64_t)owed_ns : 0);
}

void task_change(struct task *task, const struct cpu_change *change,
		 uint64_t t_ns, uint64_t merge_ns)
{
	switch (change->kind) {
	case CHANGE_IN:
		learn_first(task, CHANGE_IN);
		task_enter(task, TASK_RUNNING, false, t_ns, merge_ns);
		break;
	case CHANGE_OUT:
		learn_first(task, CHANGE_OUT);
		task_enter(task, TASK_OFF, false, t_ns, merge_ns);
		break;
	case CHANGE_PREEMPTED:
		learn_first(task, CHANGE_PREEMPTED);
		task_enter(task, TASK_PREEMPTED, false, t_ns, merge_ns);
		break;
	case CHANGE_ENDED:
		learn_first(task, CHANGE_ENDED);
		task_finish(task, t_ns);
		task->has_ended = true;
		break;
	case CHANGE_LOST:
		lose(task, change->number, t_ns);
		break;
	case CHANGE_STARTED:
		break;
	}
}

/* ---- Sampled: /proc ---- */

/* How much of `room_ns` is shown of what is owed. */
static uint64_t take_part(int64_t *owed_ns, uint64_t room_ns)
{
	int64_t part_ns = *owed_ns, room = (int64_t)room_ns;

	if (part_ns < PART_MIN_NS)
		part_ns = 0;
	if (part_ns > room - PART_MIN_NS)
		part_ns = part_ns > room / 2 ? room : 0;
	*owed_ns -= part_ns;
	/* Clocks that do not agree must not add up. */
	if (*owed_ns > OWED_MAX_NS)
		*owed_ns = OWED_MAX_NS;
	if (*owed_ns < -OWED_MAX_NS)
		*owed_ns = -OWED_MAX_NS;
	return (uint64_t)part_ns;
}

static enum task_state state_off(const struct task *task, char letter)
{
	enum task_state state = task_state_of(letter);

	if (state != TASK_RUNNING)
		return state;
	/* It runs now: what it did before, the look before may know. */
	return task->state > TASK_RUNNABLE ? task->state : TASK_OFF;
}

static void enter_part(struct task *task, enum task_state state, uint64_t *at,
		       uint64_t dur_ns)
{
	if (dur_ns && task->state != state)
		task_enter(task, state, true, *at, 0);
	*at += dur_ns;
}

/* The order inside of the interval is not known: what it did before and does
 * now is put next to it. */
static void show_parts(struct task *task, char letter, uint64_t run_ns,
		       uint64_t delay_ns, uint64_t off_ns)
{
	enum task_state off = state_off(task, letter);
	uint64_t at = task->seen_ns;
	bool runs_last = letter == 'R' && task->state != TASK_RUNNING;

	if (!runs_last)
		enter_part(task, TASK_RUNNING, &at, run_ns);
	else
		enter_part(task, off, &at, off_ns);
	enter_part(task, TASK_RUNNABLE, &at, delay_ns);
	if (runs_last)
		enter_part(task, TASK_RUNNING, &at, run_ns);
	else
		enter_part(task, off, &at, off_ns);
}

static bool is_restarted(const struct task *task,
			 const struct proc_sched *sched)
{
	return sched->run_ns < task->seen.run_ns ||
		sched->delay_ns < task->seen.delay_ns;
}

/*
 * It could run at both looks: what it did not run it waited for a CPU.  The
 * kernel counts such a wait when it is over, so it is owed then; one that slept
 * between the looks and was never counted must not add up.
 */
static bool has_waited(const struct task *task, char letter,
		       const struct proc_sched *sched)
{
	return letter == 'R' && task->letter == 'R' && sched->nr_runs &&
		(sched->nr_runs == task->seen.nr_runs ||
		 task->owed_delay_ns > -DEBT_MAX_NS);
}

void task_look(struct task *task, char letter, const struct proc_sched *sched,
	       uint64_t now_ns)
{
	uint64_t room_ns = now_ns - task->seen_ns, run_ns, delay_ns;

	if (!task->seen_ns) {
		task->since_ns = now_ns;
	} else if (!is_restarted(task, sched)) {
		task->owed_run_ns += (int64_t)(sched->run_ns -
					       task->seen.run_ns);
		task->owed_delay_ns += (int64_t)(sched->delay_ns -
						 task->seen.delay_ns);
		run_ns = take_part(&task->owed_run_ns, room_ns);
		if (has_waited(task, letter, sched))
			task->owed_delay_ns -= (int64_t)(delay_ns = room_ns -
							 run_ns);
		else
			delay_ns = take_part(&task->owed_delay_ns,
					     room_ns - run_ns);
		show_parts(task, letter, run_ns, delay_ns,
			   room_ns - run_ns - delay_ns);
	}
	task->seen = *sched;
	task->letter = letter;
	task->seen_ns = now_ns;
}

void task_name_off(struct task *task, char letter)
{
	enum task_state state = task_state_of(letter);

	if (task->state == TASK_OFF && state > TASK_OFF) {
		task->state = state;
		task->is_sampled = true;
	}
}

/* Nothing has changed since the start. */
static void settle_first(struct task *task)
{
	if (task->state == TASK_UNKNOWN && task->ring.page) {
		task->state = task->first_seen;
		task->is_sampled = task->state != TASK_OFF;
	}
}

void task_cut(struct task *task, uint64_t t_ns)
{
	if (t_ns < task->since_ns + CUT_NS)
		return;
	settle_first(task);
	task_enter(task, task->state, task->is_sampled, t_ns, 0);
}

void task_finish(struct task *task, uint64_t end_ns)
{
	settle_first(task);
	task_enter(task, TASK_UNKNOWN, false, end_ns, 0);
	write_group(task);
	write_gap(task, UINT64_MAX);
}
