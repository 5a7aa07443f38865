/* SPDX-License-Identifier: MIT */
/*
 * threads: launches and ranges from many threads.
 *
 *	threads [--threads N] [--short N] [--ranges R] [--kernels K]
 *
 * Shows: N threads at once, each with R ranges and K kernels on a stream of
 * its own; or, with --short, N threads one after another, as a server makes
 * one for each request.  Prints its peak memory in kB: the trace library's
 * share must follow the threads alive at once.
 */
#include <getopt.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/host/gpu.h"

#define MAX_THREADS 1024

static long nr_threads = 4, nr_short, nr_ranges = 10, nr_kernels = 10;
static struct gpu gpu;

static void work(CUstream stream)
{
	char name[32];
	long i;

	for (i = 0; i < nr_ranges; i++) {
		snprintf(name, sizeof(name), "range %ld", i);
		nvtxRangePushA(name);
		nvtxRangePop();
	}
	TALLY("ranges", "range", nr_ranges);
	nvtxRangePushA("launches");
	for (i = 0; i < nr_kernels; i++)
		gpu_launch(&gpu, i % NR_KERNELS, stream, 2000);
	nvtxRangePop();
	TALLY("ranges", "launches", 1);
	TALLY("gpu", "kernels", nr_kernels);
}

/* VmHWM: getrusage() would show the parent's memory too, if that was larger
 * when it started us. */
static long peak_kb(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[256];
	long kb = 0;

	while (status && fgets(line, sizeof(line), status))
		if (!strncmp(line, "VmHWM:", 6))
			kb = atol(line + 6);
	if (status)
		fclose(status);
	return kb;
}

static void *worker(void *arg)
{
	char name[16];
	CUstream stream;

	snprintf(name, sizeof(name), "worker %ld", (long)arg);
	pthread_setname_np(pthread_self(), name);
	gpu_use(&gpu);
	CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	work(stream);
	CU(cuStreamSynchronize, stream);
	CU(cuStreamDestroy, stream);
	return NULL;
}

static void *short_worker(void *arg)
{
	(void)arg;
	gpu_use(&gpu);
	work(NULL);
	return NULL;
}

static void run_at_once(void)
{
	pthread_t threads[MAX_THREADS];
	long i;

	for (i = 0; i < nr_threads; i++)
		if (pthread_create(&threads[i], NULL, worker, (void *)i))
			exit(EXIT_FAILURE);
	for (i = 0; i < nr_threads; i++)
		pthread_join(threads[i], NULL);
}

static void run_one_by_one(void)
{
	pthread_t thread;
	long i;

	for (i = 0; i < nr_short; i++) {
		if (pthread_create(&thread, NULL, short_worker, NULL))
			exit(EXIT_FAILURE);
		pthread_join(thread, NULL);
		if (i % 100 == 99)
			CU(cuCtxSynchronize);
	}
}

static const struct option long_options[] = {
	{ "threads", required_argument, NULL, 't' },
	{ "short", required_argument, NULL, 's' },
	{ "ranges", required_argument, NULL, 'r' },
	{ "kernels", required_argument, NULL, 'k' },
	{ NULL, 0, NULL, 0 },
};

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case 't': nr_threads = atol(optarg); break;
		case 's': nr_short = atol(optarg); break;
		case 'r': nr_ranges = atol(optarg); break;
		case 'k': nr_kernels = atol(optarg); break;
		default: exit(2);
		}
	}
	if (nr_threads < 1 || nr_threads > MAX_THREADS)
		exit(2);
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	gpu_open(&gpu, 0);
	if (nr_short)
		run_one_by_one();
	else
		run_at_once();
	gpu_close(&gpu);
	TALLY("memory", "peak_kb", peak_kb());
	tally_print();
	return EXIT_SUCCESS;
}
