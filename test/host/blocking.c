/* SPDX-License-Identifier: MIT */
/*
 * blocking: a program with a GPU whose threads wait, each for a known reason.
 *
 *	blocking MODE
 *
 *   waits    one thread waits in one call after another: what its own clock
 *            says of each, as {"ns": {CALL: ns}}, and its thread's number
 *   free     locks that nobody else wants, and reads that never wait
 *   cancel   threads that are cancelled where they wait; how each ended
 *   crowd    200 threads that fight for one lock
 *   signals  handlers that make calls inside of calls, and jump out of them
 *   vfork    a child on the memory of its parent waits, then executes; others
 *   ioctl FILE   a thousand of them on that file
 *   flood    one thread that reads all the time, in a range a thousand reads
 *   malloc   eight threads that want memory at once
 */
#include <errno.h>
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
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

extern char **environ;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static int pipes[2], sockets[2], event;
static atomic_int turn;

static void sleep_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&t, &t))
		;
}

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

static void start(void *(*run)(void *), void *argument)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, argument))
		abort();
	pthread_detach(thread);
}

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

/* ---- cancel ---- */

static pthread_mutex_t checked;
static sem_t full;

static void unlock(void *mutex)
{
	TALLY("cleaned", "unlock", pthread_mutex_unlock(mutex) == 0);
}

static void clean(void *name)
{
	(void)name;
	TALLY("cleaned", "others", 1);
}

static void stand(char where)
{
	struct pollfd p = { .fd = pipes[0], .events = POLLIN };
	struct timespec t = { 100, 0 };
	char c;
	int i;

	switch (where) {
	case 'c':
		pthread_mutex_lock(&checked);
		pthread_cleanup_push(unlock, &checked);
		for (;;)
			pthread_cond_wait(&changed, &checked);
		pthread_cleanup_pop(1);
		break;
	case 'r':
		TALLY("went on", "read", read(pipes[0], &c, 1));
		break;
	case 's':
		TALLY("went on", "sem_wait", sem_wait(&semaphore) + 1);
		break;
	case 'p':
		TALLY("went on", "poll", poll(&p, 1, 100000) + 1);
		break;
	case 'n':
		TALLY("went on", "nanosleep", nanosleep(&t, NULL) + 1);
		break;
	case 'v':
		TALLY("went on", "recv", recv(sockets[0], &c, 1, 0) + 1);
		break;
	case 'f':       /* it need not wait, and is cancelled all the same */
		pthread_cancel(pthread_self());
		TALLY("went on", "sem_wait of a full one", sem_wait(&full) + 1);
		break;
	case 'a':       /* wherever it is */
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
		for (i = 0; ; i++)
			read(-1, &c, 1);
	}
}

static void *stand_and_fall(void *where)
{
	pthread_cleanup_push(clean, NULL);
	stand((char)(intptr_t)where);
	pthread_cleanup_pop(0);
	return NULL;
}

static void do_cancel(const char *argument)
{
	static const char places[] = "crspnvfa";
	pthread_mutexattr_t kind;
	pthread_t threads[sizeof(places)];
	void *result;
	int round, i;

	(void)argument;
	pthread_mutexattr_init(&kind);
	pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&checked, &kind);
	sem_init(&full, 0, 1000);
	for (round = 0; round < 20; round++) {
		for (i = 0; places[i]; i++)
			pthread_create(&threads[i], NULL, stand_and_fall,
				       (void *)(intptr_t)places[i]);
		sleep_ms(5);
		for (i = 0; places[i]; i++) {
			pthread_cancel(threads[i]);
			pthread_join(threads[i], &result);
			TALLY("cancelled", "threads",
			      result == PTHREAD_CANCELED);
		}
	}
	TALLY("full", "left", (sem_getvalue(&full, &i), i));
	TALLY("lock", "free", pthread_mutex_trylock(&checked) == 0);
}

/* ---- crowd ---- */

enum { CROWD = 200, ROUNDS = 20 };
static long counter;

static void *fight(void *argument)
{
	int i;

	(void)argument;
	for (i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&lock);
		counter++;
		spin_until_ns(now_ns() + 20000);
		pthread_mutex_unlock(&lock);
	}
	pthread_barrier_wait(&barrier);
	return NULL;
}

static void do_crowd(const char *argument)
{
	pthread_t threads[CROWD];
	int i;

	(void)argument;
	pthread_barrier_destroy(&barrier);
	pthread_barrier_init(&barrier, NULL, CROWD);
	for (i = 0; i < CROWD; i++)
		if (pthread_create(&threads[i], NULL, fight, NULL))
			abort();
	for (i = 0; i < CROWD; i++)
		pthread_join(threads[i], NULL);
	TALLY("crowd", "counted", counter);
}

