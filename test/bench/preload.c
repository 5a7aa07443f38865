/* SPDX-License-Identifier: MIT */
/*
 * What LD_PRELOAD=libgputrace.so adds to a program that does not use CUDA:
 * /bin/true with and without it, alternated, the medians compared; and the
 * threads, sockets, files and libcupti that it brings into host/inert.
 */
#include <spawn.h>

#include "test/bench/bench.h"

#define RUNS 301

extern char **environ;

/* Milliseconds of one run of /bin/true, below 0 if it failed. */
static double run_true(char *const *environment)
{
	char *argv[] = { "true", NULL };
	uint64_t start = bench_now_ns();
	int status;
	pid_t child;

	if (posix_spawn(&child, "/bin/true", NULL, NULL, argv, environment) ||
	    waitpid(child, &status, 0) != child || status)
		return -1;
	return (double)(bench_now_ns() - start) / 1e6;
}

static int report_time(char *const *with, char *const *without)
{
	double plain[RUNS], loaded[RUNS], base, value;
	int i;

	for (i = 0; i < RUNS; i++) {
		plain[i] = run_true(without);
		loaded[i] = run_true(with);
		if (plain[i] < 0 || loaded[i] < 0)
			return 1;
	}
	base = bench_median(plain, RUNS);
	value = bench_median(loaded, RUNS);
	bench_print(value - base, "ms", base, 0.5,
		    "preload on /bin/true, added");
	return 0;
}

struct facts {
	long threads, sockets, files, cupti, preloaded;
};

static int inert_facts(const char *build, const char *preload,
		       struct facts *facts)
{
	char command[16384];
	FILE *in;
	int n;

	snprintf(command, sizeof(command), "LD_LIBRARY_PATH='%s/sim' "
		 "LD_PRELOAD='%s' '%s/host/inert' --nvtx", build, preload,
		 build);
	in = popen(command, "r");
	if (!in)
		return 1;
	n = fscanf(in, "{\"threads\": %ld, \"sockets\": %ld, \"files\": %ld, "
		   "\"cupti\": %ld, \"preloaded\": %ld}", &facts->threads,
		   &facts->sockets, &facts->files, &facts->cupti,
		   &facts->preloaded);
	return pclose(in) || n != 5;
}

static void print_count(const char *what, long with, long without)
{
	bench_print((double)with, "count", (double)without, 0,
		    "preload without CUDA, %s", what);
}

int main(void)
{
	char build[BENCH_PATH], preload[4200], variable[4300];
	char *without[] = { "PATH=/usr/bin:/bin", NULL };
	char *with[] = { "PATH=/usr/bin:/bin", variable, NULL };
	struct facts plain, loaded;

	bench_build(build);
	snprintf(preload, sizeof(preload), "%s/libgputrace.so", build);
	snprintf(variable, sizeof(variable), "LD_PRELOAD=%s", preload);
	if (report_time(with, without) || inert_facts(build, "", &plain) ||
	    inert_facts(build, preload, &loaded) || !loaded.preloaded)
		return EXIT_FAILURE;
	print_count("threads", loaded.threads, plain.threads);
	print_count("sockets", loaded.sockets, plain.sockets);
	print_count("files", loaded.files, plain.files);
	print_count("libcupti", loaded.cupti, plain.cupti);
	return EXIT_SUCCESS;
}
