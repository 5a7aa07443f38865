/* SPDX-License-Identifier: MIT */
#include "inject/capture.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "collector/clock.h"
#include "collector/cupti.h"
#include "collector/guard.h"
#include "collector/loss.h"
#include "collector/nvtx.h"
#include "collector/thread.h"
#include "collector/wait.h"
#include "collector/window.h"
#include "inject/settings.h"
#include "inject/sources.h"
#include "inject/timer.h"

/* A stop waits a second for work in flight (cupti.c), and a little for the
 * flush. */
#define SETTLE_WAIT_NS UINT64_C(1200000000)
#define SETTLE_LOOK_NS UINT64_C(2000000)

static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool is_ready;
static struct capture_options options;
/* Of the window that is open; with `door` held. */
static enum capture_by opened_by;
static uint64_t stop_ns;

static const char *const names_of_by[] = {
	[BY_SETTING] = "GPUTRACE_START",
	[BY_PROFILER_API] = "cudaProfilerStart",
	[BY_NVTX] = "an NVTX range", [BY_SCHEDULE] = "GPUTRACE_SCHEDULE",
	[BY_SIGNAL] = "GPUTRACE_SIGNAL", [BY_CONTROL] = "gputrace start",
};

void capture_init(const struct capture_options *given)
{
	options = *given;
	nvtx_mute(!(options.sources & SOURCE_NVTX));
	atomic_store(&is_ready, true);
}

void capture_forget(void)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	/* A thread that is not here may hold it. */
	door = fresh;
	atomic_store(&is_ready, false);
}

/* ---- Why not ---- */

__attribute__((format(printf, 4, 5)))
static int refuse(int error, char *why, size_t why_size, const char *format,
		  ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, why_size, format, arguments);
	va_end(arguments);
	return error;
}

static int refuse_busy(char *why, size_t why_size)
{
	struct writer_summary summary;
	bool has_file;

	if (why_size < 2)       /* not on the program's thread */
		return -EBUSY;
	writer_summary(&summary);
	has_file = summary.path[0];
	if (options.is_recorder)
		return refuse(-EBUSY, why, why_size, "the flight recorder is "
			      "running (GPUTRACE_RECORDER): gputrace dump "
			      "writes it, gputrace stop ends it");
	return refuse(-EBUSY, why, why_size, "already recording%s%s, started "
		      "by %s: gputrace stop ends that",
		      has_file ? " into " : "", summary.path,
		      names_of_by[opened_by]);
}

static int refuse_start(int error, char *why, size_t why_size)
{
	switch (error) {
	case -ESHUTDOWN:
		return refuse(error, why, why_size, "the program is ending");
	case -EPERM:
		return refuse(error, why, why_size, "GPUTRACE_OUT is full or "
			      "cannot be written (the program's stderr says "
			      "why): ask for a file of its own, as gputrace "
			      "capture does");
	default:
		return refuse(error, why, why_size, "CUPTI refuses (%s); the "
			      "program's stderr says why", strerror(-error));
	}
}

static int refuse_target(int error, char *why, size_t why_size)
{
	switch (error) {
	case -EBUSY:
		return refuse(-EAGAIN, why, why_size, "the window before is "
			      "not complete yet: try again in a second");
	case -ENOSYS:
		return refuse(error, why, why_size, "no file of its own where "
			      "GPUTRACE_OUT is /dev/null");
	default:
		return refuse(error, why, why_size, "no file of its own: %s",
			      strerror(-error));
	}
}

/* What can be said without the lock. */
static int check(const struct capture_request *request, char *why,
		 size_t why_size)
{
	if (!atomic_load(&is_ready))
		return refuse(-ENODEV, why, why_size, "the program does not "
			      "use CUDA (yet), or recording could not start");
	if ((request->sources & SOURCE_NVTX) && !(nvtx_is_attached() ||
	    options.sources & SOURCE_NVTX))
		return refuse(-EINVAL, why, why_size, "no NVTX ranges: "
			      "GPUTRACE_TRACE left them out when the program "
			      "started");
	return 0;
}

/* ---- Starting and stopping ---- */

static bool may_wait(enum capture_by by)
{
	return by == BY_CONTROL || by == BY_SIGNAL;
}

/* On our own threads: until the window before has all that is its, and its
 * file is complete. */
static void wait_settled(void)
{
	static _Atomic uint32_t nothing;
	uint64_t until_ns = clock_now_ns() + SETTLE_WAIT_NS;
	struct writer_result result;
	uint32_t epoch;

	while (epoch = window_epoch(), !window_is_open(epoch) &&
	       window_settled() < epoch / 2 && clock_now_ns() < until_ns)
		wait_change(&nothing, 0, SETTLE_LOOK_NS);
	if (!window_is_open(epoch) && epoch)
		(void)writer_wait_window(epoch / 2, until_ns, &result);
}

static uint64_t duration_of(const struct capture_request *request)
{
	if (request->duration_ns || request->by == BY_CONTROL)
		return request->duration_ns;
	return options.duration_ns;
}

