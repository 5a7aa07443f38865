// SPDX-License-Identifier: MIT
/* Questions that no real GPU has answered yet; see conformance.c. */
#include "test/sim/conf.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#define KERNEL CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL

static const int kernels_only[] = { KERNEL, 0 };
static sem_t go, gone;
static bool leaves;

static void prepare(void)
{
	conf_set_per_thread(1);
	conf_trace(kernels_only);
	gpu_open();
	conf_settle();
	conf_forget();
}

static void *short_kernels(void *unused)
{
	MUST(cuCtxSetCurrent(gpu.context));
	for (int i = 0; i < 10; i++)
		gpu_empty(gpu.high);
	MUST(cuStreamSynchronize(gpu.high));
	sem_post(&gone);
	if (!leaves)
		sem_wait(&go);
	return unused;
}

/*
 * The main thread's kernel runs; another thread's kernels have ended. Does
 * FlushAll(0) give the other thread's buffer back?
 */
static void two_threads(const char *order)
{
	pthread_t t;

	prepare();
	sem_init(&go, 0, 0);
	sem_init(&gone, 0, 0);
	leaves = strstr(order, "leaves") != NULL;
	if (strstr(order, "long-first"))
		gpu_spin(gpu.plain, 1500000000);
	pthread_create(&t, NULL, short_kernels, NULL);
	sem_wait(&gone);
	if (leaves)
		pthread_join(t, NULL);
	if (!strstr(order, "long-first"))
		gpu_spin(gpu.plain, 1500000000);
	cupti.ActivityFlushAll(0);
	usleep(100000);
	fact("flush-0", "%u", conf_count(KERNEL));
	if (!leaves) {
		sem_post(&go);
		pthread_join(t, NULL);
	}
	MUST(cuCtxSynchronize());
	conf_settle();
	fact("later", "%u", conf_count(KERNEL));
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

#define EXTRA(n, f, v) { "extra." n, f, v, "extra" }

const struct conf_experiment conf_extra[] = {
	EXTRA("in-flight-long-first", two_threads, "long-first"),
	EXTRA("in-flight-long-second", two_threads, "long-second"),
	EXTRA("in-flight-long-first-leaves", two_threads, "long-first leaves"),
	EXTRA("in-flight-long-second-leaves", two_threads,
	      "long-second leaves"),
	EXTRA("graph-after-late-trace", graph_after_late_trace, ""),
	EXTRA("graph-streams", streams_of_graphs, ""),
	EXTRA("loading", loading, ""),
	{ NULL, NULL, NULL, NULL },
};
