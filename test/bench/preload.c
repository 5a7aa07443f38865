/* SPDX-License-Identifier: MIT */
/*
 * What LD_PRELOAD=libgputrace.so adds to a program that does not use CUDA:
 * /bin/true with and without it, alternated, the medians compared; and the
 * threads, sockets, files and libcupti that it brings into host/inert.
 */
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RUNS 301

extern char **environ;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

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

/* Milliseconds of one run of /bin/true, below 0 if it failed. */
static double run_true(char *const *environment)
{
	char *argv[] = { "true", NULL };
	uint64_t start = now_ns();
	int status;
	pid_t child;

	if (posix_spawn(&child, "/bin/true", NULL, NULL, argv, environment) ||
	    waitpid(child, &status, 0) != child || status)
		return -1;
	return (now_ns() - start) / 1e6;
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
	base = median(plain, RUNS);
	value = median(loaded, RUNS);
	printf("{\"name\": \"preload on /bin/true, added\", \"value\": %.3f, "
	       "\"unit\": \"ms\", \"baseline\": %.3f, \"limit\": 0.5}\n",
	       value - base, base);
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
	printf("{\"name\": \"preload without CUDA, %s\", \"value\": %ld, "
	       "\"unit\": \"count\", \"baseline\": %ld}\n", what,
	       with, without);
}

int main(void)
{
	char build[4096], preload[4200], variable[4300];
	char *without[] = { "PATH=/usr/bin:/bin", NULL };
	char *with[] = { "PATH=/usr/bin:/bin", variable, NULL };
	struct facts plain, loaded;

	build_folder(build, sizeof(build));
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
