/* SPDX-License-Identifier: MIT */
#include "writer/writer.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/log.h"
#include "collector/own_thread.h"
#include "collector/wait.h"
#include "writer/backlog.h"
#include "writer/dump.h"
#include "writer/output.h"
#include "writer/requests.h"
#include "writer/trace.h"

enum {
	/* What comes faster than the rings hold is read meanwhile, by a
	 * thread of its own (backlog.h). */
	POLL_MS = 10,
	/* No window: only leftovers come. */
	POLL_CLOSED_MS = 100,
	/* And after a while not even these, but for names, which are few, and
	 * threads that come and go (thread.c wakes us where they are many). */
	POLL_ASLEEP_MS = 60000,
	ASLEEP_AFTER_MS = 1000,
	/* Buffers of activities that wait before they are worked on early:
	 * 75,000 kernels, some 30 ms of work. */
	WAITING_MAX = 16 << 20,
	/* Between two flushes because of many ranges: three of them hold as
	 * many as 300,000 a second. */
	HURRY_MS = 100,
};

#define NS_PER_MS UINT64_C(1000000)

static struct {
	pthread_mutex_t lock;           /* of the summary */
	struct writer_summary summary;
	_Atomic uint32_t must_finish, has_finished;
	void (*on_finished)(void);
	void (*_Atomic call)(void);     /* writer_call() */
	bool is_running;
	struct trace *trace;            /* the thread's own */
} writer = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void publish(const struct trace *trace)
{
	pthread_mutex_lock(&writer.lock);
	memcpy(writer.summary.path, trace->last_path,
	       sizeof(writer.summary.path));
	writer.summary.kernels = trace->nr_kernels - trace->gone.kernels;
	writer.summary.kernels_gone = trace->gone.kernels;
	writer.summary.events = trace->nr_events;
	writer.summary.bytes = trace->last_bytes;
	writer.summary.is_recorder = trace->options.recorder_ns;
	writer.summary.dumps = trace->nr_dumped;
	pthread_mutex_unlock(&writer.lock);
}

/*
 * What we cost stands in the trace too.
 *
 * Its correlation is the largest there is, which no call has: HTA 0.5.0 keeps
 * that column in the smallest type that holds its values, writes row numbers
 * into it, and stops where these are larger (a short trace with pandas 3).
 */
static void tell_own_work(struct trace *trace, uint64_t start_ns)
{
	static const char name[] = "gputrace write-out";
	struct lane *lane;

	if (!trace->out.len && !trace->file->has_new)
		return;
	lane = track_own(&trace->tracks, ROLE_OWN);
	if (!lane)
		return;
	event_begin(trace, "overhead", name, sizeof(name) - 1, lane, start_ns,
		    clock_now_ns());
	json_member_u64(&trace->out, "correlation", UINT32_MAX);
	event_end(trace);
}

static void write_out(struct trace *trace)
{
	uint64_t start_ns = clock_now_ns();

	batch_write(trace, false);
	flames_close(trace, start_ns - trace->options.flush_ns);
	pauses_write(trace, false);
	tell_own_work(trace, start_ns);
	output_commit(trace, false);
	publish(trace);
}

/* When the file is to be brought up to date: a flush of CUPTI's buffers has
 * come in, or none comes and what else there is has waited long enough. */
struct due {
	uint32_t flushes;
	uint64_t hurried_ns;
	uint64_t written_ns;
	uint64_t busy_ns;       /* a window was open, or not settled */
};

/* Ranges wait for what was launched inside them, for two flushes: where they
 * are many these come sooner, so that none is told without it. */
static void hurry(const struct trace *trace, struct due *due)
{
	uint64_t now_ns = clock_now_ns();

	if (ranges_use(&trace->ranges) <= RANGES_MANY ||
	    now_ns < due->hurried_ns + HURRY_MS * NS_PER_MS)
		return;
	due->hurried_ns = now_ns;
	activity_hurry();
}

static bool is_crowded(const struct trace *trace, uint64_t waiting)
{
	uint32_t use = ranges_use(&trace->ranges);

	return waiting >= WAITING_MAX || activity_is_crowded() ||
		use > RANGES_FULL || (waiting && use > RANGES_MANY);
}

