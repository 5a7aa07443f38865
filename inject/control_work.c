/* SPDX-License-Identifier: MIT */
#include "inject/control_work.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collector/clock.h"
#include "collector/log.h"
#include "collector/own_thread.h"
#include "collector/wait.h"
#include "inject/capture.h"
#include "inject/control_folder.h"
#include "inject/protocol.h"

/* A dump writes what memory holds (256 MiB at most by default), and waits for
 * a forced flush. */
#define DUMP_NS UINT64_C(20000000000)

/* A stop waits a second for work in flight, then its file is written. */
#define SETTLE_NS UINT64_C(5000000000)

/* An agreed moment further away than a day is a mistake in its unit. */
#define AT_MAX_NS UINT64_C(86400000000000)

static struct work *works;
static size_t nr_works;
static uint32_t last_order;
static _Atomic uint32_t wake, is_ending;
static bool can_dump;

__attribute__((format(printf, 3, 4)))
static void fail(struct work *work, const char *code, const char *fmt, ...)
{
	va_list args;

	work->code = code;
	va_start(args, fmt);
	vsnprintf(work->why, sizeof work->why, fmt, args);
	va_end(args);
}

static const char *code_of(int error)
{
	return error == -EBUSY ? PROTOCOL_BUSY : error == -ETIMEDOUT ?
		PROTOCOL_TIMEOUT : error == -EACCES ? PROTOCOL_REFUSED :
		PROTOCOL_FAILED;
}

/* Where the window or the dump goes; false: refused. */
static bool find_path(struct work *work, struct writer_target *target)
{
	const struct request *request = &work->request;

	memset(target, 0, sizeof *target);
	target->fd = -1;
	if (!request->path[0])
		return true;
	if (!control_folder_resolve(request->path, target->path,
				    sizeof target->path, work->why,
				    sizeof work->why))
		return true;
	work->code = PROTOCOL_REFUSED;
	return false;
}

static bool wait_until(const struct work *work)
{
	uint32_t seen;
	uint64_t now_ns;

	while (seen = atomic_load(&wake), !atomic_load(&work->is_cancelled) &&
	       !atomic_load(&is_ending)) {
		now_ns = clock_now_ns();
		if (now_ns >= work->at_ns)
			return true;
		wait_change(&wake, seen, work->at_ns - now_ns);
	}
	return false;
}

/* The window before may still be on its way into its file. */
static int open_window(struct work *work, const struct capture_request *request,
		       struct capture_status *status)
{
	uint64_t until_ns = clock_now_ns() + SETTLE_NS;
	int error;

	do {
		error = capture_start(request, work->why, sizeof work->why);
		capture_status(status);
		if ((error != -EBUSY && error != -EAGAIN) || status->is_open)
			return error;
		wait_change(&is_ending, 0, SETTLE_NS / 500);
	} while (clock_now_ns() < until_ns &&
		 !atomic_load(&work->is_cancelled) &&
		 !atomic_load(&is_ending));
	return error;
}

static void start(struct work *work)
{
	struct capture_request request = {
		.by = BY_CONTROL, .duration_ns = work->request.duration_ns,
		.sources = work->request.sources,
	};
	struct capture_status status;
	int error;

	if (!find_path(work, &request.target))
		return;
	if (work->target.opened)
		request.target = work->target;
	request.has_target = work->request.path[0] || work->target.opened;
	if (!wait_until(work)) {
		fail(work, PROTOCOL_FAILED, "the process is ending");
		return;
	}
	error = open_window(work, &request, &status);
	if (error) {
		work->code = code_of(error);
		return;
	}
	work->target.opened = NULL;     /* the writer's */
	work->window = status.windows;
	work->opened_ns = status.opened_ns;
}

static void stop(struct work *work)
{
	int window = capture_stop(BY_CONTROL);

	if (window > 0)
		work->window = (uint32_t)window;
	else
		fail(work, PROTOCOL_IDLE, "no window is open");
}

static void dump(struct work *work)
{
	struct writer_target target;
	int error;

	if (!find_path(work, &target))
		return;
	target.fd = work->fd;
	target.is_gz = work->request.is_gz;
	error = capture_dump(&target, clock_now_ns() + DUMP_NS, &work->result,
			     work->why, sizeof work->why);
	if (work->result.has_descriptor)
		work->fd = -1;
	if (error)
		work->code = code_of(error);
}

