/* SPDX-License-Identifier: MIT */
#include "collector/sampler.h"

#include <string.h>

#include "collector/clock.h"
#include "collector/log.h"
#include "collector/own_thread.h"
#include "collector/wait.h"

/* A look at 200 threads takes 3 ms, and there may be no CPU for it. */
#define CLOSE_WAIT_NS UINT64_C(300000000)

/* Between two looks of one that has nothing to do. */
#define IDLE_NS UINT64_C(1000000000)

static bool is_open(uint32_t turn)
{
	return turn & 1;
}

static bool is_done(const struct sampler *sampler, uint32_t turn)
{
	return (int32_t)(atomic_load(&sampler->turn_done) - turn) >= 0;
}

static void set_done(struct sampler *sampler, uint32_t turn)
{
	if (is_done(sampler, turn))
		return;
	atomic_store(&sampler->turn_done, turn - 1);
	wait_wake(&sampler->turn_done);         /* adds 1 */
}

static void *run(void *argument)
{
	struct sampler *sampler = argument;
	uint32_t turn;

	if (!sampler->shares_files)
		(void)own_thread_part_files();
	do {
		while (turn = atomic_load(&sampler->turn), is_open(turn)) {
			sampler->turn_now = turn;
			sampler->record(sampler);
			/* One that had nothing to record is back early. */
			while (sampler_wait(sampler, IDLE_NS))
				;
			sampler_done(sampler);
		}
		/* Windows that were over before we had seen them. */
		set_done(sampler, turn);
		atomic_store(&sampler->is_alive, 0);
		/* A window that opened meanwhile found us alive. */
	} while (atomic_load(&sampler->turn) != turn &&
		 !atomic_exchange(&sampler->is_alive, 1));
	return NULL;
}

void sampler_open(struct sampler *sampler)
{
	int error = 0;

	if (is_open(atomic_load(&sampler->turn)))
		return;
	atomic_fetch_add(&sampler->turn, 1);
	if (!atomic_exchange(&sampler->is_alive, 1))
		error = own_thread_start(sampler->name, run, sampler);
	if (error) {
		atomic_store(&sampler->is_alive, 0);
		atomic_fetch_add(&sampler->turn, 1);
		log_queue(LOG_WARN, "nothing of %s in this window: no thread "
			  "could be started (%s)", sampler->name,
			  strerror(-error));
	}
}

void sampler_close(struct sampler *sampler)
{
	uint64_t until_ns, now_ns = clock_now_ns();
	uint32_t turn, seen;

	if (!is_open(atomic_load(&sampler->turn)))
		return;
	atomic_store(&sampler->closed_ns, now_ns);
	wait_wake(&sampler->turn);
	turn = atomic_load(&sampler->turn);
	until_ns = now_ns + CLOSE_WAIT_NS;
	while (seen = atomic_load(&sampler->turn_done),
	       !is_done(sampler, turn) && now_ns < until_ns) {
		wait_change(&sampler->turn_done, seen, until_ns - now_ns);
		now_ns = clock_now_ns();
	}
	if (!is_done(sampler, turn))
		log_queue(LOG_WARN, "the last of %s in this window is missing: "
			  "it got no CPU in time", sampler->name);
}

void sampler_forget(struct sampler *sampler)
{
	atomic_store(&sampler->turn, 0);
	atomic_store(&sampler->turn_done, 0);
	atomic_store(&sampler->is_alive, 0);
}

bool sampler_wait(struct sampler *sampler, uint64_t ns)
{
	if (atomic_load(&sampler->turn) == sampler->turn_now)
		wait_change(&sampler->turn, sampler->turn_now, ns);
	return atomic_load(&sampler->turn) == sampler->turn_now;
}

uint64_t sampler_end_ns(const struct sampler *sampler)
{
	return atomic_load(&sampler->closed_ns);
}

void sampler_done(struct sampler *sampler)
{
	set_done(sampler, sampler->turn_now + 1);
}
