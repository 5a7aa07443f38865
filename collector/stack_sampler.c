/* SPDX-License-Identifier: MIT */
#include "collector/stack_sampler.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collector/clock.h"
#include "collector/log.h"
#include "collector/modules.h"
#include "collector/own_thread.h"
#include "collector/python.h"
#include "collector/sample_signal.h"
#include "collector/wait.h"

/* Threads sampled at one time; 16 MiB of rings, touched as they are used. */
enum { SLOTS_MAX = 1024, SLOT_RING = 16 << 10 };

/* Between two looks for new threads, and for the modules where none was
 * missed: what dlclose() took is seen no later. */
#define LOOK_NS 100000000u
#define RENEW_NS UINT64_C(1000000000)

static struct slot {
	struct sample_slot sample;      /* what the handler sees */
	uint32_t look;                  /* in which the thread was seen */
	bool is_used;
} slots[SLOTS_MAX];
static _Atomic uint32_t nr_slots;
static _Atomic uint32_t wake, is_wanted;
static uint32_t nr_looks, sample_hz;
static bool is_crowded;                 /* that was said */

static void remove_thread(struct slot *slot)
{
	sample_slot_stop(&slot->sample);
	slot->is_used = false;
}

static void remove_all(void)
{
	for (uint32_t i = 0; i < nr_slots; i++)
		if (slots[i].is_used)
			remove_thread(&slots[i]);
}

/* Ours are named so (own_thread.h), and have all signals blocked. */
static bool is_ours(uint32_t tid)
{
	char path[64], comm[16] = "";
	int fd;

	snprintf(path, sizeof path, "/proc/self/task/%u/comm", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;            /* gone */
	if (read(fd, comm, sizeof comm - 1) < 0)
		comm[0] = 0;
	close(fd);
	return !strncmp(comm, "gputrace-", 9);
}

static struct slot *find(uint32_t tid)
{
	for (uint32_t i = 0; i < nr_slots; i++)
		if (slots[i].is_used && slots[i].sample.tid == tid)
			return &slots[i];
	return NULL;
}

static struct slot *unused(void)
{
	struct slot *slot;
	uint32_t nr = nr_slots;

	for (slot = slots; slot < slots + nr; slot++)
		if (!slot->is_used)
			return slot;
	if (nr == SLOTS_MAX)
		return NULL;
	slot->sample.ring = ring_create(SLOT_RING);
	if (!slot->sample.ring)
		return NULL;
	/* Pairs with the load in stack_sampler_ring(). */
	atomic_store_explicit(&nr_slots, nr + 1, memory_order_release);
	return slot;
}

static void add_thread(uint32_t tid)
{
	struct slot *slot = unused();
	int error = slot ? sample_slot_start(&slot->sample, tid, sample_hz) :
		-EAGAIN;

	if (!error) {
		slot->is_used = true;
		slot->look = nr_looks;
	} else if (error != -ESRCH && !is_crowded) {
		is_crowded = true;
		log_queue(LOG_WARN, "stacks: not all threads are sampled: %s",
			  slot ? "the system gives no more timers "
			  "(ulimit -i)" : "there are more than 1024");
	}
}

static void look_at(uint32_t tid)
{
	struct slot *slot = find(tid);

	if (slot)
		slot->look = nr_looks;
	else if (!is_ours(tid))
		add_thread(tid);
}

/* All threads there are get a timer; those that are gone lose it. */
static void look_for_threads(void)
{
	DIR *folder = opendir("/proc/self/task");
	struct dirent *entry;

	if (!folder)
		return;
	nr_looks++;
	while ((entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			look_at((uint32_t)strtoul(entry->d_name, NULL, 10));
	closedir(folder);
	for (uint32_t i = 0; i < nr_slots; i++)
		if (slots[i].is_used && slots[i].look != nr_looks)
			remove_thread(&slots[i]);
}

static void renew_modules(uint64_t *renewed_ns)
{
	uint64_t now_ns = clock_now_ns();

	if (!modules_are_wanted() && now_ns - *renewed_ns < RENEW_NS)
		return;
	*renewed_ns = now_ns;
	(void)modules_refresh();
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

	(void)argument;
	(void)own_thread_part_files();
	for (;;) {
		uint32_t seen = atomic_load(&wake);

		if (atomic_load(&is_wanted)) {
			sample(&renewed_ns);
			wait_change(&wake, seen, LOOK_NS);
		} else {
			remove_all();
			wait_change(&wake, seen, UINT64_MAX >> 1);
		}
	}
	return NULL;
}

int stack_sampler_prepare(uint32_t hz)
{
	int error;

	sample_hz = hz && !sample_signal_take() ? hz : 0;
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
