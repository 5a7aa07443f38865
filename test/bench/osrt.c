/* SPDX-License-Identifier: MIT */
/*
 * What `osrt` costs C library calls that do not block: each without the
 * library, with it and the source off, with it on (the call is not recorded:
 * it is shorter than 1 us), and those that enter the kernel also where every
 * one is recorded.  The program runs itself for each state, in turn, so that
 * what the machine does meanwhile meets all of them; of each, the median burst
 * of the best round is compared.
 *
 * CUDA is in use in all of them, the real driver where there is a GPU, else the
 * simulated one beside this program; and there is a second thread, for the C
 * library's calls are shorter in a process that has one.  But for the first, a
 * window is open.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>

#include "test/bench/bench.h"

enum { CALLS = 500, BURSTS = 41, ROUNDS = 7, PAUSE_US = 12000 };
enum { BARE, OFF, ON, RECORDED, NR_STATES };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t semaphore;
static struct pollfd polled = { .events = POLLIN };
static int zero;

static void do_mutex(void)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

static void do_semaphore(void)
{
	sem_post(&semaphore);
	sem_wait(&semaphore);
}

static void do_read(void)
{
	char c;

	if (read(zero, &c, 1) != 1)
		abort();
}

static void do_poll(void)
{
	if (poll(&polled, 1, 0))
		abort();
}

static const struct work {
	const char *name;
	void (*call)(void);
	double limit;
	int enters_kernel;
} works[] = {
	{ "uncontended pthread_mutex_lock (and unlock)", do_mutex, 10, 0 },
	{ "free sem_wait (and sem_post)", do_semaphore, 10, 0 },
	{ "read of 1 byte of /dev/zero", do_read, 60, 1 },
	{ "poll of a pipe without a wait", do_poll, 60, 1 },
};
enum { NR_WORKS = sizeof(works) / sizeof(*works) };

static double least(const double *values, int n)
{
	double found = values[0];

	while (n-- > 1)
		if (values[n] < found)
			found = values[n];
	return found;
}

static double burst(const struct work *work)
{
	uint64_t start;
	int i;

	for (i = 0; i < CALLS / 5; i++)
		work->call();
	start = bench_now_ns();
	for (i = 0; i < CALLS; i++)
		work->call();
	return (double)(bench_now_ns() - start) / CALLS;
}

static void *stand_by(void *argument)
{
	pause();
	return argument;
}

/* In a process of its own: prints ns a call, one line for each work. */
static void measure(void)
{
	double ns[BURSTS];
	pthread_t thread;
	int i, n, pipes[2];

	bench_use_cuda();
	zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	sem_init(&semaphore, 0, 0);
	if (zero < 0 || pipe(pipes) ||
	    pthread_create(&thread, NULL, stand_by, NULL))
		exit(EXIT_FAILURE);
	polled.fd = pipes[0];
	usleep(300000);         /* our clock measures the CPU's counter */
	for (n = 0; n < NR_WORKS; n++) {
		for (i = 0; i < BURSTS; i++) {
			usleep(PAUSE_US);
			ns[i] = burst(&works[n]);
		}
		printf("%f\n", bench_median(ns, BURSTS));
	}
}

static void prepare(const char *word)
{
	int state = *word - '0';

	bench_find_gpu();
	if (state == BARE)
		return;
	bench_preload("/dev/null");
	setenv("GPUTRACE_TRACE", state == OFF ? "cuda,nvtx" : "cuda,nvtx,osrt",
	       1);
	setenv("GPUTRACE_OSRT_MIN", state == RECORDED ? "1ns" : "1us", 1);
}

static void print(const struct work *work, const char *state, double added,
		  double baseline, double limit)
{
	bench_print(added, "ns", baseline, limit, "osrt %s: %s, added", state,
		    work->name);
}

int main(int argc, char **argv)
{
	static double ns[NR_STATES][NR_WORKS][ROUNDS];
	double round[NR_WORKS], of[NR_STATES];
	char word[2] = "";
	int state, work, i;

	(void)argv;
	if (argc > 1) {
		measure();
		return EXIT_SUCCESS;
	}
	for (i = 0; i < ROUNDS; i++)
		for (state = 0; state < NR_STATES; state++) {
			word[0] = (char)('0' + state);
			if (bench_run(word, prepare, round, NR_WORKS))
				return EXIT_FAILURE;
			for (work = 0; work < NR_WORKS; work++)
				ns[state][work][i] = round[work];
		}
	for (work = 0; work < NR_WORKS; work++) {
		for (state = 0; state < NR_STATES; state++)
			of[state] = least(ns[state][work], ROUNDS);
		print(&works[work], "off", of[OFF] - of[BARE], of[BARE],
		      works[work].enters_kernel ? 10 : 2);
		print(&works[work], "on", of[ON] - of[BARE], of[BARE],
		      works[work].limit);
		if (works[work].enters_kernel)
			print(&works[work], "on, recorded",
			      of[RECORDED] - of[BARE], of[BARE], 0);
	}
	return EXIT_SUCCESS;
}
