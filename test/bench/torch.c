/* SPDX-License-Identifier: MIT */
/*
 * What an operator of PyTorch costs more while it is recorded (the source
 * `torch`): its start and end on the simulated PyTorch, which does nothing else
 * but call its observers, between windows and inside one, with and without two
 * tensors to describe.  The program runs itself once, preloaded; bursts fit the
 * thread's ring, with pauses in which the writer drains it; medians.
 *
 * What the real one does for an observer (it boxes the inputs) comes on top:
 * test/bench/torch_ops.py, where there is one.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/sim/torch_sim.h"

enum { OPERATORS = 500, WARM_UP = 100, BURSTS = 101, PAUSE_US = 25000 };

static __typeof__(&simTorchStart) start;
static __typeof__(&simTorchEnd) end;
static struct sim_tensor tensors[2];

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void run_operators(int nr, size_t nr_inputs)
{
	const struct sim_value inputs[] = {
		{ .tensor = &tensors[0], .tag = 1 },
		{ .tensor = &tensors[1], .tag = 1 },
	};
	struct sim_function f = { 0 };

	for (int i = 0; i < nr; i++) {
		start(&f, SIM_FUNCTION, "aten::linear", i, 0, inputs,
		      nr_inputs);
		end(&f);
	}
}

static double median(size_t nr_inputs)
{
	double ns[BURSTS];

	for (int i = 0; i < BURSTS; i++) {
		uint64_t began;

		usleep(PAUSE_US);
		run_operators(WARM_UP, nr_inputs);
		began = now_ns();
		run_operators(OPERATORS, nr_inputs);
		ns[i] = (double)(now_ns() - began) / OPERATORS;
	}
	qsort(ns, BURSTS, sizeof ns[0], compare);
	return ns[BURSTS / 2];
}

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "torch: no %s\n", name);
		exit(EXIT_FAILURE);
	}
	return found;
}

static void window(const char *call)
{
	((int (*)(void))symbol(RTLD_DEFAULT, call))();
	usleep(100000);
}

static int measure(const char *torch_path)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *torch;
	double off, bare, described;

	torch = dlopen(torch_path, RTLD_NOW);
	if (!cuda || !torch) {
		fprintf(stderr, "torch: %s\n", dlerror());
		return EXIT_FAILURE;
	}
	((int (*)(unsigned int))symbol(cuda, "cuInit"))(0);
	start = (__typeof__(start))symbol(torch, "simTorchStart");
	end = (__typeof__(end))symbol(torch, "simTorchEnd");
	for (int i = 0; i < 2; i++)
		((__typeof__(&simTorchTensor))symbol(torch, "simTorchTensor"))(
			&tensors[i], 6, 2, (int64_t[]){ 128, 4096 });
	window("cuProfilerStart");
	run_operators(WARM_UP, 0);
	window("cuProfilerStop");
	off = median(2);
	window("cuProfilerStart");
	bare = median(0);
	described = median(2);
	window("cuProfilerStop");
	printf("{\"name\": \"torch operator, no window\", \"value\": %.2f, "
	       "\"unit\": \"ns\", \"baseline\": %.2f}\n", off, off);
	printf("{\"name\": \"torch operator, recorded\", \"value\": %.2f, "
	       "\"unit\": \"ns\", \"baseline\": %.2f, \"limit\": 250}\n",
	       bare, off);
	printf("{\"name\": \"torch operator, 2 tensors\", \"value\": %.2f, "
	       "\"unit\": \"ns\", \"baseline\": %.2f, \"limit\": 400}\n",
	       described, off);
	return EXIT_SUCCESS;
}

static void set(const char *name, const char *format, const char *build)
{
	char path[8192];

	snprintf(path, sizeof path, format, build);
	setenv(name, path, 1);
}

int main(int argc, char **argv)
{
	const char *build = getenv("O");
	char folder[4096];

	if (argc > 1)
		return measure(argv[1]);
	if (!realpath(build ? build : "build", folder))
		return EXIT_FAILURE;
	set("LD_LIBRARY_PATH", "%s/sim", folder);
	set("LD_PRELOAD", "%s/libgputrace.so", folder);
	setenv("GPUTRACE_OUT", "/dev/null", 1);
	setenv("GPUTRACE_LOG", "quiet", 1);
	setenv("GPUTRACE_TRACE", "cuda,torch", 1);
	setenv("GPUTRACE_START", "profiler-api", 1);
	strncat(folder, "/sim/torch/lib/libtorch_cpu.so",
		sizeof folder - strlen(folder) - 1);
	execl("/proc/self/exe", "torch", folder, (char *)NULL);
	return EXIT_FAILURE;
}
