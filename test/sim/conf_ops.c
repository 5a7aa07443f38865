// SPDX-License-Identifier: MIT
/* One CUDA call each: the records that it leaves, in their order. */
#include "test/sim/conf.h"

#include <string.h>
#include <unistd.h>

static const int all_kinds[] = {
	CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
	CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
	CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
	CUPTI_ACTIVITY_KIND_CUDA_EVENT, CUPTI_ACTIVITY_KIND_STREAM,
	CUPTI_ACTIVITY_KIND_MEMORY2, CUPTI_ACTIVITY_KIND_MEMORY_POOL, 0,
};

static void launch_ex(void)
{
	CUlaunchConfig config = {
		.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
		.blockDimX = 128, .blockDimY = 1, .blockDimZ = 1,
		.sharedMemBytes = 512, .hStream = gpu.high,
	};

	MUST(cuLaunchKernelEx(&config, gpu.empty, NULL, NULL));
}

static void launch_failing(const char *op)
{
	int code;

	if (!strcmp(op, "launch-bad-block"))
		code = cuLaunchKernel(gpu.empty, 1, 1, 1, 2048, 1, 1, 0, NULL,
				      NULL, NULL);
	else
		code = cuLaunchKernel(gpu.empty, 0, 1, 1, 32, 1, 1, 0, NULL,
				      NULL, NULL);
	fact("result", "%d", code);
}

static bool run_launch(const char *op)
{
	if (!strcmp(op, "launch-null"))
		gpu_empty(NULL);
	else if (!strcmp(op, "launch-plain"))
		gpu_empty(gpu.plain);
	else if (!strcmp(op, "launch-priority"))
		gpu_empty(gpu.high);
	else if (!strcmp(op, "launch-per-thread"))
		gpu_empty(CU_STREAM_PER_THREAD);
	else if (!strcmp(op, "launch-ex"))
		launch_ex();
	else if (!strncmp(op, "launch-bad", 10))
		launch_failing(op);
	else if (!strcmp(op, "launch-two")) {
		gpu_spin(gpu.plain, 20000);
		gpu_empty(gpu.plain);
	} else
		return false;
	return true;
}

static bool run_sync_copy(const char *op)
{
	static char host[8 << 20];

	if (!strcmp(op, "copy-HtoD"))
		MUST(cuMemcpyHtoD(gpu.memory[0], gpu.pageable, 4096));
	else if (!strcmp(op, "copy-HtoD-large")) {
		CUdeviceptr large;

		MUST(cuMemAlloc(&large, sizeof(host)));
		MUST(cuMemcpyHtoD(large, host, sizeof(host)));
	} else if (!strcmp(op, "copy-HtoD-pinned"))
		MUST(cuMemcpyHtoD(gpu.memory[0], gpu.pinned, 4096));
	else if (!strcmp(op, "copy-DtoH"))
		MUST(cuMemcpyDtoH(gpu.pageable, gpu.memory[0], 4096));
	else if (!strcmp(op, "copy-DtoD"))
		MUST(cuMemcpyDtoD(gpu.memory[0], gpu.memory[1], 4096));
	else if (!strcmp(op, "copy-unified"))
		MUST(cuMemcpy(gpu.memory[0], gpu.memory[1], 4096));
	else if (!strcmp(op, "copy-peer-same"))
		MUST(cuMemcpyPeer(gpu.memory[0], gpu.context, gpu.memory[1],
				  gpu.context, 4096));
	else
		return false;
	return true;
}

static bool run_async_copy(const char *op)
{
	CUdeviceptr d = gpu.memory[0];

	if (!strcmp(op, "copy-HtoD-async"))
		MUST(cuMemcpyHtoDAsync(d, gpu.pinned, 65536, gpu.plain));
	else if (!strcmp(op, "copy-DtoH-async"))
		MUST(cuMemcpyDtoHAsync(gpu.pinned, d, 65536, gpu.plain));
	else if (!strcmp(op, "copy-HtoD-async-pageable"))
		MUST(cuMemcpyHtoDAsync(d, gpu.pageable, 4096, gpu.plain));
	else if (!strcmp(op, "copy-DtoH-async-pageable"))
		MUST(cuMemcpyDtoHAsync(gpu.pageable, d, 4096, gpu.plain));
	else if (!strcmp(op, "copy-DtoD-async"))
		MUST(cuMemcpyDtoDAsync(d, gpu.memory[1], 4096, gpu.plain));
	else if (!strcmp(op, "copy-unified-async"))
		MUST(cuMemcpyAsync(d, (CUdeviceptr)gpu.pinned, 4096, gpu.plain));
	else if (!strcmp(op, "copy-async-null"))
		MUST(cuMemcpyHtoDAsync(d, gpu.pinned, 4096, NULL));
	else
		return false;
	return true;
}

