/* SPDX-License-Identifier: MIT */
#include "collector/own_thread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collector/clock.h"
#include "collector/filter.h"

/* 2 MiB, of which pages are touched as needed: the demangler recurses. */
#define STACK_SIZE (2u << 20)

/* Linux 5.9; the same number on all machines. */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define CLOSE_UNSHARED (1u << 1)        /* CLOSE_RANGE_UNSHARE */

#define OWN_FILES "/proc/thread-self/fd"
enum { COMMON_LIMIT = 1024 };           /* of RLIMIT_NOFILE */

static atomic_bool files_are_apart;

/* Of the threads that are alive; one is free when it has no `run`. */
enum { THREADS_MAX = 64 };              /* bits of `running` */
static struct own {
	void *(*_Atomic run)(void *);
	void *argument;
	_Atomic uint32_t tid;           /* 0: has not begun; stays behind it */
	_Atomic uintptr_t thread;       /* pthread_self(), if in `running` */
	_Atomic uint64_t ended_ns;
} threads[THREADS_MAX];

/* Those that run, a bit each: a few, and asked for on the program's threads. */
static _Atomic uint64_t running;

/* One that has ended is still in /proc for a moment. */
#define AFTERLIFE_NS UINT64_C(1000000000)

/* The one that has been free for longest; NULL: all are in use. */
static struct own *oldest(void)
{
	struct own *best = NULL, *own;

	for (own = threads; own < threads + THREADS_MAX; own++)
		if (!atomic_load(&own->run) &&
		    (!best || atomic_load(&own->ended_ns) <
		     atomic_load(&best->ended_ns)))
			best = own;
	return best;
}

static struct own *take_slot(void *(*run)(void *), void *argument)
{
	struct own *own;
	void *(*none)(void *);

	do {
		own = oldest();
		none = NULL;
	} while (own && !atomic_compare_exchange_strong(&own->run, &none,
							run));
	if (!own)
		return NULL;
	atomic_store(&own->tid, 0);
	own->argument = argument;
	return own;
}

static void give_slot(struct own *own)
{
	atomic_store(&own->ended_ns, clock_now_ns());
	atomic_store(&own->run, NULL);
}

static void *run_known(void *slot)
{
	struct own *own = slot;
	uint64_t bit = UINT64_C(1) << (own - threads);
	void *result;

	atomic_store(&own->tid, (uint32_t)syscall(SYS_gettid));
	atomic_store(&own->thread, (uintptr_t)pthread_self());
	atomic_fetch_or(&running, bit);
	result = atomic_load(&own->run)(own->argument);
	atomic_fetch_and(&running, ~bit);
	give_slot(own);
	return result;
}

bool own_thread_is_self(void)
{
	uintptr_t self = (uintptr_t)pthread_self();
	uint64_t left = atomic_load_explicit(&running, memory_order_acquire);

	for (; left; left &= left - 1)
		if (atomic_load_explicit(
			&threads[__builtin_ctzll(left)].thread,
			memory_order_relaxed) == self)
			return true;
	return false;
}

bool own_thread_is(uint32_t tid)
{
	const struct own *own;

	for (own = threads; own < threads + THREADS_MAX; own++)
		if (tid && atomic_load_explicit(&own->tid,
						memory_order_relaxed) == tid &&
		    (atomic_load(&own->run) || atomic_load(&own->ended_ns) +
		     AFTERLIFE_NS > clock_now_ns()))
			return true;
	return false;
}

bool own_thread_is_starting(void)
{
	for (int i = 0; i < THREADS_MAX; i++)
		if (atomic_load(&threads[i].run) &&
		    !atomic_load(&threads[i].tid))
			return true;
	return false;
}

static _Atomic uint32_t caller_tid;

void own_thread_calls_driver(uint32_t tid)
{
	atomic_store(&caller_tid, tid);
}

bool own_thread_is_caller(uint32_t tid)
{
	uint32_t ours = atomic_load_explicit(&caller_tid,
					     memory_order_relaxed);

	return tid == ours && ours;
}

void own_thread_forget_all(void)
{
	atomic_store(&caller_tid, 0);
	atomic_store(&running, 0);
	for (int i = 0; i < THREADS_MAX; i++) {
		atomic_store(&threads[i].tid, 0);
		atomic_store(&threads[i].run, NULL);
	}
}

int own_thread_start(const char *name, void *(*run)(void *), void *argument)
{
	struct own *own = take_slot(run, argument);
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;
	int error;

	if (!own)
		return -EAGAIN;
	sigfillset(&all);
	error = pthread_attr_init(&attributes);
	if (error) {
		give_slot(own);
		return -error;
	}
	pthread_attr_setstacksize(&attributes, STACK_SIZE);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	error = pthread_create(&thread, &attributes, run_known, own);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (!error) {
		/* Detached only now: one that has ended has no name. */
		pthread_setname_np(thread, name);
		pthread_detach(thread);
	} else {
		give_slot(own);
	}
	return -error;
}

/* Closes all that was copied, by the list of the calling thread's table; one
 * that is full has no room for the list. */
static void close_all(void)
{
	DIR *folder = opendir(OWN_FILES);
	struct dirent *entry;
	int fd;

	for (fd = 0; !folder && fd < COMMON_LIMIT; fd++)
		close(fd);
	if (!folder)
		folder = opendir(OWN_FILES);
	while (folder && (entry = readdir(folder))) {
		fd = atoi(entry->d_name);
		if (entry->d_name[0] != '.' && fd != dirfd(folder))
			close(fd);
	}
	if (folder)
		closedir(folder);
}

/* Before Linux 5.9, or where a filter knows no close_range(): the copies are
 * there for a moment. */
static int part_by_hand(void)
{
	if (access(OWN_FILES, X_OK) || unshare(CLONE_FILES))
		return -errno;
	close_all();
	return 0;
}

int own_thread_part_files(void)
{
	int err = 0, fd;

	if (filter_is_there())
		return -EPERM;

#ifdef OWN_THREAD_SHARES_FILES
	return -ENOSYS;
#endif
	if (syscall(SYS_close_range, 0u, ~0u, CLOSE_UNSHARED))
		err = part_by_hand();
	if (err)
		return err;
	atomic_store(&files_are_apart, true);
	/* Whatever speaks on stderr here must not speak into the trace. */
	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd < STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
	return 0;
}

bool own_thread_files_are_apart(void)
{
	return atomic_load(&files_are_apart);
}
