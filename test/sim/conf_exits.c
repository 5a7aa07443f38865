// SPDX-License-Identifier: MIT
/* The ends of a process, the way in through the driver, graphs, lazy loads. */
#include "test/sim/conf.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KERNEL CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL

static const int kernels_only[] = { KERNEL, 0 };
static bool at_destruction;

static void flush_at_exit(void)
{
	fact("flush", "%d", cupti.ActivityFlushAll(1));
	usleep(50000);
	fact("records", "%s", conf_count(KERNEL) == 20 ? "all" :
	     conf_count(KERNEL) ? "some" : "none");
	fact("complete", "%s", conf_count_ended(KERNEL) == 20 ? "all" :
	     conf_count_ended(KERNEL) ? "some" : "none");
	fact("disable", "%d", cupti.ActivityDisable(KERNEL));
	fact("synchronize", "%d", cuCtxSynchronize());
}

__attribute__((destructor)) static void destructor(void)
{
	if (at_destruction)
		flush_at_exit();
}

static void leave(const char *how)
{
	if (!strcmp(how, "before-init"))
		atexit(flush_at_exit);
	conf_trace(kernels_only);
	gpu_open();
	conf_settle();
	conf_forget();
	if (!strcmp(how, "after-init"))
		atexit(flush_at_exit);
	at_destruction = !strcmp(how, "destructor");
	for (int i = 0; i < 20; i++)
		gpu_empty(gpu.plain);
	MUST(cuCtxSynchronize());
	exit(0);
}

static void report_unflushed(void)
{
	fact("kernels", "%u", conf_count(KERNEL));
}

/* Does CUPTI hand over by itself at the end? */
static void leave_unflushed(const char *variant)
{
	(void)variant;
	atexit(report_unflushed);
	conf_trace(kernels_only);
	gpu_open();
	conf_settle();
	conf_forget();
	for (int i = 0; i < 20; i++)
		gpu_empty(gpu.plain);
	exit(0);
}

static void leave_running(const char *variant)
{
	(void)variant;
	conf_trace(kernels_only);
	gpu_open();
	conf_settle();
	conf_forget();
	atexit(flush_at_exit);
	for (int i = 0; i < 19; i++)
		gpu_empty(gpu.plain);
	gpu_spin(gpu.plain, 500000000);
	exit(0);
}

static void inject_path(char *out, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", out, size - 32);
	char *slash;

	out[n > 0 ? n : 0] = 0;
	slash = strrchr(out, '/');
	strcpy(slash ? slash + 1 : out, "conformance_inject.so");
}

/* The injected library prints its own facts; see conformance_inject.c. */
static void injected(const char *variant)
{
	char path[4096];

	(void)variant;
	inject_path(path, sizeof(path));
	if (access(path, R_OK)) {
		fact("library", "missing");
		return;
	}
	setenv("CUDA_INJECTION64_PATH", path, 1);
	setenv("CONFORMANCE_LIBRARY", conf_cupti_path(), 1);
	fact("cuInit", "%d", cuInit(0));
	fact("cuInit-again", "%d", cuInit(0));
	gpu_open();
	for (int i = 0; i < 20; i++)
		gpu_empty(gpu.plain);
	MUST(cuCtxSynchronize());
	exit(0);
}

static void injected_missing(const char *variant)
{
	setenv("CUDA_INJECTION64_PATH", variant, 1);
	fact("cuInit", "%d", cuInit(0));
}

