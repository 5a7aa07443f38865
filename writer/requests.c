/* SPDX-License-Identifier: MIT */
#include "writer/requests.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "collector/activity_buffer.h"
#include "collector/clock.h"
#include "collector/wait.h"
#include "collector/window.h"

/* Windows that are remembered for those who ask late. */
enum { RESULTS_KEPT = 64 };

/* And dumps, for those who look when the next one is asked for already. */
enum { DUMPS_KEPT = 4 };

enum dump_state { DUMP_NONE, DUMP_ASKED, DUMP_TAKEN, DUMP_DONE };

static struct {
	pthread_mutex_t lock;           /* of all but `news` */
	_Atomic uint32_t news;          /* something was done */
	bool is_running, has_names, has_recorder;
	uint32_t nr_done;               /* windows that are complete */
	struct writer_result results[RESULTS_KEPT];
	/* Of the next window; n 0: none. */
	struct writer_target target;
	struct sink *given, *plain;     /* its descriptor's; gz or not */
	uint32_t target_n;
	bool is_lent;                   /* opened by its owner */
	/* One dump at a time. */
	_Atomic uint32_t dump;          /* enum dump_state */
	uint32_t dump_turn;             /* whose it is; the newest */
	struct writer_target dump_target;
	struct sink *dump_given, *dump_plain;
	struct writer_result dumped[DUMPS_KEPT];
} requests = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* One that is taken back, or replaced: the descriptor stays its owner's. */
static void drop_target(void)
{
	if (requests.given && !requests.is_lent) {
		sink_fd_disown(requests.plain);
		sink_close(requests.given);
	}
	requests.given = NULL;
	requests.target_n = 0;
}

void requests_begin(bool has_names, bool has_recorder)
{
	pthread_mutex_lock(&requests.lock);
	requests.is_running = true;
	requests.has_names = has_names;
	requests.has_recorder = has_recorder;
	requests.dump = DUMP_NONE;
	requests.nr_done = window_settled();
	requests.target_n = 0;
	requests.given = NULL;
	pthread_mutex_unlock(&requests.lock);
}

void requests_end(void)
{
	struct sink *given, *dump_given = NULL;

	pthread_mutex_lock(&requests.lock);
	requests.is_running = false;
	given = requests.given;
	requests.given = NULL;
	requests.target_n = 0;
	if (requests.dump == DUMP_ASKED) {
		dump_given = requests.dump_given;
		requests.dump = DUMP_NONE;
	}
	pthread_mutex_unlock(&requests.lock);
	sink_close(given);
	sink_close(dump_given);
	wait_wake(&requests.news);
}

void requests_forget(void)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	/* The lock may be held by a thread that is not here. */
	requests.lock = fresh;
	requests.is_running = false;
	if (requests.given)
		requests.given->ops->forget(requests.given);
	if (requests.dump == DUMP_ASKED && requests.dump_given)
		requests.dump_given->ops->forget(requests.dump_given);
	requests.given = NULL;
	requests.target_n = 0;
	requests.dump = DUMP_NONE;
}

/* ---- Targets ---- */

static int check_target(const struct writer_target *target)
{
	if (target->fd >= 0)
		return 0;
	if (!target->path[0])
		return requests.has_names ? 0 : -ENOSYS;
	if (!memchr(target->path, 0, sizeof(target->path)))
		return -ENAMETOOLONG;
	return target->path[0] == '/' ? 0 : -EINVAL;
}

/* 0, or why no window may have a file of its own now. */
static int refuse_target(const struct writer_target *target, uint32_t epoch)
{
	if (!requests.is_running)
		return -ESRCH;
	if (window_is_open(epoch) || requests.nr_done < epoch / 2)
		return -EBUSY;
	return check_target(target);
}

/* The sinks of a descriptor.  0 or -errno: then it is still the caller's. */
static int open_given(const struct writer_target *target, struct sink **plain,
		      struct sink **given)
{
	int error;

	*plain = target->plain;
	*given = target->opened;
	if (target->fd < 0 || target->opened)
		return 0;
	*plain = *given = sink_fd_create(target->fd, &error);
	if (!*plain || !target->is_gz)
		return error;
	*given = sink_gz_create(*plain);
	if (*given)
		return 0;
	sink_fd_disown(*plain);
	sink_close(*plain);
	return -ENOMEM;
}

static int take_up(const struct writer_target *target, uint32_t epoch)
{
	int error;

	drop_target();
	error = open_given(target, &requests.plain, &requests.given);
	if (error)
		return error;
	requests.target = *target;
	requests.target_n = epoch / 2 + 1;
	requests.is_lent = target->opened;
	return 0;
}

int writer_open_target(struct writer_target *target)
{
	target->opened = target->plain = NULL;
	return open_given(target, &target->plain, &target->opened);
}

void writer_close_target(struct writer_target *target)
{
	sink_close(target->opened);
	target->opened = target->plain = NULL;
}

int writer_set_target(const struct writer_target *target)
{
	uint32_t epoch;
	int error = 0;

	pthread_mutex_lock(&requests.lock);
	epoch = window_epoch();
	if (!target)
		drop_target();
	else
		error = refuse_target(target, epoch);
	if (target && !error)
		error = take_up(target, epoch);
	pthread_mutex_unlock(&requests.lock);
	return error;
}