/* With `door` held. */
static int open_window(const struct capture_request *request)
{
	uint64_t sources = request->sources ? request->sources :
		options.sources, duration_ns = duration_of(request);
	struct cupti_choice choice = {
		.cuda = sources & SOURCE_CUDA,
		.memory = sources & SOURCE_MEMORY, .uvm = sources & SOURCE_UVM,
		.has_own_file = request->has_target,
	};
	int error;

	/* One that the watchdog ended. */
	sources_close();
	/* Between windows, so that no record is cut in two. */
	nvtx_mute(!(sources & SOURCE_NVTX));
	/* Before any thread is in the window. */
	if (sources & SOURCE_TORCH)
		thread_widen();
	error = cupti_start(&choice);
	if (error)
		return error;
	sources_open(sources);
	opened_by = request->by;
	stop_ns = duration_ns ? window_opened_ns(window_epoch()) + duration_ns
		: 0;
	timer_set(TIMER_STOP, stop_ns);
	return 0;
}

/* With `door` held. */
static int pass_door(const struct capture_request *request, char *why,
		     size_t why_size)
{
	int error = 0;

	if (window_is_open(window_epoch()))
		return refuse_busy(why, why_size);
	if (request->has_target)
		error = writer_set_target(&request->target);
	if (error)
		return refuse_target(error, why, why_size);
	error = open_window(request);
	if (!error)
		return 0;
	if (request->has_target)
		(void)writer_set_target(NULL);
	return refuse_start(error, why, why_size);
}

int capture_start(const struct capture_request *request, char *why,
		  size_t why_size)
{
	int error = check(request, why, why_size);
	bool is_open = window_is_open(window_epoch());
	sigset_t before;

	if (error)
		return error;
	if (!is_open && may_wait(request->by))
		wait_settled();
	if (!is_open && duration_of(request) && timer_need())
		return refuse(-EAGAIN, why, why_size, "no thread could be "
			      "started that ends it");
	guard_take(&door, &before);
	error = pass_door(request, why, why_size);
	guard_give(&door, &before);
	return error;
}

int capture_warm_up(void)
{
	sigset_t before;
	int error;

	if (!atomic_load(&is_ready))
		return -ENODEV;
	guard_take(&door, &before);
	error = cupti_warm_up();
	guard_give(&door, &before);
	return error;
}

static bool may_stop(enum capture_by by)
{
	bool is_mark = by == BY_PROFILER_API || by == BY_NVTX ||
		by == BY_SCHEDULE;

	return !is_mark || by == opened_by;
}

/* With `door` held.  What sources still have to tell is told inside it. */
static void end_window(void)
{
	sources_close();
	cupti_stop();
}

int capture_stop(enum capture_by by)
{
	int number = -ENOENT;
	sigset_t before;
	uint32_t epoch;

	if (!atomic_load(&is_ready))
		return -ENOENT;
	guard_take(&door, &before);
	epoch = window_epoch();
	if (!window_is_open(epoch)) {
		cupti_stop();           /* a warm-up may be on */
	} else if (may_stop(by)) {
		end_window();
		timer_set(TIMER_STOP, 0);
		number = (int)(epoch / 2 + 1);
	}
	guard_give(&door, &before);
	return number;
}

void capture_expire(void)
{
	sigset_t before;

	guard_take(&door, &before);
	/* Not one that has been opened since. */
	if (window_is_open(window_epoch()) && stop_ns &&
	    clock_now_ns() >= stop_ns)
		end_window();
	guard_give(&door, &before);
}

/* ---- What comes out ---- */

int capture_wait(uint32_t window, uint64_t deadline_ns,
		 struct writer_result *result)
{
	return writer_wait_window(window, deadline_ns, result);
}

static const char *dump_error(int error)
{
	switch (error) {
	case -ETIMEDOUT: return "it was not written in time";
	case -EBUSY: return "another one is being written";
	case -ENODATA: return "nothing was recorded yet";
	case -ENOENT: case -ESRCH: case -ECANCELED:
		return "the program is ending";
	default: return strerror(-error);
	}
}

int capture_dump(const struct writer_target *target, uint64_t deadline_ns,
		 struct writer_result *result, char *why, size_t why_size)
{
	uint64_t now_ns = clock_now_ns();
	int error;

	if (!atomic_load(&is_ready))
		return refuse(-ENODEV, why, why_size, "no dump: nothing is "
			      "recorded in this process");
	/* With what time there is: a driver that hangs may hold the flush up,
	 * and what we have already is worth writing then. */
	if (now_ns < deadline_ns)
		(void)cupti_flush_now(now_ns + (deadline_ns - now_ns) / 2);
	error = writer_dump(target, deadline_ns, result);
	return error ? refuse(error, why, why_size, "no dump: %s",
			      dump_error(error)) : 0;
}

void capture_status(struct capture_status *status)
{
	struct writer_summary summary;
	uint32_t epoch = window_epoch();

	memset(status, 0, sizeof *status);
	writer_summary(&summary);
	status->is_open = window_is_open(epoch);
	status->is_recorder = status->is_open && options.is_recorder;
	status->windows = (epoch + 1) / 2;
	status->opened_ns = window_opened_ns(epoch);
	status->start = options.start ? options.start : "";
	memcpy(status->path, summary.path, sizeof status->path);
	status->kernels = summary.kernels;
	for (int i = 0; i < LOSS_NR; i++)
		status->lost += loss_get(i);
}