static bool run_set(const char *op)
{
	CUdeviceptr d = gpu.memory[0];

	if (!strcmp(op, "set-D8"))
		MUST(cuMemsetD8(d, 7, 4096));
	else if (!strcmp(op, "set-D8-async"))
		MUST(cuMemsetD8Async(d, 7, 4096, gpu.plain));
	else if (!strcmp(op, "set-D32-async"))
		MUST(cuMemsetD32Async(d, 7, 1024, gpu.plain));
	else
		return false;
	return true;
}

static void pools(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemoryPool pool;
	CUdeviceptr d;

	MUST(cuMemPoolCreate(&pool, &props));
	MUST(cuMemAllocFromPoolAsync(&d, 1 << 20, pool, gpu.plain));
	MUST(cuMemFreeAsync(d, gpu.plain));
	MUST(cuStreamSynchronize(gpu.plain));
	MUST(cuMemPoolTrimTo(pool, 0));
	MUST(cuMemPoolDestroy(pool));
}

static bool run_memory(const char *op)
{
	CUdeviceptr d;
	void *host;

	if (!strcmp(op, "memory-alloc")) {
		MUST(cuMemAlloc(&d, 4096));
		MUST(cuMemFree(d));
	} else if (!strcmp(op, "memory-host")) {
		MUST(cuMemHostAlloc(&host, 4096, 0));
		MUST(cuMemFreeHost(host));
	} else if (!strcmp(op, "memory-async")) {
		MUST(cuMemAllocAsync(&d, 4096, gpu.plain));
		MUST(cuMemFreeAsync(d, gpu.plain));
	} else if (!strcmp(op, "memory-pool"))
		pools();
	else
		return false;
	return true;
}

static bool run_event(const char *op)
{
	if (!strcmp(op, "event-record"))
		MUST(cuEventRecord(gpu.event[0], gpu.plain));
	else if (!strcmp(op, "event-record-untimed"))
		MUST(cuEventRecord(gpu.event[1], gpu.plain));
	else if (!strcmp(op, "event-wait")) {
		gpu_spin(gpu.plain, 100000);
		MUST(cuEventRecord(gpu.event[0], gpu.plain));
		MUST(cuStreamWaitEvent(gpu.high, gpu.event[0], 0));
		gpu_empty(gpu.high);
	} else if (!strcmp(op, "event-sync")) {
		gpu_spin(gpu.plain, 20000000);
		MUST(cuEventRecord(gpu.event[0], gpu.plain));
		MUST(cuEventSynchronize(gpu.event[0]));
	} else if (!strcmp(op, "event-sync-unrecorded"))
		MUST(cuEventSynchronize(gpu.event[1]));
	else if (!strcmp(op, "event-query")) {
		gpu_spin(gpu.plain, 20000000);
		MUST(cuEventRecord(gpu.event[0], gpu.plain));
		fact("busy", "%d", cuEventQuery(gpu.event[0]));
		usleep(50000);
		fact("idle", "%d", cuEventQuery(gpu.event[0]));
	} else if (!strcmp(op, "event-create")) {
		CUevent e;

		MUST(cuEventCreate(&e, 0));
		MUST(cuEventRecord(e, NULL));
		MUST(cuEventDestroy(e));
	} else
		return false;
	return true;
}

