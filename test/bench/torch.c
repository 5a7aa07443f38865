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
#include "test/bench/bench.h"
#include "test/sim/torch_sim.h"

enum { OPERATORS = 500, WARM_UP = 100, BURSTS = 101, PAUSE_US = 25000 };

static __typeof__(&simTorchStart) start;
static __typeof__(&simTorchEnd) end;
static struct sim_tensor tensors[2];

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
		began = bench_now_ns();
		run_operators(OPERATORS, nr_inputs);
		ns[i] = (double)(bench_now_ns() - began) / OPERATORS;
	}
	return bench_median(ns, BURSTS);
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
	double off, bare, described;
	void *torch;

	bench_use_cuda();
	torch = dlopen(torch_path, RTLD_NOW);
	if (!torch) {
		fprintf(stderr, "torch: %s\n", dlerror());
		return EXIT_FAILURE;
	}
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
	bench_print(off, "ns", off, 0, "torch operator, no window");
	bench_print(bare, "ns", off, 250, "torch operator, recorded");
	bench_print(described, "ns", off, 400, "torch operator, 2 tensors");
	return EXIT_SUCCESS;
}

static void prepare(const char *torch_path)
{
	(void)torch_path;
	bench_simulate();
	bench_preload("/dev/null");
	setenv("GPUTRACE_TRACE", "cuda,torch", 1);
	setenv("GPUTRACE_TORCH_SHAPES", "on", 1);
	setenv("GPUTRACE_START", "profiler-api", 1);
}

int main(int argc, char **argv)
{
	char build[BENCH_PATH], torch[BENCH_PATH + 64];

	if (argc > 1)
		return measure(argv[1]);
	bench_build(build);
	snprintf(torch, sizeof torch, "%s/sim/torch/lib/libtorch_cpu.so",
		 build);
	return bench_run(torch, prepare, NULL, 0) ? EXIT_FAILURE :
		EXIT_SUCCESS;
}