static void graph_trace(const char *when)
{
	static const int early[] = {
		CUPTI_ACTIVITY_KIND_GRAPH_TRACE, KERNEL, 0,
	};
	static const int late[] = { KERNEL, 0 };
	uint64_t from;

	conf_trace(*when == 'e' ? early : late);
	gpu_open();
	if (!strcmp(when, "before-build"))
		MUST(cupti.ActivityEnable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
	gpu_build_graph();
	conf_settle();
	conf_forget();
	if (!strcmp(when, "late"))
		fact("enable", "%d", cupti.ActivityEnable(
			CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
	if (!strcmp(when, "early-disabled"))
		fact("disable", "%d", cupti.ActivityDisable(
			CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
	from = conf_clock();
	MUST(cuGraphLaunch(gpu.exec, gpu.plain));
	MUST(cuCtxSynchronize());
	usleep(20000);
	conf_settle();
	conf_print_records("", from, conf_clock());
}

/* GRAPH_TRACE comes on late: is a graph that is built afterwards safe? */
static void graph_after_late_trace(const char *variant)
{
	CUgraphExec old;

	(void)variant;
	conf_trace(kernels_only);
	gpu_open();
	gpu_build_graph();
	old = gpu.exec;
	MUST(cupti.ActivityEnable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
	gpu_build_graph();
	conf_settle();
	conf_forget();
	MUST(cuGraphLaunch(gpu.exec, gpu.plain));
	MUST(cuCtxSynchronize());
	conf_settle();
	fact("new-graph", "%u", conf_count(CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
	MUST(cuGraphLaunch(old, gpu.plain));
	MUST(cuCtxSynchronize());
	fact("old-graph", "ran");
}

/* What a second instantiation and a graph with two branches leave. */
static void streams_of_graphs(const char *variant)
{
	static const int kinds[] = {
		CUPTI_ACTIVITY_KIND_STREAM, KERNEL, 0,
	};
	CUgraph graph;
	CUgraphExec exec;

	(void)variant;
	conf_trace(kinds);
	gpu_open();
	gpu_build_graph();
	conf_settle();
	conf_forget();
	gpu_build_graph();
	conf_settle();
	fact("second-graph-streams", "%u",
	     conf_count(CUPTI_ACTIVITY_KIND_STREAM));
	conf_forget();
	MUST(cuStreamBeginCapture(gpu.plain,
				  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	MUST(cuEventRecord(gpu.event[0], gpu.plain));
	MUST(cuStreamWaitEvent(gpu.high, gpu.event[0], 0));
	gpu_spin(gpu.plain, 200000);
	gpu_spin(gpu.high, 200000);
	MUST(cuEventRecord(gpu.event[1], gpu.high));
	MUST(cuStreamWaitEvent(gpu.plain, gpu.event[1], 0));
	gpu_empty(gpu.plain);
	MUST(cuStreamEndCapture(gpu.plain, &graph));
	MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
	MUST(cuGraphLaunch(exec, gpu.plain));
	MUST(cuCtxSynchronize());
	conf_settle();
	conf_print_records("", 0, UINT64_MAX);
}

/* What the first use of a module leaves. */
static void loading(const char *variant)
{
	static const int kinds[] = {
		CUPTI_ACTIVITY_KIND_OVERHEAD, CUPTI_ACTIVITY_KIND_JIT,
		CUPTI_ACTIVITY_KIND_DRIVER, 0,
	};
	CUmodule module;
	CUfunction f;
	uint64_t from;

	(void)variant;
	conf_trace(kinds);
	gpu_open();
	conf_settle();
	conf_forget();
	from = conf_clock();
	MUST(cuModuleLoadData(&module, conf_ptx));
	MUST(cuModuleGetFunction(&f, module, "empty"));
	MUST(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	MUST(cuCtxSynchronize());
	conf_settle();
	conf_print_records("", from, conf_clock());
}

static double waited;

static void *flush_thread(void *unused)
{
	double t = conf_seconds();

	usleep(200000);
	cupti.ActivityFlushAll(0);
	waited = conf_seconds() - t;
	return unused;
}

/* The first launch of a kernel that is not loaded yet, while one runs. */
static void lazy(const char *variant)
{
	pthread_t t;
	CUlibrary library;
	CUkernel kernel;
	double start;

	if (*variant == 't')
		conf_trace(kernels_only);
	gpu_open();
	gpu_spin(gpu.plain, 1500000000);
	pthread_create(&t, NULL, flush_thread, NULL);
	start = conf_seconds();
	MUST(cuLibraryLoadData(&library, conf_ptx, NULL, NULL, 0, NULL, NULL,
			       0));
	MUST(cuLibraryGetKernel(&kernel, library, "empty"));
	fact("load-waits", "%s", yes(conf_seconds() - start > 0.8));
	start = conf_seconds();
	MUST(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 32, 1, 1, 0, gpu.high,
			    NULL, NULL));
	fact("launch-waits", "%s", yes(conf_seconds() - start > 0.8));
	pthread_join(t, NULL);
	fact("flush-waits", "%s", yes(waited > 0.8));
	MUST(cuCtxSynchronize());
}

static void fork_after(const char *variant)
{
	int status = 0;
	pid_t pid;

	(void)variant;
	conf_trace(kernels_only);
	gpu_open();
	fflush(NULL);
	pid = fork();
	if (!pid) {
		alarm(5);
		fact("child-launch", "%d", cuLaunchKernel(gpu.empty, 1, 1, 1, 32,
			1, 1, 0, NULL, NULL, NULL));
		fact("child-init", "%d", cuInit(0));
		fact("child-flush", "%d", cupti.ActivityFlushAll(0));
		_exit(0);
	}
	waitpid(pid, &status, 0);
	fact("child", "%s", WIFSIGNALED(status) ? "killed" : "ended");
}

#define EXITS(n, f, v) { "exit." n, f, v, "exit" }

const struct conf_experiment conf_exits[] = {
	EXITS("handler-before-init", leave, "before-init"),
	EXITS("handler-after-init", leave, "after-init"),
	EXITS("destructor", leave, "destructor"),
	EXITS("unflushed", leave_unflushed, ""),
	EXITS("running", leave_running, ""),
	EXITS("fork-after-init", fork_after, ""),
	EXITS("inject", injected, "exit"),
	EXITS("inject-missing", injected_missing, "/nonexistent/library.so"),
	EXITS("graph-trace-early", graph_trace, "early"),
	EXITS("graph-trace-early-disabled", graph_trace, "early-disabled"),
	EXITS("graph-trace-before-build", graph_trace, "before-build"),
	EXITS("graph-trace-late", graph_trace, "late"),
	EXITS("graph-trace-late-rebuilt", graph_after_late_trace, ""),
	EXITS("graph-streams", streams_of_graphs, ""),
	EXITS("loading", loading, ""),
	EXITS("lazy-plain", lazy, "p"), EXITS("lazy-traced", lazy, "t"),
	{ NULL, NULL, NULL, NULL },
};
