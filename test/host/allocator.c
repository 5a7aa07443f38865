/* SPDX-License-Identifier: MIT */
/*
 * allocator: a program that allocates with PyTorch's caching allocator, the
 * simulated one (test/sim/c10_sim.h).
 *
 *	allocator FOLDER MODE [N [THREADS]]
 *
 *	steps     N rounds of allocations and frees on two devices, one that
 *	          does not fit, and a file
 *	busy      THREADS threads of N rounds each, all on both devices
 *	windows   N windows with a round in each, and one between two
 *	fork      a child that allocates, N times
 *	constructor   the first allocation, while a library's constructor (of
 *	          the file N) allocates too, under the loader's lock
 *	burst     THREADS bursts (at most 64) of N pairs of an allocation and its
 *	          free, 25 ms apart: the median of ns a pair, on stdout
 *
 * libc10_cuda.so of FOLDER is loaded as Python loads PyTorch: nobody else sees
 * its symbols.  What was done is printed: "device N" are the allocator's own
 * counts, "told" is what came through to libc10.so.
 */
#include <cudaProfiler.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/host/gpu.h"
#include "test/sim/c10_sim.h"

static struct gpu gpu;
static __typeof__(&simC10Malloc) allocate;
static __typeof__(&simC10Free) release;
static __typeof__(&simC10Stats) get_stats;
static __typeof__(&simC10File) map_file;
static __typeof__(&simC10Told) get_told;

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "%s\n", dlerror());
		exit(EXIT_FAILURE);
	}
	return found;
}

static void load(const char *folder)
{
	char path[4096];
	void *library;

	snprintf(path, sizeof path, "%s/libc10_cuda.so", folder);
	library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(EXIT_FAILURE);
	}
	allocate = (__typeof__(allocate))symbol(library, "simC10Malloc");
	release = (__typeof__(release))symbol(library, "simC10Free");
	get_stats = (__typeof__(get_stats))symbol(library, "simC10Stats");
	map_file = (__typeof__(map_file))symbol(library, "simC10File");
	get_told = (__typeof__(get_told))symbol(library, "simC10Told");
}

/* 3 blocks of each device, then free: the sizes go round. */
static void one_round(long i)
{
	void *blocks[6];

	for (int k = 0; k < 6; k++) {
		errno = 7;
		blocks[k] = allocate(k % 2, (uint64_t)(i * 7919 + k * 104729) %
				     1000000 + 1);
		if (errno != 7 || !blocks[k])
			TALLY("did", "errors", 1);
	}
	for (int k = 0; k < 6; k++)
		release(blocks[k]);
}

static void steps(long nr)
{
	void *kept = allocate(0, 5000000);      /* to the end */

	for (long i = 0; i < nr; i++)
		one_round(i);
	if (allocate(1, SIM_C10_CAPACITY + 1))
		TALLY("did", "errors", 1);
	map_file(12345);
	TALLY("did", "kept", kept != NULL);
}

static void *run_rounds(void *nr)
{
	for (long i = 0; i < *(long *)nr; i++) {
		one_round(i);
		if (i % 50 == 49)
			usleep(20000);  /* for the writer to keep up */
	}
	return NULL;
}

static void busy(long nr, long nr_threads)
{
	pthread_t threads[64];

	for (long i = 0; i < nr_threads; i++)
		if (pthread_create(&threads[i], NULL, run_rounds, &nr))
			exit(EXIT_FAILURE);
	for (long i = 0; i < nr_threads; i++)
		pthread_join(threads[i], NULL);
}

static void windows(long nr)
{
	for (long i = 0; i < nr; i++) {
		one_round(1);
		CU(cuProfilerStart);
		one_round(2);
		CU(cuProfilerStop);
	}
}

