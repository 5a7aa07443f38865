/* SPDX-License-Identifier: MIT */
#include "collector/stack_sampler.h"

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "collector/clock.h"
#include "collector/filter.h"
#include "collector/log.h"
#include "collector/modules.h"
#include "collector/own_thread.h"
#include "collector/python.h"
#include "collector/sample_signal.h"
#include "collector/text_file.h"
#include "collector/wait.h"

/* Threads sampled at one time; 16 MiB of rings, touched as they are used. */
enum { SLOTS_MAX = 1024, SLOT_RING = 16 << 10 };

/* Between two looks for new threads, and for the modules where none was
 * missed: what dlclose() took is seen no later. */
#define LOOK_NS 100000000u
#define EARLY_LOOK_NS 10000000u         /* after a window has opened */
#define RENEW_NS UINT64_C(1000000000)

/* Between two looks at one thread's mask. */
enum { LOOKS_BETWEEN = 10 };

enum { EPOLL_PWAIT2 = 441 };            /* newer than some headers */

static struct slot {
	struct sample_slot sample;      /* what the handler sees */
	uint32_t tid;                   /* 0: unused */
	uint32_t look;                  /* in which the thread was seen */
	uint32_t nr_refused, nr_unknown;        /* in a row: may_be_sampled() */
	long long nr_waits;             /* at the last look that told nothing */
	uint64_t cpu_ns;                /* likewise */
	bool has_timer;
} slots[SLOTS_MAX];
static _Atomic uint32_t nr_slots;
static _Atomic uint32_t wake, is_wanted;
static uint32_t nr_looks, sample_hz;
static bool is_crowded;                 /* that was said */
static bool is_urgent;                  /* a thread is to be looked at again */

#define NO_TIMERS "stacks: no samples %s: the program's own filter of " \
	"system calls (seccomp) might end it for a timer"

/* A filter of system calls that the program has put up may end it for a timer,
 * also for the end of one: those that are there stay, and their signals are
 * for nothing outside a window. */
static bool may_use_timers(void)
{
	static bool is_filtered;

	is_filtered = is_filtered || filter_is_own();
	return !is_filtered;
}

static void stop_timer(struct slot *slot)
{
	if (slot->has_timer && may_use_timers())
		sample_slot_stop(&slot->sample);
	slot->has_timer = false;
}

static void remove_all(void)
{
	for (uint32_t i = 0; i < nr_slots; i++) {
		stop_timer(&slots[i]);
		slots[i].tid = 0;
	}
}

static void read_of_thread(uint32_t tid, const char *name, char *text,
			   size_t size)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/self/task/%u/%s", tid, name);
	text_file_read(path, text, size);
}

/* Where the thread is in the kernel: the call's number, and its arguments.
 * "running" is also what is said of one that was woken and has not run yet. */
enum place { RUNNING, IN_A_CALL, WITH_OTHER_MASK };

/* The last is a call that has put another mask in place of the thread's own
 * for as long as it waits. */
static enum place place_of(uint32_t tid)
{
	static const struct {
		unsigned long number;
		int mask;               /* which of the arguments */
	} calls[] = {
		{ SYS_rt_sigtimedwait, 0 }, { SYS_rt_sigsuspend, 0 },
		{ SYS_ppoll, 3 }, { SYS_pselect6, 5 },
		{ SYS_epoll_pwait, 4 }, { EPOLL_PWAIT2, 4 },
	};
	unsigned long arguments[6], number;
	char text[256], *at;
	size_t i;

	read_of_thread(tid, "syscall", text, sizeof text);
	if (!strncmp(text, "running", 7))
		return RUNNING;
	number = strtoul(text, &at, 10);
	for (i = 0; i < 6; i++)
		arguments[i] = strtoul(at, &at, 16);
	for (i = 0; i < sizeof calls / sizeof *calls; i++)
		if (calls[i].number == number && arguments[calls[i].mask])
			return WITH_OTHER_MASK;
	return IN_A_CALL;
}

/* The count behind the key, or -1. */
static long long count_of(const char *status, const char *key, int base)
{
	const char *at = strstr(status, key);

	return at ? (long long)strtoull(at + strlen(key), NULL, base) : -1;
}

/* Our own threads block all; they are named so (own_thread.h).  One that is
 * gone, or is in more groups than are read, is like these. */