bool requests_take_target(uint32_t n, struct writer_target *target,
			  struct sink **given)
{
	bool is_there;

	pthread_mutex_lock(&requests.lock);
	is_there = requests.target_n && requests.target_n <= n;
	if (is_there) {
		*target = requests.target;
		*given = requests.given;
		requests.given = NULL;
		requests.target_n = 0;
	}
	pthread_mutex_unlock(&requests.lock);
	return is_there;
}

/* ---- Results ---- */

void requests_done(uint32_t first, uint32_t last,
		   const struct writer_result *result)
{
	pthread_mutex_lock(&requests.lock);
	if (last - first >= RESULTS_KEPT)
		first = last - RESULTS_KEPT + 1;
	for (; first <= last; first++)
		requests.results[first % RESULTS_KEPT] = *result;
	requests.nr_done = last;
	pthread_mutex_unlock(&requests.lock);
	wait_wake(&requests.news);
}

/* 0, -EAGAIN: not yet, or -ENOENT: no more, or never. */
static int find_result(uint32_t n, struct writer_result *result)
{
	int error = 0;

	pthread_mutex_lock(&requests.lock);
	if (!n || (n <= requests.nr_done &&
		   requests.nr_done - n >= RESULTS_KEPT))
		error = -ENOENT;
	else if (n > requests.nr_done)
		error = requests.is_running ? -EAGAIN : -ENOENT;
	else
		*result = requests.results[n % RESULTS_KEPT];
	pthread_mutex_unlock(&requests.lock);
	return error;
}

int writer_wait_window(uint32_t n, uint64_t deadline_ns,
		       struct writer_result *result)
{
	uint64_t now_ns;
	uint32_t seen;
	int error;

	for (;;) {
		seen = atomic_load(&requests.news);
		error = find_result(n, result);
		if (error != -EAGAIN)
			return error;
		now_ns = clock_now_ns();
		if (now_ns >= deadline_ns)
			return -ETIMEDOUT;
		wait_change(&requests.news, seen, deadline_ns - now_ns);
	}
}

/* ---- Dumps ---- */

bool requests_want_dump(void)
{
	return atomic_load(&requests.dump) == DUMP_ASKED;
}

bool requests_take_dump(struct writer_target *target, struct sink **given)
{
	bool is_there;

	pthread_mutex_lock(&requests.lock);
	is_there = requests.dump == DUMP_ASKED;
	if (is_there) {
		*target = requests.dump_target;
		*given = requests.dump_given;
		requests.dump = DUMP_TAKEN;
	}
	pthread_mutex_unlock(&requests.lock);
	return is_there;
}

void requests_dumped(const struct writer_result *result)
{
	pthread_mutex_lock(&requests.lock);
	requests.dumped[requests.dump_turn % DUMPS_KEPT] = *result;
	requests.dump = DUMP_DONE;
	pthread_mutex_unlock(&requests.lock);
	wait_wake(&requests.news);
}

static int ask_for_dump(const struct writer_target *target, uint32_t *turn)
{
	static const struct writer_target none = { .fd = -1 };
	int error = 0;

	target = target && requests.has_recorder ? target : &none;
	if (!requests.is_running)
		return -ESRCH;
	if (requests.dump == DUMP_ASKED || requests.dump == DUMP_TAKEN)
		return -EBUSY;
	if (requests.has_recorder)
		error = check_target(target);
	if (!error)
		error = open_given(target, &requests.dump_plain,
				   &requests.dump_given);
	if (error)
		return error;
	requests.dump_target = *target;
	requests.dump = DUMP_ASKED;
	*turn = ++requests.dump_turn;
	return 0;
}

/* 0, -EAGAIN: not yet, or -ENOENT: it will not come. */
static int find_dump(uint32_t turn, struct writer_result *result)
{
	uint32_t since;
	int error = -ENOENT;

	pthread_mutex_lock(&requests.lock);
	since = requests.dump_turn - turn;
	if (since < DUMPS_KEPT && (since || requests.dump == DUMP_DONE)) {
		*result = requests.dumped[turn % DUMPS_KEPT];
		error = 0;
	} else if (!since && requests.is_running) {
		error = -EAGAIN;
	}
	pthread_mutex_unlock(&requests.lock);
	return error;
}

int writer_dump(const struct writer_target *target, uint64_t deadline_ns,
		struct writer_result *result)
{
	uint32_t turn = 0, seen;
	bool has_descriptor;
	uint64_t now_ns;
	int error;

	pthread_mutex_lock(&requests.lock);
	error = ask_for_dump(target, &turn);
	has_descriptor = !error && requests.dump_given;
	pthread_mutex_unlock(&requests.lock);
	result->has_descriptor = has_descriptor;
	if (error)
		return error;
	activity_wake();
	for (;;) {
		seen = atomic_load(&requests.news);
		error = find_dump(turn, result);
		result->has_descriptor = has_descriptor;
		if (error != -EAGAIN)
			return error ? error : result->error;
		now_ns = clock_now_ns();
		if (now_ns >= deadline_ns)
			return -ETIMEDOUT;
		wait_change(&requests.news, seen, deadline_ns - now_ns);
	}
}
