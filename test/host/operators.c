/* SPDX-License-Identifier: MIT */
/*
 * operators: a program on PyTorch, the simulated one (test/sim/torch_sim.h).
 *
 *	operators TORCH MODE [N [THREADS|LIBRARY]]
 *
 *	steps     N steps "ProfilerStep#<i>" of operators that launch a kernel
 *	          each, one inside another, a backward one, one with long names
 *	          and many inputs
 *	edges     operators across the edges of N windows, and ends that come
 *	          out of turn or on another thread
 *	busy      THREADS threads of operators and nothing else while N windows
 *	          open and close
 *	fork      operators in the children of N forks, while a thread goes on
 *	rate      N operators, 150,000 or RATE a second, called by LIBRARY's
 *	          through(), of a thread that has had a range before, or with a
 *	          further argument has more of them while the window opens
 *	absent    no PyTorch at all: TORCH is not loaded
 *
 * TORCH is loaded after cuInit, so that a window may be open before.  What was
 * done is printed; "torch" is what the list of callbacks saw.
 */
#include <cudaProfiler.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/host/gpu.h"
#include "test/sim/torch_sim.h"

static struct gpu gpu;
static __typeof__(&simTorchTensor) make_tensor;
static __typeof__(&simTorchStart) start;
static __typeof__(&simTorchSetAsync) set_async;
static __typeof__(&simTorchEnd) end;
static __typeof__(&simTorchCounts) get_counts;
static struct sim_tensor matrix, deep, nothing;
static _Atomic int must_stop;
static _Atomic long nr_done;

static void load(const char *path)
{
	void *torch = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!torch) {
		fprintf(stderr, "%s\n", dlerror());
		exit(EXIT_FAILURE);
	}
	make_tensor = (__typeof__(make_tensor))dlsym(torch, "simTorchTensor");
	start = (__typeof__(start))dlsym(torch, "simTorchStart");
	set_async = (__typeof__(set_async))dlsym(torch, "simTorchSetAsync");
	end = (__typeof__(end))dlsym(torch, "simTorchEnd");
	get_counts = (__typeof__(get_counts))dlsym(torch, "simTorchCounts");
	make_tensor(&matrix, 15, 2, (int64_t[]){ 128, 4096 });
	make_tensor(&deep, 6, 6, (int64_t[]){ 1, 2, 3, 4, 5, 6 });
	make_tensor(&nothing, SIM_UNDEFINED, 1, (int64_t[]){ 0 });
}

/* Until observers are there (2 callbacks), or five seconds. */
static void wait_for_observers(void)
{
	struct sim_counts counts;

	for (int i = 0; i < 500; i++) {
		get_counts(&counts);
		if (counts.listed)
			return;
		usleep(10000);
	}
}

static void begin(struct sim_function *function, enum sim_scope scope,
		  const char *name, int64_t sequence)
{
	start(function, scope, name, sequence, 0, NULL, 0);
}

static void linear(long i)
{
	struct sim_function outer = { 0 }, inner = { 0 };
	const struct sim_value inputs[] = {
		{ .tensor = &matrix, .tag = 1 }, { .tensor = &deep, .tag = 1 },
		{ .number = 3, .tag = 5 }, { .real = 0.5, .tag = 3 },
		{ .tag = 0 }, { .tensor = &nothing, .tag = 1 },
	};

	start(&outer, SIM_FUNCTION, "aten::linear", i, 0, inputs, 2);
	start(&inner, SIM_FUNCTION, "aten::addmm", -1, 0, inputs, 6);
	gpu_launch(&gpu, KERNEL_GEMM_UP, NULL, 2000);
	end(&inner);
	gpu_launch(&gpu, KERNEL_SILU, NULL, 2000);
	end(&outer);
	TALLY("operators", "aten::linear", 1);
	TALLY("operators", "aten::addmm", 1);
}