static bool run_sync(const char *op)
{
	if (!strcmp(op, "sync-stream")) {
		gpu_spin(gpu.plain, 5000000);
		MUST(cuStreamSynchronize(gpu.plain));
	} else if (!strcmp(op, "sync-stream-idle"))
		MUST(cuStreamSynchronize(gpu.plain));
	else if (!strcmp(op, "sync-stream-null"))
		MUST(cuStreamSynchronize(NULL));
	else if (!strcmp(op, "sync-context"))
		MUST(cuCtxSynchronize());
	else if (!strcmp(op, "sync-query")) {
		gpu_spin(gpu.plain, 20000000);
		fact("busy", "%d", cuStreamQuery(gpu.plain));
		usleep(50000);
		fact("idle", "%d", cuStreamQuery(gpu.plain));
	} else
		return false;
	return true;
}

static void CUDA_CB host_function(void *data)
{
	*(volatile int *)data = 1;
}

static bool run_rest(const char *op)
{
	static int called;
	CUcontext c;
	CUstream s;
	int value;

	if (!strcmp(op, "stream-create")) {
		MUST(cuStreamCreate(&s, CU_STREAM_DEFAULT));
		gpu_empty(s);
		MUST(cuStreamDestroy(s));
	} else if (!strcmp(op, "query-calls")) {
		MUST(cuCtxGetCurrent(&c));
		MUST(cuDeviceGetCount(&value));
		MUST(cuDriverGetVersion(&value));
		MUST(cuDeviceGetAttribute(&value, 16, 0));
	} else if (!strcmp(op, "host-function")) {
		MUST(cuLaunchHostFunc(gpu.plain, host_function, &called));
		MUST(cuStreamSynchronize(gpu.plain));
	} else if (!strcmp(op, "graph-first") || !strcmp(op, "graph-again")) {
		MUST(cuGraphLaunch(gpu.exec, gpu.plain));
		MUST(cuStreamSynchronize(gpu.plain));
	} else if (!strcmp(op, "graph-null")) {
		MUST(cuGraphLaunch(gpu.exec, NULL));
	} else if (!strcmp(op, "graph-build"))
		gpu_build_graph();
	else
		return false;
	return true;
}

static void run_op(const char *op)
{
	uint64_t from, to;

	conf_trace(all_kinds);
	gpu_open();
	if (!strncmp(op, "graph-", 6) && strcmp(op, "graph-build"))
		gpu_build_graph();
	if (!strcmp(op, "graph-again"))
		MUST(cuGraphLaunch(gpu.exec, gpu.plain));
	MUST(cuCtxSynchronize());
	conf_settle();
	conf_forget();
	from = conf_clock();
	if (!run_launch(op) && !run_sync_copy(op) && !run_async_copy(op) &&
	    !run_set(op) && !run_memory(op) && !run_event(op) && !run_sync(op))
		run_rest(op);
	usleep(100000);
	to = conf_clock();
	conf_settle();
	conf_print_records("", from, to);
}

#define OP(n) { "op." n, run_op, n, "ops" }

const struct conf_experiment conf_ops[] = {
	OP("launch-null"), OP("launch-plain"), OP("launch-priority"),
	OP("launch-per-thread"), OP("launch-ex"), OP("launch-bad-block"),
	OP("launch-bad-grid"), OP("launch-two"),
	OP("copy-HtoD"), OP("copy-HtoD-large"), OP("copy-HtoD-pinned"),
	OP("copy-DtoH"), OP("copy-DtoD"), OP("copy-unified"),
	OP("copy-peer-same"), OP("copy-HtoD-async"), OP("copy-DtoH-async"),
	OP("copy-HtoD-async-pageable"), OP("copy-DtoH-async-pageable"),
	OP("copy-DtoD-async"), OP("copy-unified-async"), OP("copy-async-null"),
	OP("set-D8"), OP("set-D8-async"), OP("set-D32-async"),
	OP("memory-alloc"), OP("memory-host"), OP("memory-async"),
	OP("memory-pool"),
	OP("event-record"), OP("event-record-untimed"), OP("event-wait"),
	OP("event-sync"), OP("event-sync-unrecorded"), OP("event-query"),
	OP("event-create"),
	OP("sync-stream"), OP("sync-stream-idle"), OP("sync-stream-null"),
	OP("sync-context"), OP("sync-query"),
	OP("stream-create"), OP("query-calls"), OP("host-function"),
	OP("graph-build"), OP("graph-first"), OP("graph-again"),
	OP("graph-null"),
	{ NULL, NULL, NULL, NULL },
};
