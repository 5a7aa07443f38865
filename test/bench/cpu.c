/* SPDX-License-Identifier: MIT */
/*
 * What GPUTRACE_TRACE=cpu costs: CPU time of its thread with 50 threads of the
 * program, and how much slower a loop and a pair of context switches become.
 * One program with the library, which opens and closes windows
 * (GPUTRACE_START=profiler-api): the baseline is between them, in turn.  Once
 * with context switches from the kernel, once under a filter of system calls
 * that refuses them, so that all is sampled.
 */
#include <cudaProfiler.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	ROUNDS = 25,
	THREADS = 50,
	PAIRS = 4000,
	LOOPS = 20000000,
	SAMPLER_S = 3,
};

static int (*start)(void), (*stop)(void);
static int there[2], back[2];

static uint64_t now_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), compare);
	return values[ROUNDS / 2];
}

/* ---- What is measured ---- */

/* In CPU time, so that other programs do not count. */
static double loop_ms(void)
{
	uint64_t begin = now_ns(CLOCK_THREAD_CPUTIME_ID);

	for (volatile int i = 0; i < LOOPS; i++)
		;
	return (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / 1e6;
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
	uint64_t begin = now_ns(CLOCK_MONOTONIC);
	char byte = 0;

	for (int i = 0; i < PAIRS; i++)
		if (write(there[1], &byte, 1) != 1 ||
		    read(back[0], &byte, 1) != 1)
			exit(EXIT_FAILURE);
	return (double)(now_ns(CLOCK_MONOTONIC) - begin) / 1e3 / PAIRS;
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
	printf("{\"name\": \"cpu, %s, %s\", \"value\": %.3f, \"unit\": \"%s\", "
	       "\"baseline\": %.3f}\n", what, mode, median(with), unit,
	       median(without));
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
		if (pthread_create(&thread, NULL, doze, (void *)(intptr_t)(i % 10 == 0)))
			exit(EXIT_FAILURE);
	start();
	usleep(200000);
	begin = now_ns(CLOCK_MONOTONIC);
	run = run_ns_of("gputrace-cpu");
	sleep(SAMPLER_S);
	run = run_ns_of("gputrace-cpu") - run;
	printf("{\"name\": \"cpu, its thread, 50 others, %s\", \"value\": "
	       "%.3f, \"unit\": \"ms/s\", \"baseline\": 0}\n", mode,
	       (double)run * 1e3 / (double)(now_ns(CLOCK_MONOTONIC) - begin));
	stop();
}

static int measure_all(const char *mode)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	int (*init)(unsigned int) = NULL;
	pthread_t thread;

	if (cuda)
		init = (int (*)(unsigned int))dlsym(cuda, "cuInit");
	/* The library's, which knows when the program wants a profile. */
	start = (int (*)(void))dlsym(RTLD_DEFAULT, "cuProfilerStart");
	stop = (int (*)(void))dlsym(RTLD_DEFAULT, "cuProfilerStop");
	if (!init || init(0) || !start || !stop || pipe(there) ||
	    pipe(back) || pthread_create(&thread, NULL, answer, NULL)) {
		fprintf(stderr, "cpu: no CUDA, or no thread\n");
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

/* The folder this program's folder lies in: the build. */
static void build_folder(char *path, size_t size)
{
	ssize_t len = readlink("/proc/self/exe", path, size - 1);

	path[len > 0 ? len : 0] = '\0';
	for (int i = 0; i < 2; i++)
		if (strrchr(path, '/'))
			*strrchr(path, '/') = '\0';
}

static int run(const char *mode, const char *out)
{
	char build[4096], path[8192];
	const char *old = getenv("LD_LIBRARY_PATH");
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		build_folder(build, sizeof(build));
		if (access("/dev/nvidiactl", F_OK)) {
			snprintf(path, sizeof(path), "%s/sim%s%s", build,
				 old ? ":" : "", old ? old : "");
			setenv("LD_LIBRARY_PATH", path, 1);
		}
		snprintf(path, sizeof(path), "%s/libgputrace.so", build);
		setenv("LD_PRELOAD", path, 1);
		setenv("GPUTRACE_OUT", out, 1);
		setenv("GPUTRACE_LOG", "quiet", 1);
		setenv("GPUTRACE_TRACE", "cuda,cpu", 1);
		setenv("GPUTRACE_START", "profiler-api", 1);
		if (!strcmp(mode, "sampled"))
			refuse_perf();
		execl("/proc/self/exe", "cpu", mode, (char *)NULL);
		_exit(127);
	}
	return waitpid(child, &status, 0) == child && !status ? 0 : 1;
}

int main(int argc, char **argv)
{
	char out[] = "/tmp/gputrace-bench-XXXXXX.json";
	int fd, failed;

	if (argc > 1)
		return measure_all(argv[1]);
	fd = mkstemps(out, 5);
	if (fd < 0)
		return EXIT_FAILURE;
	close(fd);
	failed = run("exact", out) + run("sampled", out);
	unlink(out);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
