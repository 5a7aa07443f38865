/* SPDX-License-Identifier: MIT */
/*
 * What GPUTRACE_TRACE=cpu costs: CPU time of its thread with 50 threads of the
 * program, and how much slower a loop and a pair of context switches become.
 * One program with the library, which opens and closes windows
 * (GPUTRACE_START=profiler-api): the baseline is between them, in turn.  Once
 * with context switches from the kernel, once under a filter of system calls
 * that refuses them, so that all is sampled.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "test/bench/bench.h"

enum {
	ROUNDS = 25,
	THREADS = 50,
	PAIRS = 4000,
	LOOPS = 20000000,
	SAMPLER_S = 3,
};

static char out[] = "/tmp/gputrace-bench-XXXXXX.json";
static int (*start)(void), (*stop)(void);
static int there[2], back[2];

/* ---- What is measured ---- */

/* In CPU time, so that other programs do not count. */
static double loop_ms(void)
{
	uint64_t begin = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);

	for (volatile int i = 0; i < LOOPS; i++)
		;
	return (double)(bench_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin) /
		1e6;
}

static void *answer(void *argument)
{
	char byte;

	while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
		;
	return argument;
}

/* There and back: four switches, on one CPU or two. */
static double pair_us(void)
{
	uint64_t begin = bench_now_ns();
	char byte = 0;

	for (int i = 0; i < PAIRS; i++)
		if (write(there[1], &byte, 1) != 1 ||
		    read(back[0], &byte, 1) != 1)
			exit(EXIT_FAILURE);
	return (double)(bench_now_ns() - begin) / 1e3 / PAIRS;
}

static void measure(const char *what, const char *mode, const char *unit,
		    double (*once)(void))
{
	double without[ROUNDS], with[ROUNDS];

	once();
	for (int i = 0; i < ROUNDS; i++) {
		without[i] = once();
		start();
		usleep(30000);          /* it has found its threads */
		with[i] = once();
		stop();
	}
	bench_print(bench_median(with, ROUNDS), unit,
		    bench_median(without, ROUNDS), 0, "cpu, %s, %s", what,
		    mode);
}

/* The run time of the thread that is called so, from schedstat. */
static uint64_t run_ns_of(const char *wanted)
{
	DIR *folder = opendir("/proc/self/task");
	unsigned long long run = 0;
	struct dirent *entry;
	char path[300], name[32];
	FILE *file;

	while (folder && !run && (entry = readdir(folder))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
			 entry->d_name);
		file = fopen(path, "r");
		if (!file || !fgets(name, sizeof(name), file))
			name[0] = 0;
		if (file)
			fclose(file);
		name[strcspn(name, "\n")] = 0;
		if (strcmp(name, wanted))
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat",
			 entry->d_name);
		file = fopen(path, "r");
		if (file && fscanf(file, "%llu", &run) != 1)
			run = 0;
		if (file)
			fclose(file);
	}
	if (folder)
		closedir(folder);
	return run;
}

/* As a server's: most wait 10 ms, some 1 ms. */
static void *doze(void *argument)
{
	for (;;)
		usleep(argument != NULL ? 1000 : 10000);
	return NULL;
}

static void measure_sampler(const char *mode)
{
	pthread_t thread;
	uint64_t run, begin;

	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&thread, NULL, doze,
				   (void *)(intptr_t)(i % 10 == 0)))
			exit(EXIT_FAILURE);
	start();
	usleep(200000);
	begin = bench_now_ns();
	run = run_ns_of("gputrace-cpu");
	sleep(SAMPLER_S);
	run = run_ns_of("gputrace-cpu") - run;
	bench_print((double)run * 1e3 / (double)(bench_now_ns() - begin),
		    "ms/s", 0, 0, "cpu, its thread, 50 others, %s", mode);
	stop();
}

static int measure_all(const char *mode)
{
	pthread_t thread;

	bench_use_cuda();
	/* The library's, which knows when the program wants a profile. */
	start = (int (*)(void))dlsym(RTLD_DEFAULT, "cuProfilerStart");
	stop = (int (*)(void))dlsym(RTLD_DEFAULT, "cuProfilerStop");
	if (!start || !stop || pipe(there) || pipe(back) ||
	    pthread_create(&thread, NULL, answer, NULL)) {
		fprintf(stderr, "cpu: no library, or no thread\n");
		return EXIT_FAILURE;
	}
	measure("loop", mode, "ms", loop_ms);
	measure("there and back", mode, "us", pair_us);
	measure_sampler(mode);
	return EXIT_SUCCESS;
}

/* ---- The program in two modes ---- */

static void refuse_perf(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(EXIT_FAILURE);
}

static void prepare(const char *mode)
{
	bench_find_gpu();
	bench_preload(out);
	setenv("GPUTRACE_TRACE", "cuda,cpu", 1);
	setenv("GPUTRACE_START", "profiler-api", 1);
	if (!strcmp(mode, "sampled"))
		refuse_perf();
}

int main(int argc, char **argv)
{
	int fd, failed;

	if (argc > 1)
		return measure_all(argv[1]);
	fd = mkstemps(out, 5);
	if (fd < 0)
		return EXIT_FAILURE;
	close(fd);
	failed = bench_run("exact", prepare, NULL, 0) +
		bench_run("sampled", prepare, NULL, 0);
	unlink(out);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