static bool blocks_none_of_ours(uint32_t tid, long long *nr_waits)
{
	char text[16384];
	long long blocked;

	read_of_thread(tid, "status", text, sizeof text);
	blocked = count_of(text, "\nSigBlk:\t", 16);
	*nr_waits = count_of(text, "\nvoluntary_ctxt_switches:\t", 10);
	return blocked != -1 && *nr_waits != -1 &&
		strncmp(text, "Name:\tgputrace-", 15) &&
		!((uint64_t)blocked >> (sample_signal() - 1) & 1);
}

/* Of a thread of this process; 0: it is gone. */
static uint64_t cpu_ns_of(uint32_t tid)
{
	struct timespec t = { 0 };

	(void)clock_gettime(SAMPLE_CLOCK_OF(tid), &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* It ran since the last look, in which its mask was open too, and began no
 * wait. */
static bool has_run_without_wait(struct slot *slot, uint64_t cpu_ns,
				 long long nr_waits)
{
	bool has = nr_waits == slot->nr_waits && cpu_ns > slot->cpu_ns;

	slot->nr_waits = nr_waits;
	slot->cpu_ns = cpu_ns;
	return has;
}

enum answer { NO, YES, UNKNOWN };

/*
 * A thread that blocks the signal may wait for it with sigwait(), and would
 * get ours for its own.  In that wait its mask shows the signal as open, until
 * it runs again; and it may go in and out while it is looked at, since we may
 * be kept from looking for long.  So its mask counts if it is seen twice, no
 * wait begins from the one time to the other, and between them it is in another
 * call, or runs.
 */
static enum answer may_be_sampled(struct slot *slot)
{
	enum { TRIES = 3 };
	long long before, after;
	uint64_t from_ns, to_ns;
	enum place place;

	for (int i = 0; i < TRIES; i++) {
		if (!blocks_none_of_ours(slot->tid, &before))
			return NO;
		from_ns = cpu_ns_of(slot->tid);
		place = place_of(slot->tid);
		/* In front of the mask: one that was woken behind it has not
		 * put its own back. */
		to_ns = cpu_ns_of(slot->tid);
		if (place == WITH_OTHER_MASK ||
		    !blocks_none_of_ours(slot->tid, &after))
			return NO;
		if (before == after)
			return place == IN_A_CALL || to_ns > from_ns ||
				has_run_without_wait(slot, to_ns, after) ?
				YES : UNKNOWN;
	}
	return UNKNOWN;
}

static struct slot *find(uint32_t tid)
{
	for (uint32_t i = 0; i < nr_slots; i++)
		if (slots[i].tid == tid)
			return &slots[i];
	return NULL;
}

static void say_crowded(const char *why)
{
	if (!is_crowded)
		log_queue(LOG_WARN, "stacks: not all threads are sampled: %s",
			  why);
	is_crowded = true;
}

static struct slot *unused(void)
{
	struct slot *slot = find(0);
	uint32_t nr = nr_slots;

	if (slot || nr == SLOTS_MAX)
		return slot;
	slot = &slots[nr];
	slot->sample.ring = ring_create(SLOT_RING);
	if (!slot->sample.ring)
		return NULL;
	/* Pairs with the load in stack_sampler_ring(). */
	atomic_store_explicit(&nr_slots, nr + 1, memory_order_release);
	return slot;
}

/* Gives it a timer, or takes it away; a thread changes its mind seldom.  One
 * of which nothing is known keeps what it has, and is looked at soon. */
static void decide(struct slot *slot)
{
	enum answer answer = may_be_sampled(slot);
	bool is_unknown = answer == UNKNOWN && !slot->has_timer;
	int error;

	slot->nr_unknown = is_unknown ? slot->nr_unknown + 1 : 0;
	slot->nr_refused = answer == NO ? slot->nr_refused + 1 : 0;
	if (answer == NO)
		stop_timer(slot);
	if (answer == NO || is_unknown || slot->has_timer)
		return;
	if (!may_use_timers()) {
		sample_hz = 0;
		log_queue(LOG_WARN, NO_TIMERS, "of further threads");
		return;
	}
	error = sample_slot_start(&slot->sample, slot->tid, sample_hz);
	slot->has_timer = !error;
	if (error == -EAGAIN)
		say_crowded("the system gives no more timers (ulimit -i)");
}

static void look_at(uint32_t tid)
{
	struct slot *slot = find(tid);
	bool is_new = !slot;

	if (is_new)
		slot = unused();
	if (!slot) {
		say_crowded("there are more than 1024");
		return;
	}
	if (is_new) {
		slot->nr_refused = slot->nr_unknown = 0;
		slot->nr_waits = -1;
	}
	slot->tid = tid;
	slot->look = nr_looks;
	/* One that has just opened the window, say, blocks all for a moment
	 * (guard.h). */
	if (is_new || slot->nr_unknown ||
	    (slot->nr_refused && slot->nr_refused < LOOKS_BETWEEN) ||
	    (nr_looks + tid) % LOOKS_BETWEEN == 0)
		decide(slot);
	is_urgent |= slot->nr_unknown && slot->nr_unknown < LOOKS_BETWEEN;
}

/* All threads there are; those that are gone leave their slots. */
static void look_for_threads(void)
{
	DIR *folder = opendir("/proc/self/task");
	struct dirent *entry;

	if (!folder)
		return;
	nr_looks++;
	is_urgent = false;
	while ((entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			look_at((uint32_t)strtoul(entry->d_name, NULL, 10));
	closedir(folder);
	for (uint32_t i = 0; i < nr_slots; i++)
		if (slots[i].tid && slots[i].look != nr_looks) {
			stop_timer(&slots[i]);
			slots[i].tid = 0;
		}
}

/* Code that was made at run time is of no file, and missed at every sample:
 * after a look for nothing the next one is the regular one. */
static void renew_modules(uint64_t *renewed_ns)
{
	static bool is_vain;
	uint64_t now_ns = clock_now_ns();
	bool is_missed = modules_are_wanted();
	int changed;

	if ((!is_missed || is_vain) && now_ns - *renewed_ns < RENEW_NS)
		return;
	*renewed_ns = now_ns;
	changed = modules_refresh();
	is_vain = is_missed && changed <= 0;
	/* It takes the loader's lock: only where a library has come. */
	if (changed > 0)
		(void)python_prepare();
}

static void sample(uint64_t *renewed_ns)
{
	renew_modules(renewed_ns);
	if (!sample_hz)
		return;
	if (sample_signal_is_ours()) {
		look_for_threads();
		return;
	}
	remove_all();
	sample_hz = 0;
	log_queue(LOG_WARN, "stacks: no more samples: the program has taken "
		  "signal %d, which was free", sample_signal());
}

static void *run(void *argument)
{
	uint64_t renewed_ns = 0;
	uint32_t nr = 0;                /* looks since the window opened */

	(void)argument;
	(void)own_thread_part_files();
	for (;;) {
		uint32_t seen = atomic_load(&wake);

		if (atomic_load(&is_wanted)) {
			sample(&renewed_ns);
			wait_change(&wake, seen,
				    nr++ < LOOKS_BETWEEN || is_urgent ?
				    EARLY_LOOK_NS : LOOK_NS);
		} else {
			remove_all();
			nr = 0;
			wait_change(&wake, seen, UINT64_MAX >> 1);
		}
	}
	return NULL;
}

int stack_sampler_prepare(uint32_t hz)
{
	int error;

	if (hz && !may_use_timers()) {
		log_line(LOG_WARN, NO_TIMERS, "of CPU time");
		hz = 0;
	}
	sample_hz = hz && !sample_signal_take(slots, sizeof slots) ? hz : 0;
	error = own_thread_start("gputrace-stacks", run, NULL);
	if (error)
		log_line(LOG_WARN, "no call stacks: no thread could be "
			 "started");
	return error;
}

void stack_sampler_start(void)
{
	atomic_store(&is_wanted, 1);
	wait_wake(&wake);
}

void stack_sampler_stop(void)
{
	atomic_store(&is_wanted, 0);
	wait_wake(&wake);
}

struct ring *stack_sampler_ring(uint32_t i)
{
	return i < atomic_load_explicit(&nr_slots, memory_order_acquire) ?
		slots[i].sample.ring : NULL;
}

void stack_sampler_forget(void)
{
	atomic_store(&is_wanted, 0);
	sample_signal_forget();
}
