/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TEST_BENCH_BENCH_H
#define GPUTRACE_TEST_BENCH_BENCH_H

/*
 * What the benchmarks share: clocks and medians, the line that each prints of
 * a figure, and this program run once more, in another state, with the library
 * or without.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BENCH_PATH = 4096 };

static inline uint64_t bench_clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline uint64_t bench_now_ns(void)
{
	return bench_clock_ns(CLOCK_MONOTONIC);
}

static inline int bench_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts the values. */
static inline double bench_median(double *values, size_t nr)
{
	qsort(values, nr, sizeof(*values), bench_compare);
	return values[nr / 2];
}

/* One figure; limit 0: there is none to be held.  The name comes last. */
__attribute__((format(printf, 5, 6)))
static inline void bench_print(double value, const char *unit, double baseline,
			       double limit, const char *name, ...)
{
	va_list arguments;

	va_start(arguments, name);
	printf("{\"name\": \"");
	vprintf(name, arguments);
	printf("\", \"value\": %.3f, \"unit\": \"%s\", \"baseline\": %.3f",
	       value, unit, baseline);
	if (limit > 0)
		printf(", \"limit\": %g", limit);
	printf("}\n");
	fflush(stdout);
	va_end(arguments);
}

/* ---- The build, and the program in it once more ---- */

/* The folder this program's folder lies in. */
static inline void bench_build(char build[BENCH_PATH])
{
	ssize_t len = readlink("/proc/self/exe", build, BENCH_PATH - 1);

	build[len > 0 ? len : 0] = '\0';
	for (int i = 0; i < 2; i++)
		if (strrchr(build, '/'))
			*strrchr(build, '/') = '\0';
}

/* The simulated GPU for programs that are started from here on. */
static inline void bench_simulate(void)
{
	char build[BENCH_PATH], path[2 * BENCH_PATH];
	const char *old = getenv("LD_LIBRARY_PATH");

	bench_build(build);
	snprintf(path, sizeof(path), "%s/sim%s%s", build, old ? ":" : "",
		 old ? old : "");
	setenv("LD_LIBRARY_PATH", path, 1);
}

/* The same where there is no real one. */
static inline void bench_find_gpu(void)
{
	if (access("/dev/nvidiactl", F_OK))
		bench_simulate();
}

static inline void bench_preload(const char *out)
{
	char build[BENCH_PATH], path[BENCH_PATH + 32];

	bench_build(build);
	snprintf(path, sizeof(path), "%s/libgputrace.so", build);
	setenv("LD_PRELOAD", path, 1);
	setenv("GPUTRACE_OUT", out, 1);
	setenv("GPUTRACE_LOG", "quiet", 1);
}

/*
 * Runs this program once more with the argument `state`, after prepare(state)
 * in the child, and reads the `nr` numbers that it prints; with none its
 * output is ours.  0, or -1: it failed, or printed fewer.
 */
static inline int bench_run(const char *state,
			    void (*prepare)(const char *state), double *values,
			    int nr)
{
	int pipes[2], status, n = 0;
	pid_t child;
	FILE *in;

	if (pipe(pipes))
		return -1;
	child = fork();
	if (child == 0) {
		if (nr)
			dup2(pipes[1], STDOUT_FILENO);
		close(pipes[0]);
		close(pipes[1]);
		prepare(state);
		execl("/proc/self/exe", "bench", state, (char *)NULL);
		_exit(127);
	}
	close(pipes[1]);
	in = fdopen(pipes[0], "r");
	while (in && n < nr && fscanf(in, "%lf", &values[n]) == 1)
		n++;
	if (in)
		fclose(in);
	return waitpid(child, &status, 0) == child && !status && n == nr ?
		0 : -1;
}

/* From here on CUDA is in use; or the program ends. */
static inline void bench_use_cuda(void)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	int (*init)(unsigned int) = cuda ?
		(int (*)(unsigned int))dlsym(cuda, "cuInit") : NULL;

	if (init && !init(0))
		return;
	fprintf(stderr, "no CUDA\n");
	exit(EXIT_FAILURE);
}

/* ---- A program of the build that says what one of its calls takes ---- */

/* In the shell's words, where $B is the build's folder. */
struct bench_calls {
	const char *name;               /* of the figure */
	const char *libraries;          /* folders */
	const char *command;            /* prints ns */
	const char *sources;            /* that record it, after "cuda," */
	double nr;                      /* calls in what is printed */
	int limit;                      /* ns more, while recording */
};

/* Below 0: it failed. */
static inline double bench_call_ns(const struct bench_calls *calls,
				   const char *build, const char *settings)
{
	char command[5 * BENCH_PATH];
	double ns = -1;
	FILE *in;

	snprintf(command, sizeof(command), "B='%s'; LD_LIBRARY_PATH=%s "
		 "GPUTRACE_LOG=quiet %s %s", build, calls->libraries, settings,
		 calls->command);
	in = popen(command, "r");
	if (!in || fscanf(in, "%lf", &ns) != 1)
		ns = -1;
	return in && pclose(in) ? -1 : ns / calls->nr;
}

/* Without libgputrace.so, with it but without the source, with the source
 * asleep, and while recording.  0, or -1: it failed. */
static inline int bench_calls(const struct bench_calls *calls)
{
	static const struct {
		const char *name, *start;
		bool has_sources;
	} states[] = {
		{ "loaded", "now", false }, { "asleep", "off", true },
		{ "recording", "now", true },
	};
	char build[BENCH_PATH], settings[2 * BENCH_PATH];
	char out[] = "/tmp/gputrace-bench-XXXXXX.json";
	int fd = mkstemps(out, 5);
	double bare, with = 0;

	if (fd < 0)
		return -1;
	close(fd);
	bench_build(build);
	bare = bench_call_ns(calls, build, "");
	for (int i = 0; i < 3 && bare >= 0 && with >= 0; i++) {
		snprintf(settings, sizeof(settings), "LD_PRELOAD=$B/"
			 "libgputrace.so GPUTRACE_OUT=%s GPUTRACE_START=%s "
			 "GPUTRACE_TRACE=cuda%s%s", out, states[i].start,
			 states[i].has_sources ? "," : "",
			 states[i].has_sources ? calls->sources : "");
		with = bench_call_ns(calls, build, settings);
		/* To be held while off: a jump. */
		if (with >= 0)
			bench_print(with - bare, "ns", bare,
				    i < 2 ? 50 : calls->limit,
				    "%s, %s, added", calls->name,
				    states[i].name);
	}
	unlink(out);
	return bare < 0 || with < 0 ? -1 : 0;
}

#endif
