/* SPDX-License-Identifier: MIT */
/*
 * blocking: a program with a GPU whose threads wait, each for a known reason.
 *
 *	blocking MODE
 *
 *   waits    one thread waits in one call after another: what its own clock
 *            says of each, as {"ns": {CALL: ns}}, and its thread's number
 *   free     locks that nobody else wants, and reads that never wait
 *   ioctl FILE   a thousand of them on that file
 *   flood    one thread that reads all the time, in a range a thousand reads
 */
#include <errno.h>
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/host/gpu.h"
#include "test/host/wait.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static int pipes[2], sockets[2], event;
static atomic_int turn;

static struct timespec deadline_ms(clockid_t clock, long ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_nsec += ms * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

/* ---- What another thread does meanwhile ---- */

enum { HOLD_MS = 15, SERVE_MS = 12 };
static atomic_int waiter;               /* its thread's number */
static atomic_bool is_through;          /* it has waited */

/* Until the waiter sleeps, however long the machine lets it wait for that:
 * "12 (name) S ...".  None of the calls that are under test. */
static void wait_until_asleep(void)
{
	char path[64], text[128], *end = NULL;
	ssize_t n;
	long fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", waiter);
	while (waiter && !is_through && !(end && end[2] == 'S')) {
		fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
		n = syscall(SYS_read, fd, text, sizeof(text) - 1);
		syscall(SYS_close, fd);
		text[n > 0 ? n : 0] = 0;
		end = strrchr(text, ')');
	}
}

static void *hold_too_long(void *argument)
{
	(void)argument;
	pthread_mutex_lock(&lock);
	turn = 1;
	while (!is_through)
		sleep_ms(1);
	pthread_mutex_unlock(&lock);
	turn = 2;
	return NULL;
}

static void *hold_mutex(void *argument)
{
	(void)argument;
	pthread_mutex_lock(&lock);
	turn = 1;
	wait_until_asleep();
	sleep_ms(HOLD_MS);
	pthread_mutex_unlock(&lock);
	turn = 2;
	return NULL;
}

static void *hold_rwlock(void *argument)
{
	(void)argument;
	pthread_rwlock_wrlock(&rwlock);
	turn = 1;
	wait_until_asleep();
	sleep_ms(HOLD_MS);
	pthread_rwlock_unlock(&rwlock);
	turn = 2;
	return NULL;
}

/* The other thread has the lock. */
static void let_hold(void *(*hold)(void *))
{
	turn = 0;
	is_through = false;
	start(hold, NULL);
	while (!turn)
		;
}

static void let_go(void)
{
	while (turn != 2)
		;
}

static void *serve(void *what)
{
	char data[65536];
	uint64_t one = 1;

	wait_until_asleep();
	sleep_ms(SERVE_MS);
	switch ((intptr_t)what) {
	case 'c':
		pthread_mutex_lock(&lock);
		turn = 1;
		pthread_cond_signal(&changed);
		pthread_mutex_unlock(&lock);
		break;
	case 's':
		sem_post(&semaphore);
		break;
	case 'b':
		pthread_barrier_wait(&barrier);
		break;
	case 'p':
		syscall(SYS_write, pipes[1], "x", 1);
		break;
	case 'r':
		if (read(pipes[0], data, sizeof(data)) < 0)
			abort();
		break;
	case 'S':
		syscall(SYS_sendto, sockets[1], "x", 1, 0, NULL, 0);
		break;
	case 'e':
		syscall(SYS_write, event, &one, sizeof(one));
		break;
	}
	return NULL;
}

static void later(char what)
{
	is_through = false;
	start(serve, (void *)(intptr_t)what);
}

/* ---- waits ---- */

/* What the clock says on both sides of the call. */
#define TIME(name, call) do { \
	uint64_t from_ = now_ns(); \
	bool ok_ = (call); \
	is_through = true; \
	TALLY("ns", name, (long)(now_ns() - from_)); \
	TALLY("wrong", name, !ok_); \
} while (0)

static void wait_for_locks(void)
{
	struct timespec t;

	let_hold(hold_mutex);
	TIME("pthread_mutex_lock", !pthread_mutex_lock(&lock));
	pthread_mutex_unlock(&lock);
	let_go();
	let_hold(hold_too_long);
	t = deadline_ms(CLOCK_REALTIME, 10);
	TIME("pthread_mutex_timedlock",
	     pthread_mutex_timedlock(&lock, &t) == ETIMEDOUT);
	let_go();
	let_hold(hold_rwlock);
	TIME("pthread_rwlock_rdlock", !pthread_rwlock_rdlock(&rwlock));
	pthread_rwlock_unlock(&rwlock);
	let_go();
	let_hold(hold_rwlock);
	TIME("pthread_rwlock_wrlock", !pthread_rwlock_wrlock(&rwlock));
	pthread_rwlock_unlock(&rwlock);
	let_go();
	later('s');
	TIME("sem_wait", !sem_wait(&semaphore));
	t = deadline_ms(CLOCK_REALTIME, 17);
	TIME("sem_timedwait", sem_timedwait(&semaphore, &t) &&
	     errno == ETIMEDOUT);
}

/* In one call as long as nothing wakes it without a reason. */
static bool wait_for_turn(void)
{
	return !pthread_cond_wait(&changed, &lock) && turn == 1;
}

