/* SPDX-License-Identifier: MIT */
/*
 * What an NVTX push and pop cost the program, in four states: without an
 * injection library, with libgputrace.so loaded but no window open, with
 * GPUTRACE_START=off where CUDA is in use, and while recording.  The program
 * runs itself once for each.  A run measures bursts that fit the thread's ring
 * (128 KiB, about 112 bytes a pair), with pauses in which the writer drains
 * it, and reports the median burst.  The first pairs of a burst are not
 * counted: they pay for the core's waking up, which has nothing to do with
 * NVTX; the ring's memory stays as cold as the writer has left it on its core.
 *
 * The states with CUDA need it: the real driver where there is a GPU, else the
 * simulated one beside this program.  "lost" is what the trace says was lost;
 * it must be 0, or the bursts did not record.
 */
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WARM_UP 100
#define PAIRS 500
#define BURSTS 101
#define PAUSE_US 25000

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

static void pairs(int nr)
{
	int i;

	for (i = 0; i < nr; i++) {
		nvtxRangePushA("decoder layer");
		nvtxRangePop();
	}
}

static double burst(void)
{
	uint64_t start;

	pairs(WARM_UP);
	start = now_ns();
	pairs(PAIRS);
	return (double)(now_ns() - start) / PAIRS;
}

static void measure(bool with_cuda)
{
	void *cuda = with_cuda ? dlopen("libcuda.so.1", RTLD_NOW) : NULL;
	int (*init)(unsigned int) = NULL;
	double ns[BURSTS];
	int i;

	if (cuda)
		init = (int (*)(unsigned int))dlsym(cuda, "cuInit");
	if (with_cuda && (!init || init(0))) {
		fprintf(stderr, "nvtx: no CUDA\n");
		exit(EXIT_FAILURE);
	}
	burst();
	for (i = 0; i < BURSTS; i++) {
		usleep(PAUSE_US);
		ns[i] = burst();
	}
	qsort(ns, BURSTS, sizeof(ns[0]), compare);
	printf("%f\n", ns[BURSTS / 2]);
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

static void set_environment(const char *state, const char *build,
			    const char *out)
{
	char path[8192];
	const char *old = getenv("LD_LIBRARY_PATH");

	if (!strcmp(state, "bare"))
		return;
	if (access("/dev/nvidiactl", F_OK)) {
		snprintf(path, sizeof(path), "%s/sim%s%s", build,
			 old ? ":" : "", old ? old : "");
		setenv("LD_LIBRARY_PATH", path, 1);
	}
	snprintf(path, sizeof(path), "%s/libgputrace.so", build);
	setenv("LD_PRELOAD", path, 1);
	setenv("GPUTRACE_OUT", out, 1);
	setenv("GPUTRACE_LOG", "quiet", 1);
	setenv("GPUTRACE_START", !strcmp(state, "recording") ? "now" :
	       !strcmp(state, "asleep") ? "off" : "profiler-api", 1);
}

/* Runs this program in one state; returns ns a pair, below 0 on failure. */
static double run(const char *state, const char *build, const char *out)
{
	double ns = -1;
	int pipes[2], status;
	pid_t child;
	FILE *in;

	if (pipe(pipes))
		return -1;
	child = fork();
	if (child == 0) {
		dup2(pipes[1], STDOUT_FILENO);
		close(pipes[0]);
		set_environment(state, build, out);
		execl("/proc/self/exe", "nvtx", state, (char *)NULL);
		_exit(127);
	}
	close(pipes[1]);
	in = fdopen(pipes[0], "r");
	if (!in || fscanf(in, "%lf", &ns) != 1)
		ns = -1;
	if (in)
		fclose(in);
	if (waitpid(child, &status, 0) != child || status)
		return -1;
	return ns;
}

/* The number after "ring full" in the trace; -1 without a trace. */
static long lost(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[65536], *at;
	long n = 0;

	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file)) {
		at = strstr(line, "\"ring full\"");
		if (at && (at = strchr(at, ':')))
			n = strtol(at + 1, NULL, 10);
	}
	fclose(file);
	return n;
}

int main(int argc, char **argv)
{
	char build[4096], out[] = "/tmp/gputrace-bench-XXXXXX.json";
	double bare, idle, asleep, recording;
	int fd;

	if (argc > 1) {
		measure(strcmp(argv[1], "bare"));
		return EXIT_SUCCESS;
	}
	fd = mkstemps(out, 5);
	if (fd < 0)
		return EXIT_FAILURE;
	close(fd);
	unlink(out);
	build_folder(build, sizeof(build));
	bare = run("bare", build, out);
	idle = run("idle", build, out);
	asleep = run("asleep", build, out);
	recording = run("recording", build, out);
	printf("{\"name\": \"nvtx pair, no tool\", \"value\": %.2f, "
	       "\"unit\": \"ns\", \"baseline\": %.2f}\n", bare, bare);
	printf("{\"name\": \"nvtx pair, loaded\", \"value\": %.2f, "
	       "\"unit\": \"ns\", \"baseline\": %.2f, \"limit\": 25}\n",
	       idle, bare);
	printf("{\"name\": \"nvtx pair, asleep\", \"value\": %.2f, "
	       "\"unit\": \"ns\", \"baseline\": %.2f, \"limit\": 25}\n",
	       asleep, bare);
	printf("{\"name\": \"nvtx pair, recording\", \"value\": %.2f, "
	       "\"unit\": \"ns\", \"baseline\": %.2f, \"limit\": 100, "
	       "\"lost\": %ld}\n", recording, bare, lost(out));
	unlink(out);
	return bare < 0 || idle < 0 || asleep < 0 || recording < 0;
}
