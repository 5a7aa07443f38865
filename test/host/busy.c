/* SPDX-License-Identifier: MIT */
/*
 * busy: threads of known behaviour, and what the kernel counted of each.
 *
 *	busy [--seconds S] [--idle N] [--storm] [--short N] [--windows N]
 *	     [--refuse | --kill | --late] [--fork] [--no-gpu]
 *
 * One thread computes, one sleeps 2 ms and computes 1 ms in turn, two fight for
 * a lock, one waits for the end; with --idle N more wait, with --storm two
 * wake each other as fast as they can, with --short N come and go.  --windows
 * starts and stops the profiler so often.  --refuse and --kill: under a filter
 * of system calls; --late: one that kills for what profilers call comes when
 * the recording has found the threads.  Prints {"threads": {NAME: {tid,
 * start_ns, end_ns, cpu_ns, run_ns, delay_ns, switches}}}: epoch times, and
 * counts between them of the thread's clock, of schedstat and of status,
 * read by the thread itself.
 */
#include <dirent.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cudaProfiler.h>

#include "test/host/gpu.h"
#include "test/host/narrow.h"

enum { NR_KNOWN = 7, IDLE_MAX = 1000 };

static double seconds = 2;
static long nr_idle, nr_short, nr_windows, nr_storm;
static bool is_refused, is_killed, is_late, has_child, no_gpu;
static _Atomic bool is_over;
static pthread_mutex_t fought_for = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t end_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t end_changed = PTHREAD_COND_INITIALIZER;
static int ping[2], pong[2];

static uint64_t read_clock(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- What the kernel counts of the calling thread ---- */

struct counts {
	uint64_t t_ns, cpu_ns, run_ns, delay_ns, switches;
};

/* Voluntary and not. */
static uint64_t switches_now(void)
{
	FILE *file = fopen("/proc/thread-self/status", "r");
	unsigned long long n, sum = 0;
	char line[256];

	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "voluntary_ctxt_switches: %llu", &n) == 1 ||
		    sscanf(line, "nonvoluntary_ctxt_switches: %llu", &n) == 1)
			sum += n;
	if (file)
		fclose(file);
	return sum;
}

static struct counts counts_now(void)
{
	struct counts now = { .switches = switches_now() };
	FILE *file = fopen("/proc/thread-self/schedstat", "r");
	unsigned long long run = 0, delay = 0;

	if (file && fscanf(file, "%llu %llu", &run, &delay) != 2)
		run = delay = 0;
	if (file)
		fclose(file);
	now.cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID);
	now.run_ns = run;
	now.delay_ns = delay;
	now.t_ns = read_clock(CLOCK_REALTIME);
	return now;
}

/* ---- The threads ---- */

struct known {
	const char *name;
	void (*step)(void);
	pthread_t thread;
	long tid;
	struct counts start, end;
};

/* Of its own CPU time, so that it is what the kernel has counted. */
static void compute_ms(unsigned int ms)
{
	uint64_t until = read_clock(CLOCK_THREAD_CPUTIME_ID) + ms * 1000000ull;

	while (read_clock(CLOCK_THREAD_CPUTIME_ID) < until)
		;
}

static void compute(void)
{
	compute_ms(5);
}

static void sleep_and_compute(void)
{
	usleep(2000);
	compute_ms(1);
}

static void fight(void)
{
	pthread_mutex_lock(&fought_for);
	compute_ms(2);
	pthread_mutex_unlock(&fought_for);
	sched_yield();
}

static void wait_for_end(void)
{
	pthread_mutex_lock(&end_lock);
	while (!is_over)
		pthread_cond_wait(&end_changed, &end_lock);
	pthread_mutex_unlock(&end_lock);
}

static void storm(int from, int to)
{
	char byte = 0;

	if (write(to, &byte, 1) != 1 || read(from, &byte, 1) != 1)
		wait_for_end();
}

static void storm_ping(void)
{
	storm(pong[0], ping[1]);
}

static void storm_pong(void)
{
	storm(ping[0], pong[1]);
}

static struct known known[NR_KNOWN] = {
	{ .name = "computes", .step = compute },
	{ .name = "sleeps", .step = sleep_and_compute },
	{ .name = "fights 1", .step = fight },
	{ .name = "fights 2", .step = fight },
	{ .name = "waits", .step = wait_for_end },
	{ .name = "storms 1", .step = storm_ping },
	{ .name = "storms 2", .step = storm_pong },
};

static void *run_known(void *argument)
{
	struct known *self = argument;

	pthread_setname_np(pthread_self(), self->name);
	self->tid = syscall(SYS_gettid);
	/* The recording has found it by then. */
	usleep(150000);
	self->start = counts_now();
	while (!is_over)
		self->step();
	self->end = counts_now();
	if (self->step == storm_ping || self->step == storm_pong) {
		close(ping[1]);
		close(pong[1]);
	}
	/* And it is still alive when its end was read. */
	usleep(50000);
	return NULL;
}

static void *run_idle(void *argument)
{
	wait_for_end();
	return argument;
}

static void *run_short(void *argument)
{
	compute_ms(1);
	return argument;
}

