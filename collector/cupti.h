/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CUPTI_H
#define GPUTRACE_COLLECTOR_CUPTI_H

#include <stdbool.h>
#include <stdint.h>

/*
 * CUPTI's activities: which kinds are on, when, and how they come back.
 *
 *   program's threads  --request buffer-->  pool  (in the middle of a call)
 *   CUPTI's thread     --completed------->  pool  -> activity_take()
 *   flush thread       --cuptiActivityFlushAll every flush_ns
 *
 * Only the flush thread flushes: two flushes at once deadlock, and a flush
 * waits as long as the driver's lock is held (seconds, with lazy loading), so
 * nothing waits for it but with a deadline.
 */
struct cupti_options {
	const char *path;               /* GPUTRACE_CUPTI or NULL */
	uint32_t driver_version;        /* 13000; 0: not known */
	uint64_t buffer_bytes;          /* for activity buffers */
	uint64_t flush_ns;
	bool api_all, api_none;         /* GPUTRACE_API */
	bool graph_level;               /* GPUTRACE_GRAPH=graph */
	bool memory, uvm;               /* of GPUTRACE_TRACE */
	/* cuProfilerStart (true) or Stop was called; NULL: not of interest */
	void (*on_profiler_api)(bool start);
	bool floor;                     /* every other window is thrown away:
					 * what CUPTI costs without us */
};

/* Finds and prepares CUPTI; no kind is on yet.  Says in one line why not.
 * Returns 0 or -errno.  Context: attach, once, before any other. */
int cupti_attach(const struct cupti_options *options);

/* What a window records. */
struct cupti_choice {
	bool cuda, memory, uvm;
	bool has_own_file;      /* it may open when the common one is full */
};

/* Opens a window: turns the kinds on (choice NULL: those of cupti_attach()).
 * Returns 0, also where one is open; -EPERM: its output is over
 * (that was said); -ESHUTDOWN: the process ends; other -errno (said in a line).
 * Context: any thread of the program outside CUPTI's buffer callbacks. */
int cupti_start(const struct cupti_choice *choice);

/* Turns the kinds on without a window: what they tell is dropped, and the
 * first calls after it pay what the first calls pay.  Ends with cupti_stop().
 * Returns as, context: as cupti_start(). */
int cupti_warm_up(void);

/* Closes the window.  API records end at once; the GPU's are waited for, up
 * to a second, by the flush thread, which then turns the rest off.
 * Context: as cupti_start(). */
void cupti_stop(void);

/* Fetches all that there is, also from threads with work in flight, which comes
 * without its end.  0 or -ETIMEDOUT.  Context: our own threads. */
int cupti_flush_now(uint64_t deadline_ns);

/* The end of the process: fetches what CUPTI still holds and turns all off.
 * Returns 0, or -ETIMEDOUT after deadline_ns of clock.h.
 * Context: the exiting thread. */
int cupti_finish(uint64_t deadline_ns);

/* Another client is about to subscribe to CUPTI, which has room for one: ours
 * is given up.  Context: any thread of the program. */
void cupti_give_way(void);

/*
 * Another client wants CUPTI: what is complete is fetched, for 300 ms at most,
 * and our kinds are turned off; until it is done (client.h), when
 * cupti_take_up() turns them on again.  Both change nothing where there is
 * nothing to change.  Context: the client's thread, inside its call.
 */
void cupti_stand_aside(void);
void cupti_take_up(void);

/* Our kinds are on: another client must not turn them off.
 * Context: any thread. */
bool cupti_is_ours(void);

/* In the child of a fork: CUPTI is dead.  Context: atfork child. */
void cupti_forget(void);

#endif