/* Only the window that its owner opened, not one of somebody else. */
static void abandon(const struct work *work)
{
	struct capture_status status;

	capture_status(&status);
	if (status.is_open && status.windows == work->window)
		(void)capture_stop(BY_CONTROL);
}

static void carry_out(struct work *work)
{
	work->code = NULL;
	work->why[0] = 0;
	memset(&work->result, 0, sizeof work->result);
	if (atomic_load(&is_ending) || atomic_load(&work->is_cancelled)) {
		fail(work, PROTOCOL_FAILED, "the process is ending");
		return;
	}
	switch (work->kind) {
	case WORK_START: start(work); break;
	case WORK_STOP: stop(work); break;
	case WORK_DUMP: dump(work); break;
	case WORK_ABANDON: abandon(work); break;
	}
}

/* The one that was queued first. */
static struct work *next_work(enum work_state queued)
{
	struct work *next = NULL;

	for (size_t i = 0; i < nr_works; i++)
		if (atomic_load(&works[i].state) == queued &&
		    (!next || (int32_t)(works[i].order - next->order) < 0))
			next = &works[i];
	return next;
}

static void run(enum work_state queued)
{
	struct work *work;
	uint32_t seen;

	while (seen = atomic_load(&wake), !atomic_load(&is_ending)) {
		work = next_work(queued);
		if (!work) {
			wait_change(&wake, seen, UINT64_MAX >> 1);
			continue;
		}
		carry_out(work);
		atomic_store(&work->state, WORK_DONE);
	}
}

static void *run_work(void *argument)
{
	(void)argument;
	run(WORK_QUEUED);
	return NULL;
}

static void *run_dumps(void *argument)
{
	(void)argument;
	log_be_carried();
	run(WORK_QUEUED_DUMP);
	return NULL;
}

int work_init(struct work *list, size_t nr)
{
	works = list;
	nr_works = nr;
	return own_thread_start("gputrace-work", run_work, NULL);
}

int work_start_dumps(void)
{
	int error = own_thread_start("gputrace-dump", run_dumps, NULL);

	can_dump = !error;
	return error;
}

int work_open_target(struct work *work)
{
	int error;

	work->target.fd = work->fd;
	work->target.is_gz = work->request.is_gz;
	error = writer_open_target(&work->target);
	work->code = NULL;
	if (error)
		fail(work, PROTOCOL_FAILED, "the file cannot be used: %s",
		     strerror(-error));
	else
		work->fd = -1;          /* goes with the target */
	return error;
}

void work_close(struct work *work)
{
	writer_close_target(&work->target);
	if (work->fd >= 0)
		close(work->fd);
	work->fd = -1;
}

bool work_set_moment(struct work *work)
{
	uint64_t at_ns = work->request.at_ns, now_ns;
	struct timespec now;

	work->at_ns = 0;
	if (!at_ns || clock_gettime(CLOCK_REALTIME, &now))
		return true;
	/* The system's clock may have been set since ours began. */
	now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	if (at_ns <= now_ns)
		return true;
	work->at_ns = clock_now_ns() + (at_ns - now_ns);
	return at_ns - now_ns <= AT_MAX_NS;
}

void work_queue(struct work *work)
{
	work->order = ++last_order;
	atomic_store(&work->is_cancelled, 0);
	if (work->kind == WORK_DUMP && !can_dump)
		fail(work, PROTOCOL_FAILED, "no thread for dumps");
	atomic_store(&work->state, work->kind != WORK_DUMP ? WORK_QUEUED :
		     can_dump ? WORK_QUEUED_DUMP : WORK_DONE);
	wait_wake(&wake);
}

bool work_has_owner(const struct work *work)
{
	return work->kind == WORK_START && !work->code &&
		work->request.has_fd && !work->request.duration_ns;
}

void work_cancel(struct work *work)
{
	atomic_store(&work->is_cancelled, 1);
	wait_wake(&wake);
}

void work_end(void)
{
	atomic_store(&is_ending, 1);
	wait_wake(&wake);
}
