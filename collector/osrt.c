/* SPDX-License-Identifier: MIT */
#include "collector/osrt.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "collector/clock.h"
#include "collector/log.h"
#include "collector/osrt_next.h"
#include "collector/osrt_record.h"
#include "collector/source.h"
#include "collector/thread.h"

/* Armed beside threads in calls: one that sees it late records nothing. */
static _Atomic uint64_t min_ns = UINT64_MAX;

/* The C library is behind us, so that the program's calls come to us. */
static atomic_bool is_interposed;

/* ---- Before anything is known ---- */

#define X(name, nr, ...) \
	static long first_##name(OSRT_P##nr) \
	{ \
		osrt_resolve(); \
		return OSRT_JUMP(name, nr, next); \
	} \
	static long first_direct_##name(OSRT_P##nr) \
	{ \
		osrt_resolve(); \
		return OSRT_JUMP(name, nr, direct); \
	}
OSRT_CALLS(X)
#undef X

struct osrt_slot osrt_slots[OSRT_NR] = {
#define X(name, ...) [OSRT_##name] = { (void *)first_##name, \
	(void *)first_##name, (void *)first_direct_##name },
	OSRT_CALLS(X)
#undef X
};

static const struct {
	void *next, *direct;
} firsts[OSRT_NR] = {
#define X(name, ...) [OSRT_##name] = { (void *)first_##name, \
	(void *)first_direct_##name },
	OSRT_CALLS(X)
#undef X
};

static const struct next_symbol symbols[OSRT_NR] = {
#define X(call, nr, way, about, version, other) \
	[OSRT_##call] = { .name = #call, \
		.versions = { OSRT_##version, OSRT_##other } },
	OSRT_CALLS(X)
#undef X
};

/* A C library that has no such call has nobody who calls it. */
static long missing(void)
{
	errno = ENOSYS;
	return -1;
}

/* Only what still is as it was at first: a thread may be just as far. */
static void *put(void *_Atomic *place, void *first, void *found)
{
	atomic_compare_exchange_strong(place, &first, found);
	return atomic_load(place);
}

static void fill(enum osrt_id id, const struct next_symbol *found)
{
	struct osrt_slot *slot = &osrt_slots[id];
	void *direct = found->direct ? found->direct : (void *)missing;
	void *next = found->next ? found->next : direct;

	put(&slot->direct, firsts[id].direct, direct);
	next = put(&slot->next, firsts[id].next, next);
	put(&slot->entry, firsts[id].next, next);
}

void osrt_resolve(void)
{
	struct next_symbol found[OSRT_NR];

	memcpy(found, symbols, sizeof found);
	osrt_next_find(found, OSRT_NR);
	atomic_store(&is_interposed, found[OSRT_read].next != NULL);
	for (int i = 0; i < OSRT_NR; i++)
		fill((enum osrt_id)i, &found[i]);
}

/* ---- While a window is open ---- */

/* True: it is done, with *result; else the lock is another's, and the call
 * itself has the last word (EDEADLK of an error-checking mutex). */
static inline bool try_mutex(long lock, long *result)
{
	*result = pthread_mutex_trylock((pthread_mutex_t *)lock);
	return *result != EBUSY;
}

static inline bool try_rdlock(long lock, long *result)
{
	*result = pthread_rwlock_tryrdlock((pthread_rwlock_t *)lock);
	return *result != EBUSY;
}

static inline bool try_wrlock(long lock, long *result)
{
	*result = pthread_rwlock_trywrlock((pthread_rwlock_t *)lock);
	return *result != EBUSY;
}

/* sem_wait() is a place where a thread is cancelled, also when it need not
 * wait. */
static inline bool try_sem(long semaphore, long *result)
{
	int saved = errno;

	pthread_testcancel();
	*result = sem_trywait((sem_t *)semaphore);
	if (*result)
		errno = saved;
	return !*result;
}

/* One that is not has an error of its own, before or after the try. */
static bool is_deadline(long time)
{
	const struct timespec *t = (const struct timespec *)time;

	return t && t->tv_nsec >= 0 && t->tv_nsec < 1000000000;
}

static bool is_clock(long clock)
{
	return (int)clock == CLOCK_REALTIME || (int)clock == CLOCK_MONOTONIC;
}

static inline void over(enum osrt_id id, uint64_t start_ns, long first,
			long second, long result)
{
	uint64_t end_ns = clock_now_ns();

	if (__builtin_expect(end_ns - start_ns >= atomic_load_explicit(
				     &min_ns, memory_order_relaxed), 0))
		osrt_record(id, start_ns, end_ns, (const long[]){
			    first, second, result });
}

/* The first two arguments, where there are any. */
#define FIRST_0 0, 0
#define FIRST_1 a, 0
#define FIRST_2 a, b
#define FIRST_3 a, b
#define FIRST_4 a, b
#define FIRST_5 a, b
#define FIRST_6 a, b
#define FIRST_7 a, b

#define RECORD_TIMED(name, nr, about) \
	static long record_##name(OSRT_P##nr) \
	{ \
		uint64_t start_ns = clock_now_ns(); \
		long result = OSRT_JUMP(name, nr, next); \
\
		over(OSRT_##name, start_ns, FIRST_##nr, result); \
		return result; \
	}
#define RECORD_TRIED(name, nr, try, ready) \
	static long record_##name(OSRT_P##nr) \
	{ \
		uint64_t start_ns; \
		long result; \
\
		if ((ready) && try_##try(a, &result)) \
			return result; \
		start_ns = clock_now_ns(); \
		result = OSRT_JUMP(name, nr, next); \
		over(OSRT_##name, start_ns, FIRST_##nr, result); \
		return result; \
	}
#define RECORD_LOCK(name, nr, try) RECORD_TRIED(name, nr, try, true)
#define RECORD_LOCK_UNTIL(name, nr, try) \
	RECORD_TRIED(name, nr, try, is_deadline(b))
#define RECORD_LOCK_CLOCK(name, nr, try) \
	RECORD_TRIED(name, nr, try, is_clock(b) && is_deadline(c))

#define X(name, nr, way, about, ...) RECORD_##way(name, nr, about)
OSRT_CALLS(X)
#undef X

static void *const wrappers[OSRT_NR] = {
#define X(name, ...) [OSRT_##name] = (void *)record_##name,
	OSRT_CALLS(X)
#undef X
};

/* ---- The source ---- */

static int arm(const struct source_options *options)
{
	osrt_resolve();
	if (!atomic_load(&is_interposed)) {
		log_line(LOG_WARN, "no osrt: the library came when the "
			 "program's calls were bound to the C library's; it "
			 "must be there from the start on (LD_PRELOAD, "
			 "gputrace record)");
		return -ENOTSUP;
	}
	atomic_store(&min_ns, options->osrt_min_ns);
	osrt_record_prepare();
	return 0;
}

static void open_window(void)
{
	osrt_record_open(true);
	for (int i = 0; i < OSRT_NR; i++)
		atomic_store_explicit(&osrt_slots[i].entry, wrappers[i],
				      memory_order_release);
}

static void close_window(void)
{
	for (int i = 0; i < OSRT_NR; i++)
		atomic_store_explicit(&osrt_slots[i].entry,
			atomic_load(&osrt_slots[i].next),
			memory_order_relaxed);
	osrt_record_open(false);
}

const struct source osrt_source = {
	.name = "osrt", .arm = arm, .open = open_window,
	.close = close_window, .forget = close_window,
};