static void odd_ones(void)
{
	static char name[3000];
	struct sim_function f = { 0 };
	struct sim_value many[40];

	memset(name, 'n', sizeof name - 1);
	for (int i = 0; i < 40; i++)
		many[i] = (struct sim_value){ .tensor = &deep, .tag = 1 };
	start(&f, SIM_BACKWARD, "AddmmBackward0", 7, 5, many, 20);
	end(&f);
	start(&f, SIM_FUNCTION, name, -1, 0, many, 40);
	end(&f);
	start(&f, SIM_FUNCTION, "say \"\\\n\"", -1, 0, NULL, 0);
	end(&f);
	start(&f, SIM_DTYPE, "not an operator", -1, 0, NULL, 0);
	end(&f);
	set_async(&f);
	begin(&f, SIM_USER, "nccl:all_reduce", -1);
	end(&f);
	TALLY("operators", "AddmmBackward0", 1);
}

static void steps(long nr)
{
	struct sim_function step = { 0 }, loader = { 0 };
	char name[40];

	wait_for_observers();
	for (long i = 0; i < nr; i++) {
		snprintf(name, sizeof name, "ProfilerStep#%ld", i);
		begin(&step, SIM_USER, name, -1);
		begin(&loader, SIM_USER, "enumerate(DataLoader)#_SingleProcess"
		      "DataLoaderIter.__next__", -1);
		end(&loader);
		linear(2 * i);
		linear(2 * i + 1);
		odd_ones();
		end(&step);
		TALLY("ranges", "steps", 1);
	}
	CU(cuCtxSynchronize);
}

/* ---- Edges ---- */

static void *end_it(void *function)
{
	end(function);
	return NULL;
}

static void end_elsewhere(struct sim_function *function)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, end_it, function))
		exit(EXIT_FAILURE);
	pthread_join(thread, NULL);
}

static void window(void)
{
	struct sim_function before = { 0 }, lost = { 0 }, around = { 0 },
			    first = { 0 }, second = { 0 }, across = { 0 };

	begin(&before, SIM_FUNCTION, "before", -1);
	CU(cuProfilerStart);
	wait_for_observers();
	begin(&around, SIM_FUNCTION, "around", -1);
	begin(&lost, SIM_FUNCTION, "ends elsewhere", -1);
	end_elsewhere(&lost);
	end(&around);           /* and with it the one that is left */
	begin(&first, SIM_USER, "first", -1);
	begin(&second, SIM_USER, "second", -1);
	end(&first);            /* out of turn: both are over */
	end(&second);
	linear(1);
	begin(&across, SIM_FUNCTION, "across the close", -1);
	gpu_launch(&gpu, KERNEL_COPY, NULL, 2000);
	CU(cuCtxSynchronize);
	CU(cuProfilerStop);
	linear(2);              /* no more */
	end(&across);
	end(&before);
}

/* ---- Busy ---- */

static void *run_operators(void *argument)
{
	struct sim_function outer = { 0 }, inner = { 0 }, user = { 0 };
	const struct sim_value input = { .tensor = &deep, .tag = 1 };

	(void)argument;
	while (!atomic_load(&must_stop)) {
		begin(&user, SIM_USER, "user", -1);
		start(&outer, SIM_FUNCTION, "outer", 1, 0, &input, 1);
		start(&inner, SIM_FUNCTION, "inner", -1, 0, &input, 1);
		end(&inner);
		end(&outer);
		end(&user);
		atomic_fetch_add(&nr_done, 1);
		usleep(20);
	}
	return NULL;
}

static void busy(long nr, long nr_threads)
{
	pthread_t threads[64];

	for (long i = 0; i < nr_threads; i++)
		if (pthread_create(&threads[i], NULL, run_operators, NULL))
			exit(EXIT_FAILURE);
	for (long i = 0; i < nr; i++) {
		CU(cuProfilerStart);
		if (!i)
			wait_for_observers();
		usleep(1000);
		CU(cuProfilerStop);
		usleep(500);
	}
	atomic_store(&must_stop, 1);
	for (long i = 0; i < nr_threads; i++)
		pthread_join(threads[i], NULL);
	TALLY("did", "rounds", atomic_load(&nr_done));
}