/* ---- signals ---- */

static sigjmp_buf out;
static bool may_jump;

static void handle(int number)
{
	struct pollfd p = { .fd = pipes[0], .events = POLLIN };
	struct timespec t = { 0, 50000 };
	int saved = errno;
	char c;

	(void)number;
	read(-1, &c, 1);
	poll(&p, 1, 0);
	nanosleep(&t, NULL);
	sem_post(&semaphore);
	errno = saved;
	if (may_jump)
		siglongjmp(out, 1);
}

static void *fire(void *target)
{
	int i;

	for (i = 0; i < 400; i++) {
		sleep_ms(1);
		pthread_kill(*(pthread_t *)target, SIGUSR1);
	}
	turn = 2;
	return NULL;
}

static void be_interrupted(void)
{
	struct pollfd p = { .fd = pipes[0], .events = POLLIN };

	while (turn != 2) {
		errno = 77;
		if (poll(&p, 1, 3) < 0)
			TALLY("errno", "EINTR", errno == EINTR);
		while (!sem_trywait(&semaphore))
			TALLY("posted", "times", 1);
	}
}

static void do_signals(const char *argument)
{
	struct sigaction action = { .sa_handler = handle };
	pthread_t self = pthread_self();
	volatile int jumps = 0;
	char c;

	(void)argument;
	sigaction(SIGUSR1, &action, NULL);
	turn = 0;
	start(fire, &self);
	be_interrupted();
	turn = 0;
	may_jump = true;
	if (sigsetjmp(out, 1))
		jumps++;
	else
		start(fire, &self);
	while (turn != 2)
		if (read(pipes[0], &c, 1) >= 0)
			abort();
	may_jump = false;
	TALLY("jumps", "out of read", jumps > 100);
}

/* ---- vfork ---- */

static void *write_late(void *argument)
{
	(void)argument;
	sleep_ms(30);
	syscall(SYS_write, pipes[1], "x", 1);
	return NULL;
}

/* Its own frame: the child goes on in it before the parent does. */
__attribute__((noinline))
static int run_by_vfork(void)
{
	char *argv[] = { "sh", "-c", "exit 5", NULL };
	pid_t child = vfork();
	int status = 0;
	char c;

	if (!child) {
		if (read(pipes[0], &c, 1) != 1)
			_exit(1);
		execve("/bin/sh", argv, environ);
		_exit(2);
	}
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}

static int run_by_fork(void)
{
	struct timespec t = { 0, 3000000 };
	pid_t child = fork();
	int status = 0;

	if (!child) {
		pthread_mutex_lock(&lock);
		nanosleep(&t, NULL);
		_exit(6);
	}
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}

static void do_vfork(const char *argument)
{
	char *argv[] = { "sh", "-c", "exit 7", NULL };
	int status = 0, i;
	pid_t child;

	(void)argument;
	TALLY("thread", "main", (long)syscall(SYS_gettid));
	start(write_late, NULL);
	TALLY("status", "vfork", run_by_vfork());
	for (i = 0; i < 20; i++)
		TALLY("status", "fork", run_by_fork() == 6);
	if (!posix_spawn(&child, "/bin/sh", NULL, NULL, argv, environ))
		waitpid(child, &status, 0);
	TALLY("status", "spawn", WEXITSTATUS(status));
	status = system("exit 8");
	TALLY("status", "system", WEXITSTATUS(status));
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

/* ---- malloc ---- */

enum { EATERS = 8 };

static void *eat(void *argument)
{
	long i;

	/* Half of them have been recorded before. */
	if (argument)
		pthread_barrier_wait(&barrier);
	for (i = 0; i < 3000; i++) {
		char *volatile block = malloc(1 + i % 5000);

		block[i % 5000] = 1;
		free(block);
	}
	return argument;
}

static void do_malloc(const char *argument)
{
	pthread_t threads[EATERS];
	int i;

	(void)argument;
	for (i = 0; i < EATERS; i++)
		pthread_create(&threads[i], NULL, eat,
			       i % 2 ? threads : NULL);
	for (i = 0; i < EATERS; i++)
		pthread_join(threads[i], NULL);
	TALLY("malloc", "threads", EATERS);
}

static const struct {
	const char *name;
	void (*run)(const char *argument);
} modes[] = {
	{ "waits", do_waits }, { "free", do_free }, { "cancel", do_cancel },
	{ "crowd", do_crowd }, { "signals", do_signals },
	{ "vfork", do_vfork }, { "ioctl", do_ioctl },
	{ "malloc", do_malloc }, { "flood", do_flood },
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
