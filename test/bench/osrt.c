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
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CALLS = 500, BURSTS = 41, ROUNDS = 7, PAUSE_US = 12000 };
enum { BARE, OFF, ON, RECORDED, NR_STATES };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t semaphore;
static struct pollfd polled = { .events = POLLIN };
static int zero;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

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

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, int n)
{
	qsort(values, n, sizeof(values[0]), compare);
	return values[n / 2];
}

static double least(double *values, int n)
{
	qsort(values, n, sizeof(values[0]), compare);
	return values[0];
}

static double burst(const struct work *work)
{
	uint64_t start;
	int i;

	for (i = 0; i < CALLS / 5; i++)
		work->call();
	start = now_ns();
	for (i = 0; i < CALLS; i++)
		work->call();
	return (double)(now_ns() - start) / CALLS;
}

static void *stand_by(void *argument)
{
	pause();
	return argument;
}

/* In a process of its own: prints ns a call, one line for each work. */
static void measure(void)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned int) = cuda ?
		(int (*)(unsigned int))dlsym(cuda, "cuInit") : NULL;
	double ns[BURSTS];
	pthread_t thread;
	int i, n, pipes[2];

	if (!init || init(0) ||
	    pthread_create(&thread, NULL, stand_by, NULL)) {
		fprintf(stderr, "osrt: no CUDA\n");
		exit(EXIT_FAILURE);
	}
	zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	sem_init(&semaphore, 0, 0);
	if (zero < 0 || pipe(pipes))
		exit(EXIT_FAILURE);
	polled.fd = pipes[0];
	usleep(300000);         /* our clock measures the CPU's counter */
	for (n = 0; n < NR_WORKS; n++) {
		for (i = 0; i < BURSTS; i++) {
			usleep(PAUSE_US);
			ns[i] = burst(&works[n]);
		}
		printf("%f\n", median(ns, BURSTS));
	}
}

/* The folder this program's folder lies in: the build. */
static void build_folder(char *path, size_t size)
{
	ssize_t len = readlink("/proc/self/exe", path, size - 1);
	int i;

	path[len > 0 ? len : 0] = '\0';
	for (i = 0; i < 2; i++)
		if (strrchr(path, '/'))
			*strrchr(path, '/') = '\0';
}

static void set_environment(int state)
{
	char build[4096], path[8192];
	const char *old = getenv("LD_LIBRARY_PATH");

	build_folder(build, sizeof(build));
	if (access("/dev/nvidiactl", F_OK)) {
		snprintf(path, sizeof(path), "%s/sim%s%s", build,
			 old ? ":" : "", old ? old : "");
		setenv("LD_LIBRARY_PATH", path, 1);
	}
	if (state == BARE)
		return;
	snprintf(path, sizeof(path), "%s/libgputrace.so", build);
	setenv("LD_PRELOAD", path, 1);
	setenv("GPUTRACE_OUT", "/dev/null", 1);
	setenv("GPUTRACE_LOG", "quiet", 1);
	setenv("GPUTRACE_TRACE", state == OFF ? "cuda,nvtx" : "cuda,nvtx,osrt",
	       1);
	setenv("GPUTRACE_OSRT_MIN", state == RECORDED ? "1ns" : "1us", 1);
}

static int run(int state, double *ns)
{
	char word[2] = { (char)('0' + state), 0 };
	int pipes[2], status, n = 0;
	pid_t child;
	FILE *in;

	if (pipe(pipes))
		return -1;
	child = fork();
	if (child == 0) {
		dup2(pipes[1], STDOUT_FILENO);
		close(pipes[0]);
		set_environment(state);
		execl("/proc/self/exe", "osrt", word, (char *)NULL);
		_exit(127);
	}
	close(pipes[1]);
	in = fdopen(pipes[0], "r");
	while (in && n < NR_WORKS && fscanf(in, "%lf", &ns[n]) == 1)
		n++;
	if (in)
		fclose(in);
	return waitpid(child, &status, 0) == child && !status &&
		n == NR_WORKS ? 0 : -1;
}

static void print(const struct work *work, const char *state, double added,
		  double baseline, double limit)
{
	printf("{\"name\": \"osrt %s: %s, added\", \"value\": %.2f, "
	       "\"unit\": \"ns\", \"baseline\": %.2f", state, work->name,
	       added, baseline);
	if (limit > 0)
		printf(", \"limit\": %.0f", limit);
	printf("}\n");
}

int main(int argc, char **argv)
{
	static double ns[NR_STATES][NR_WORKS][ROUNDS];
	double round[NR_WORKS], of[NR_STATES];
	int state, work, i;

	(void)argv;
	if (argc > 1) {
		measure();
		return EXIT_SUCCESS;
	}
	for (i = 0; i < ROUNDS; i++)
		for (state = 0; state < NR_STATES; state++) {
			if (run(state, round))
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