static bool is_due(struct due *due, uint32_t flushes, uint64_t flush_ns)
{
	uint64_t now_ns = clock_now_ns();

	if (flushes == due->flushes &&
	    now_ns - due->written_ns < flush_ns + flush_ns / 4)
		return false;
	due->flushes = flushes;
	due->written_ns = now_ns;
	return true;
}

/* What is written when nothing more can come of a window, or at all. */
static void write_rest(struct trace *trace, uint64_t start_ns, bool is_end)
{
	uint64_t end_ns = clock_now_ns();
	const struct window *last;

	windows_refresh(trace);
	last = trace->nr_windows ? &trace->windows[trace->nr_windows - 1] :
		NULL;
	if (last && last->close_ns < end_ns)
		end_ns = last->close_ns;
	drain_close_ranges(trace, end_ns);
	batch_write(trace, true);
	pauses_write(trace, is_end);
	tell_own_work(trace, start_ns);
}

/* Windows of which CUPTI has handed all over, and that are not yet complete in
 * their file: the number of the last; 0: none. */
static uint32_t settled_windows(const struct trace *trace, uint32_t epoch)
{
	uint32_t n = epoch / 2;

	return !window_is_open(epoch) && n > trace->nr_complete &&
		window_settled() >= n ? n : 0;
}

/*
 * Completes them.  What is read here is theirs, unless the next one opens in
 * this moment: then they share its file, and are complete with it.
 */
static bool complete_windows(struct trace *trace)
{
	uint64_t start_ns = clock_now_ns();
	uint32_t epoch = window_epoch();
	uint32_t n = settled_windows(trace, epoch);

	if (!n)
		return false;
	(void)batch_take(trace);
	/* Thrice: an END is carried out two sweeps after it was seen. */
	drain_rings(trace);
	drain_rings(trace);
	drain_rings(trace);
	if (window_epoch() != epoch)
		return false;
	write_rest(trace, start_ns, false);
	output_windows_done(trace, n, false);
	publish(trace);
	return true;
}

/* The buffers are taken before the rings are read: what was pushed before a
 * call is then known when the call is seen. */
static void look(struct trace *trace, struct due *due)
{
	uint32_t flushes = activity_flushes();
	uint64_t waiting = batch_take(trace);

	drain_rings(trace);
	if (complete_windows(trace)) {
		due->flushes = flushes;
		due->written_ns = clock_now_ns();
	} else if (is_due(due, flushes, trace->options.flush_ns)) {
		write_out(trace);
	} else if (is_crowded(trace, waiting)) {
		batch_write(trace, false);
	}
	hurry(trace, due);
}

/* Of a dump that was asked for, all that has come is written. */
static void serve_dump(struct trace *trace)
{
	struct writer_result result = { 0 };
	struct writer_target target;
	struct sink *given;

	/* Also what came since the look, and before the request. */
	if (requests_want_dump()) {
		(void)batch_take(trace);
		drain_rings(trace);
		write_out(trace);
	}
	if (trace->options.recorder_ns) {
		dump_work(trace);
	} else if (requests_take_dump(&target, &given)) {
		output_result(trace, &result);
		requests_dumped(&result);
	}
	publish(trace);
}

static void finish(struct trace *trace)
{
	uint64_t start_ns = clock_now_ns();

	(void)batch_take(trace);
	drain_rings(trace);
	drain_rings(trace);
	drain_rings(trace);
	write_rest(trace, start_ns, true);
	output_windows_done(trace, trace->windows_seen, true);
	publish(trace);
	requests_end();
}

/* Somebody waits for the next look. */
static bool is_awaited(const struct trace *trace, const struct due *due)
{
	return atomic_load(&writer.must_finish) || atomic_load(&writer.call) ||
		activity_flushes() != due->flushes ||
		settled_windows(trace, window_epoch()) || dump_is_due(trace);
}