static void wait_for_threads(void)
{
	struct timespec t;
	pthread_t thread;

	turn = 0;
	pthread_mutex_lock(&lock);
	later('c');
	TIME("pthread_cond_wait", wait_for_turn());
	t = deadline_ms(CLOCK_REALTIME, 19);
	TIME("pthread_cond_timedwait",
	     pthread_cond_timedwait(&changed, &lock, &t) == ETIMEDOUT);
	pthread_mutex_unlock(&lock);
	later('b');
	TIME("pthread_barrier_wait", pthread_barrier_wait(&barrier) <= 0);
	is_through = false;
	pthread_create(&thread, NULL, serve, NULL);
	TIME("pthread_join", !pthread_join(thread, NULL));
}

static void wait_for_files(void)
{
	static char block[65536];
	struct pollfd p = { .fd = pipes[0], .events = POLLIN };
	struct timeval limit = { 0, 6000 };
	int poller = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event e = { .events = EPOLLIN };
	struct iovec io = { block, sizeof(block) };
	uint64_t count;
	char c;

	TIME("poll", !poll(&p, 1, 8));
	TIME("select", !select(0, NULL, NULL, NULL, &limit));
	epoll_ctl(poller, EPOLL_CTL_ADD, pipes[0], &e);
	TIME("epoll_wait", !epoll_wait(poller, &e, 1, 11));
	later('p');
	TIME("read", read(pipes[0], &c, 1) == 1);
	later('S');
	TIME("recv", recv(sockets[0], &c, 1, 0) == 1);
	later('e');
	TIME("readv", readv(event, &(struct iovec){ &count, 8 }, 1) == 8);
	/* A pipe holds 64 KiB. */
	syscall(SYS_write, pipes[1], block, sizeof(block));
	later('r');
	TIME("writev", writev(pipes[1], &io, 1) == sizeof(block));
	syscall(SYS_read, pipes[0], block, sizeof(block));
}

static void wait_for_time(void)
{
	struct timespec t = { 0, 20000000 };
	pid_t child;

	TIME("nanosleep", !nanosleep(&t, NULL));
	TIME("usleep", !usleep(13000));
	t.tv_nsec = 14000000;
	TIME("clock_nanosleep",
	     !clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL));
	child = fork();
	if (!child) {
		sleep_ms(10);
		_exit(0);
	}
	TIME("waitpid", waitpid(child, NULL, 0) == child);
}

static void *wait_for_all(void *argument)
{
	(void)argument;
	pthread_setname_np(pthread_self(), "blocked");
	waiter = (int)syscall(SYS_gettid);
	TALLY("thread", "blocked", waiter);
	wait_for_time();
	wait_for_locks();
	wait_for_threads();
	wait_for_files();
	return NULL;
}

static void be_another_thread(void *(*run)(void *))
{
	pthread_t thread;

	pthread_create(&thread, NULL, run, NULL);
	pthread_join(thread, NULL);
}

static void do_waits(const char *argument)
{
	(void)argument;
	be_another_thread(wait_for_all);
}

/* ---- free ---- */

static void *take_freely(void *argument)
{
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC), i;
	struct timespec t = deadline_ms(CLOCK_REALTIME, 60000);
	char c;

	(void)argument;
	TALLY("thread", "free", (long)syscall(SYS_gettid));
	for (i = 0; i < 20000; i++) {
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		pthread_mutex_timedlock(&lock, &t);
		pthread_mutex_unlock(&lock);
		pthread_rwlock_rdlock(&rwlock);
		pthread_rwlock_unlock(&rwlock);
		pthread_rwlock_wrlock(&rwlock);
		pthread_rwlock_unlock(&rwlock);
		sem_post(&semaphore);
		sem_wait(&semaphore);
		sem_post(&semaphore);
		sem_timedwait(&semaphore, &t);
		TALLY("reads", "right", read(zero, &c, 1) == 1);
	}
	return NULL;
}

static void do_free(const char *argument)
{
	(void)argument;
	be_another_thread(take_freely);
}

/* ---- ioctl ---- */

static void do_ioctl(const char *path)
{
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1, i, n;

	for (i = 0; i < 1000; i++)
		TALLY("ioctl", "ENOTTY", ioctl(fd, FIONREAD, &n) == -1 &&
		      errno == ENOTTY);
}

/* ---- flood ---- */

enum { READS = 1000, RANGES = 200 };

static void do_flood(const char *argument)
{
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC), i, n;
	char c;

	(void)argument;
	for (i = 0; i < RANGES; i++) {
		nvtxRangePushA("flood");
		for (n = 0; n < READS; n++)
			TALLY("flood", "reads", read(zero, &c, 1) == 1);
		nvtxRangePop();
	}
	TALLY("flood", "ranges", RANGES);
}

static const struct {
	const char *name;
	void (*run)(const char *argument);
} modes[] = {
	{ "waits", do_waits }, { "free", do_free },
	{ "ioctl", do_ioctl }, { "flood", do_flood },
};

int main(int argc, char **argv)
{
	struct gpu gpu;
	size_t i;

	gpu_open(&gpu, 0);
	pthread_barrier_init(&barrier, NULL, 2);
	sem_init(&semaphore, 0, 0);
	event = eventfd(0, EFD_CLOEXEC);
	if (pipe(pipes) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		return EXIT_FAILURE;
	for (i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		if (argc > 1 && !strcmp(argv[1], modes[i].name))
			modes[i].run(argv[2]);
	gpu_launch(&gpu, KERNEL_SILU, NULL, 2000);
	TALLY("gpu", "kernels", 1);
	gpu_close(&gpu);
	tally_print();
	return EXIT_SUCCESS;
}