static void short_threads(void)
{
	pthread_t threads[20];
	long i, n;

	for (i = 0; i < nr_short; i += n) {
		for (n = 0; n < 20 && i + n < nr_short; n++)
			pthread_create(&threads[n], NULL, run_short, NULL);
		for (long j = 0; j < n; j++)
			pthread_join(threads[j], NULL);
	}
}

/* ---- The program ---- */

/* The fewest of some looks: one that is open for a moment is no leak. */
static long nr_descriptors(void)
{
	long fewest = 1000000, n;
	DIR *folder;

	for (int i = 0; i < 20; i++) {
		folder = opendir("/proc/self/fd");
		for (n = 0; folder && readdir(folder); n++)
			;
		if (folder)
			closedir(folder);
		fewest = n < fewest ? n : fewest;
		usleep(1000);
	}
	return fewest;
}

static void print(long before, long after)
{
	printf("{\"descriptors\": [%ld, %ld], \"threads\": {", before, after);
	for (int i = 0; i < NR_KNOWN; i++)
		if (known[i].tid)
			printf("%s\"%s\": {\"tid\": %ld, \"start_ns\": %llu, "
			       "\"end_ns\": %llu, \"cpu_ns\": %llu, "
			       "\"run_ns\": %llu, \"delay_ns\": %llu, "
			       "\"switches\": %llu}",
			       i ? ", " : "", known[i].name, known[i].tid,
			       (unsigned long long)known[i].start.t_ns,
			       (unsigned long long)known[i].end.t_ns,
			       (unsigned long long)(known[i].end.cpu_ns -
						    known[i].start.cpu_ns),
			       (unsigned long long)(known[i].end.run_ns -
						    known[i].start.run_ns),
			       (unsigned long long)(known[i].end.delay_ns -
						    known[i].start.delay_ns),
			       (unsigned long long)(known[i].end.switches -
						    known[i].start.switches));
	printf("}}\n");
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seconds", required_argument, NULL, 's' },
		{ "idle", required_argument, NULL, 'i' },
		{ "short", required_argument, NULL, 'n' },
		{ "windows", required_argument, NULL, 'w' },
		{ "storm", no_argument, NULL, 'o' },
		{ "refuse", no_argument, NULL, 'r' },
		{ "kill", no_argument, NULL, 'k' },
		{ "late", no_argument, NULL, 'l' },
		{ "fork", no_argument, NULL, 'f' },
		{ "no-gpu", no_argument, NULL, 'g' },
		{ 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0)
		switch (option) {
		case 's': seconds = atof(optarg); break;
		case 'i': nr_idle = atol(optarg); break;
		case 'n': nr_short = atol(optarg); break;
		case 'w': nr_windows = atol(optarg); break;
		case 'o': nr_storm = 2; break;
		case 'r': is_refused = true; break;
		case 'k': is_killed = true; break;
		case 'l': is_late = true; break;
		case 'f': has_child = true; break;
		case 'g': no_gpu = true; break;
		default: exit(2);
		}
}

/* The recording has found all threads, and they begin after that. */
static void narrow_late(void)
{
	usleep(100000);
	if (narrow_profilers())
		exit(77);
}

static void fork_child(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		compute_ms(20);
		exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		exit(3);
}

static void windows(void)
{
	for (long i = 0; i < nr_windows; i++) {
		cuProfilerStart();
		usleep(i % 3 * 1000);
		cuProfilerStop();
	}
}

/* Whatever signals come. */
static void wait_seconds(double s)
{
	struct timespec t = { .tv_sec = (time_t)s,
		.tv_nsec = (long)((s - (double)(time_t)s) * 1e9) };

	while (nanosleep(&t, &t))
		;
}

static void end_all(pthread_t *idle)
{
	pthread_mutex_lock(&end_lock);
	is_over = true;
	pthread_cond_broadcast(&end_changed);
	pthread_mutex_unlock(&end_lock);
	for (int i = 0; i < NR_KNOWN; i++)
		if (known[i].thread)
			pthread_join(known[i].thread, NULL);
	for (long i = 0; i < nr_idle; i++)
		pthread_join(idle[i], NULL);
}

int main(int argc, char **argv)
{
	static pthread_t idle[IDLE_MAX];
	struct gpu gpu;
	long before;

	parse(argc, argv);
	if (nr_idle > IDLE_MAX || pipe(ping) || pipe(pong))
		return 2;
	if ((is_refused || is_killed) && narrow_seccomp(is_killed))
		return 77;
	if (!no_gpu)
		gpu_open(&gpu, 0);
	before = nr_descriptors();
	for (int i = 0; i < NR_KNOWN - 2 + nr_storm; i++)
		if (pthread_create(&known[i].thread, NULL, run_known,
				   &known[i]))
			return 2;
	for (long i = 0; i < nr_idle; i++)
		if (pthread_create(&idle[i], NULL, run_idle, NULL))
			return 2;
	if (!no_gpu)
		gpu_launch(&gpu, KERNEL_COPY, NULL, 1000);
	if (is_late)
		narrow_late();
	short_threads();
	windows();
	if (has_child)
		fork_child();
	wait_seconds(seconds + 0.15);
	end_all(idle);
	print(before, nr_descriptors());
	if (!no_gpu)
		gpu_close(&gpu);
	return 0;
}