/* ---- At a rate ---- */

enum { BURST = 150 };

static long rate_hz = 150000;
static uint64_t next_ns;

/* Busy until the next is due, so that it is sampled. */
static void burst(void)
{
	struct sim_function f = { 0 };
	const struct sim_value inputs[] = {
		{ .tensor = &matrix, .tag = 1 }, { .tensor = &deep, .tag = 1 },
	};

	for (int i = 0; i < BURST; i++) {
		start(&f, SIM_FUNCTION, "aten::add", -1, 0, inputs, 2);
		end(&f);
	}
	TALLY("operators", "aten::add", BURST);
	next_ns += (uint64_t)BURST * 1000000000u / (uint64_t)rate_hz;
	while (now_ns() < next_ns)
		;
}

/* The window opens meanwhile. */
static void make_ranges_until_observed(void)
{
	struct sim_counts counts = { 0 };

	for (int i = 0; i < 100000 && !counts.listed; i++) {
		nvtxRangePushA("meanwhile");
		nvtxRangePop();
		usleep(50);
		get_counts(&counts);
	}
}

static void rate(long nr, const char *library, bool is_busy)
{
	void *file = dlopen(library, RTLD_NOW);
	void (*through)(void (*call)(void)) = NULL;

	if (file)
		through = (__typeof__(through))dlsym(file, "through");
	if (!through) {
		fprintf(stderr, "%s\n", dlerror());
		exit(EXIT_FAILURE);
	}
	nvtxRangePushA("before");
	if (is_busy)
		make_ranges_until_observed();
	wait_for_observers();
	nvtxRangePop();
	next_ns = now_ns();
	for (long i = 0; i < nr / BURST; i++)
		through(burst);
}

static void forks(long nr)
{
	struct sim_function f = { 0 };
	pthread_t thread;
	int status;

	wait_for_observers();
	if (pthread_create(&thread, NULL, run_operators, NULL))
		exit(EXIT_FAILURE);
	for (long i = 0; i < nr; i++) {
		pid_t child;

		begin(&f, SIM_FUNCTION, "around the fork", -1);
		child = fork();
		if (!child) {
			end(&f);
			for (int k = 0; k < 100; k++) {
				begin(&f, SIM_FUNCTION, "in the child", -1);
				end(&f);
			}
			_exit(0);
		}
		end(&f);
		if (waitpid(child, &status, 0) != child || status)
			exit(EXIT_FAILURE);
		TALLY("did", "children", 1);
	}
	atomic_store(&must_stop, 1);
	pthread_join(thread, NULL);
}

static void tell_counts(void)
{
	struct sim_counts counts;

	get_counts(&counts);
	TALLY("torch", "listed", (long)counts.listed);
	TALLY("torch", "added", (long)counts.added);
	TALLY("torch", "removed", (long)counts.removed);
	TALLY("torch", "starts", (long)counts.starts);
	TALLY("torch", "ends", (long)counts.ends);
}

int main(int argc, char **argv)
{
	long nr = argc > 3 ? atol(argv[3]) : 3;
	const char *mode = argc > 2 ? argv[2] : "";

	if (argc < 3)
		return 2;
	gpu_open(&gpu, 0);
	gpu_launch(&gpu, KERNEL_COPY, NULL, 1000);
	if (strcmp(mode, "absent"))
		load(argv[1]);
	if (!strcmp(mode, "steps"))
		steps(nr);
	else if (!strcmp(mode, "busy"))
		busy(nr, argc > 4 ? atol(argv[4]) : 8);
	else if (!strcmp(mode, "rate") && argc > 4) {
		rate_hz = argc > 5 ? atol(argv[5]) : rate_hz;
		rate(nr, argv[4], argc > 6);
	}
	else if (!strcmp(mode, "fork"))
		forks(nr);
	for (long i = 0; !strcmp(mode, "edges") && i < nr; i++)
		window();
	gpu_close(&gpu);
	if (strcmp(mode, "absent"))
		tell_counts();
	tally_print();
	return EXIT_SUCCESS;
}