static uint64_t poll_ms(const struct trace *trace, struct due *due)
{
	uint32_t epoch = window_epoch();
	uint64_t now_ns = clock_now_ns();

	if (window_is_open(epoch) || window_settled() < epoch / 2)
		due->busy_ns = now_ns;
	if (window_is_open(epoch))
		return POLL_MS;
	return now_ns - due->busy_ns > ASLEEP_AFTER_MS * NS_PER_MS +
		2 * trace->options.flush_ns ? POLL_ASLEEP_MS : POLL_CLOSED_MS;
}

/* Sleeps until the next look is due, or buffers have come; false when it is
 * time to finish. */
static bool wait_for_next(const struct trace *trace, struct due *due)
{
	uint32_t seen = activity_arrivals();

	if (!is_awaited(trace, due))
		activity_wait(seen, poll_ms(trace, due) * NS_PER_MS);
	return !atomic_load(&writer.must_finish);
}

static void make_call(void)
{
	void (*call)(void) = atomic_exchange(&writer.call, NULL);

	if (call)
		call();
}

static void *run(void *argument)
{
	struct trace *trace = argument;
	uint64_t now_ns = clock_now_ns();
	struct due due = { activity_flushes(), 0, now_ns, now_ns };

	log_be_carried();
	(void)own_thread_part_files();
	while (wait_for_next(trace, &due)) {
		make_call();
		look(trace, &due);
		if (dump_is_due(trace))
			serve_dump(trace);
	}
	dump_cancel(trace);
	finish(trace);
	/* Forgotten first: the child of a fork in this moment looks at it. */
	writer.trace = NULL;
	atomic_thread_fence(memory_order_seq_cst);
	output_fini(trace);
	/* Whoever starts another writer is then alone with the rings. */
	backlog_end(trace->backlog);
	if (writer.on_finished)
		writer.on_finished();
	wait_wake(&writer.has_finished);
	/* Not waited for: the process may be ending in a signal handler that
	 * interrupted malloc(), which then holds our lock. */
	trace_fini(trace);
	free(trace);
	return NULL;
}

int writer_start(const struct writer_options *options)
{
	struct trace *trace;
	int err;

	if (writer.is_running)
		return -EALREADY;
	trace = malloc(sizeof(*trace));
	if (!trace)
		return -ENOMEM;
	err = trace_init(trace, options);
	if (!err) {
		writer.trace = trace;
		atomic_store(&writer.must_finish, 0);
		atomic_store(&writer.has_finished, 0);
		memset(&writer.summary, 0, sizeof(writer.summary));
		requests_begin(!file_is_dev_null(options->out),
			       options->recorder_ns);
		err = backlog_start(trace->backlog);
	}
	if (!err) {
		err = own_thread_start("gputrace-writer", run, trace);
	}
	if (err) {
		writer.trace = NULL;
		requests_end();
		trace_fini(trace);
		free(trace);
		return err;
	}
	writer.is_running = true;
	return 0;
}

int writer_finish(uint64_t deadline_ns)
{
	uint64_t now_ns;

	if (!writer.is_running)
		return 0;
	atomic_store(&writer.must_finish, 1);
	activity_wake();
	while (!atomic_load(&writer.has_finished)) {
		now_ns = clock_now_ns();
		if (now_ns >= deadline_ns)
			return -ETIMEDOUT;
		wait_change(&writer.has_finished, 0, deadline_ns - now_ns);
	}
	writer.is_running = false;
	return 0;
}

void writer_call(void (*call)(void))
{
	atomic_store(&writer.call, call);
	activity_wake();
}

void writer_on_finished(void (*call)(void))
{
	writer.on_finished = call;
}

void writer_summary(struct writer_summary *summary)
{
	pthread_mutex_lock(&writer.lock);
	*summary = writer.summary;
	pthread_mutex_unlock(&writer.lock);
}

void writer_forget(void)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
	struct trace *trace = writer.trace;

	/* The lock may be held by a thread that is not here. */
	writer.lock = fresh;
	writer.is_running = false;
	if (trace) {
		file_forget(&trace->common);
		file_forget(&trace->own);
	}
	requests_forget();
	writer.trace = NULL;
	memset(&writer.summary, 0, sizeof(writer.summary));
}
