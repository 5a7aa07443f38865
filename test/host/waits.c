/* SPDX-License-Identifier: MIT */
/*
 * waits: a program with a GPU that stands in one place until its stdin says
 * that it may go on.
 *
 *	waits PLACE
 *
 * It prints "ready" when it is about to stand there.  Its other threads are in
 * readv(), from which nobody else would borrow a thread.  Shows: what the
 * interruption of the place looks like to the program (result and errno of the
 * system call, the time it took, signals counted, memory and vector registers
 * intact), then kernels.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "test/host/gpu.h"

#define KERNELS 20
enum { STACK = 64 << 10 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static atomic_bool may_go;
static _Atomic long signals;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* ---- Who lets it go ---- */

static void *listen_to_stdin(void *argument)
{
	struct iovec io = { &(char){ 0 }, 1 };

	(void)argument;
	while (readv(STDIN_FILENO, &io, 1) < 0 && errno == EINTR)
		;
	pthread_mutex_lock(&lock);
	may_go = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void start_listener(void)
{
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	pthread_create(&thread, NULL, listen_to_stdin, NULL);
	pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- The places ---- */

/* Each gives what its system call gave, -errno if it failed. */
static long stand_in_read(void)
{
	char c;
	ssize_t n = read(STDIN_FILENO, &c, 1);

	return n < 0 ? -errno : n;
}

static long stand_in_poll(void)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	int n = poll(&p, 1, 20000);

	return n < 0 ? -errno : n;
}

static long stand_in_epoll(void)
{
	int fd = epoll_create1(0), n;
	struct epoll_event e = { .events = EPOLLIN };

	epoll_ctl(fd, EPOLL_CTL_ADD, STDIN_FILENO, &e);
	n = epoll_wait(fd, &e, 1, -1);
	return n < 0 ? -errno : n;
}

/* A socket with a time limit: one of those that a stop would cut short. */
static long stand_in_recv(void)
{
	struct timeval limit = { 20, 0 };
	int pair[2];
	char c;

	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (!fork()) {
		ssize_t n = read(STDIN_FILENO, &c, 1);

		_exit(send(pair[1], &c, (size_t)(n > 0), 0) < 0);
	}
	close(pair[1]);
	return recv(pair[0], &c, 1, 0) < 0 ? -errno : 1;
}

static long sleep_long(void)
{
	struct timespec t = { 1, 0 };
	double start = now();

	if (nanosleep(&t, NULL))
		return -errno;
	TALLY("took", "ms", (long)((now() - start) * 1000));
	return 0;
}

static long stand_in_nanosleep(void)
{
	long err = sleep_long();

	return err ? err : stand_in_read();
}

static long stand_in_futex(void)
{
	start_listener();
	pthread_mutex_lock(&lock);
	while (!may_go)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return 0;
}

static long stand_in_timed_futex(void)
{
	struct timespec t;
	int err = 0;

	start_listener();
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += 20;
	pthread_mutex_lock(&lock);
	while (!may_go && !err)
		err = pthread_cond_timedwait(&changed, &lock, &t);
	pthread_mutex_unlock(&lock);
	return -err;
}

static bool stdin_speaks(void)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* Blocks hold their own size; whoever calls malloc from inside malloc breaks
 * that, or malloc itself. */
static long stand_in_malloc(void)
{
	size_t *held[64] = { NULL };
	unsigned seed = 1;

	for (long i = 0; i % 1000 || !stdin_speaks(); i++) {
		size_t n = (seed = seed * 1103515245 + 12345) >> 16 & 4095;
		size_t **at = &held[seed >> 8 & 63];

		if (*at && (*at)[0] != (*at)[(*at)[0]])
			return -EFAULT;
		free(*at);
		*at = malloc((n + 1) * sizeof(**at));
		(*at)[0] = n;
		(*at)[n] = n;
	}
	return 0;
}

/* Sums that live in vector registers. */
__attribute__((noinline))
static double sum_of(long n)
{
	double a[8] = { 0 };

	for (long i = 0; i < n; i++)
		for (int k = 0; k < 8; k++)
			a[k] += (double)((i * (k + 1)) & 1023);
	return a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
}

static long stand_in_code(void)
{
	double wanted = sum_of(1000000);

	start_listener();
	while (!may_go)
		if (sum_of(1000000) != wanted)
			return -EFAULT;
	return 0;
}

static void handle(int number)
{
	(void)number;
	signals++;
}

/* Each one is queued: none may be missing. */
static long stand_in_signals(void)
{
	struct sigaction action = { .sa_handler = handle };
	long failed = 0;

	sigaction(SIGRTMIN, &action, NULL);
	start_listener();
	pthread_mutex_lock(&lock);
	while (!may_go) {
		struct timespec t = { 0, 1000000 };

		pthread_mutex_unlock(&lock);
		failed += nanosleep(&t, NULL) && errno != EINTR;
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
	TALLY("signals", "handled", signals);
	return failed;
}

/* Nobody may have loaded anything through us by the end of it. */
static void stay_alone(void)
{
	sleep_long();
	TALLY("alone", "traced", dlsym(RTLD_DEFAULT, "gputrace_attach") != 0);
}

static void handle_slowly(int number)
{
	(void)number;
	stay_alone();
}

/* Inside a handler, which may have interrupted anything. */
static long stand_in_handler(void)
{
	signal(SIGUSR1, handle_slowly);
	raise(SIGUSR1);
	return stand_in_read();
}

static ucontext_t back, away;

static void run_coroutine(void)
{
	stay_alone();
}

/* A small stack of its own, which is not the thread's. */
static long stand_in_coroutine(void)
{
	getcontext(&away);
	away.uc_stack.ss_sp = malloc(STACK);
	away.uc_stack.ss_size = STACK;
	away.uc_link = &back;
	makecontext(&away, run_coroutine, 0);
	swapcontext(&back, &away);
	return stand_in_read();
}

static const struct {
	const char *name;
	long (*stand)(void);
} places[] = {
	{ "read", stand_in_read }, { "poll", stand_in_poll },
	{ "epoll", stand_in_epoll }, { "recv", stand_in_recv },
	{ "nanosleep", stand_in_nanosleep }, { "futex", stand_in_futex },
	{ "timed-futex", stand_in_timed_futex },
	{ "malloc", stand_in_malloc }, { "code", stand_in_code },
	{ "signals", stand_in_signals }, { "handler", stand_in_handler },
	{ "coroutine", stand_in_coroutine },
};

int main(int argc, char **argv)
{
	struct gpu gpu;
	size_t i = 0;

	while (i < sizeof(places) / sizeof(*places) &&
	       (argc < 2 || strcmp(places[i].name, argv[1])))
		i++;
	if (i == sizeof(places) / sizeof(*places))
		return EXIT_FAILURE;
	gpu_open(&gpu, 0);
	puts("ready");
	fflush(stdout);
	TALLY("place", "result", places[i].stand());
	for (i = 0; i < KERNELS; i++)
		gpu_launch(&gpu, KERNEL_SILU, NULL, 2000);
	CU(cuCtxSynchronize);
	gpu_close(&gpu);
	tally_print();
	return EXIT_SUCCESS;
}