static void forks(long nr)
{
	int status;

	for (long i = 0; i < nr; i++) {
		pid_t child = fork();

		if (!child) {
			one_round(i);
			_exit(0);
		}
		if (waitpid(child, &status, 0) != child || status)
			exit(EXIT_FAILURE);
		TALLY("did", "children", 1);
		one_round(i);
	}
}

/* ---- constructor ---- */

static _Atomic int is_in_constructor;

static void in_constructor(void)
{
	is_in_constructor = 1;
	usleep(200000);         /* the other has the allocator's lock by then */
	one_round(1);
}

static void *allocate_beside(void *unused)
{
	while (!is_in_constructor)
		usleep(1000);
	one_round(2);
	return unused;
}

static void constructor(const char *path)
{
	pthread_t thread;
	char address[32];

	snprintf(address, sizeof address, "%lx",
		 (unsigned long)(uintptr_t)in_constructor);
	setenv("IN_CONSTRUCTOR", address, 1);
	if (pthread_create(&thread, NULL, allocate_beside, NULL) ||
	    !dlopen(path, RTLD_NOW))
		exit(EXIT_FAILURE);
	pthread_join(thread, NULL);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void pairs(long nr)
{
	for (long i = 0; i < nr; i++)
		release(allocate(0, 4096));
}

static void burst(long nr, long nr_bursts)
{
	double ns[64];

	for (long i = 0; i < nr_bursts; i++) {
		uint64_t began;

		usleep(25000);
		pairs(100);     /* warms up */
		began = now_ns();
		pairs(nr);
		ns[i] = (double)(now_ns() - began) / (double)nr;
	}
	qsort(ns, (size_t)nr_bursts, sizeof *ns, by_value);
	printf("%.1f\n", ns[nr_bursts / 2]);
}

#define TELL_DEVICE(section, n) do {					\
	struct sim_c10_stats stats;					\
									\
	get_stats(n, &stats);						\
	TALLY(section, "allocated", (long)stats.allocated);		\
	TALLY(section, "reserved", (long)stats.reserved);		\
	TALLY(section, "peak", (long)stats.peak);			\
	TALLY(section, "reserved peak", (long)stats.reserved_peak);	\
	TALLY(section, "allocations", (long)stats.nr_allocations);	\
	TALLY(section, "frees", (long)stats.nr_frees);			\
	TALLY(section, "failed", (long)stats.nr_failed);		\
	TALLY(section, "allocated in all", (long)stats.allocated_in_all); \
	TALLY(section, "freed in all", (long)stats.freed_in_all);	\
} while (0)

static void tell(void)
{
	struct sim_c10_told told;

	get_told(&told);
	TALLY("told", "usage", (long)told.nr_usage);
	TALLY("told", "failed", (long)told.nr_failed);
	TALLY("told", "bytes", (long)told.bytes);
	TALLY("told", "errors", (long)told.errors);
	TELL_DEVICE("device 0", 0);
	TELL_DEVICE("device 1", 1);
	TALLY("did", "errors", 0);
}

int main(int argc, char **argv)
{
	long nr = argc > 3 ? atol(argv[3]) : 3;
	long nr_threads = argc > 4 ? atol(argv[4]) : 8;
	const char *mode = argc > 2 ? argv[2] : "";

	if (argc < 3)
		return 2;
	gpu_open(&gpu, 0);
	gpu_launch(&gpu, KERNEL_COPY, NULL, 1000);
	load(argv[1]);
	if (!strcmp(mode, "steps"))
		steps(nr);
	else if (!strcmp(mode, "busy"))
		busy(nr, nr_threads);
	else if (!strcmp(mode, "windows"))
		windows(nr);
	else if (!strcmp(mode, "fork"))
		forks(nr);
	else if (!strcmp(mode, "constructor") && argc > 3)
		constructor(argv[3]);
	else if (!strcmp(mode, "burst"))
		burst(nr, nr_threads);
	gpu_close(&gpu);
	tell();
	tally_print();
	return EXIT_SUCCESS;
}
