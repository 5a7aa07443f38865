/* SPDX-License-Identifier: MIT */
/*
 * bounds: a program that is much of something, or runs in a narrow place.
 *
 *	bounds MODE [ARGUMENT]
 *
 *	launch N        N kernels, as fast as they go
 *	rate SECONDS    1,000 kernels a second
 *	soak SECONDS RATE    so many kernels a second, ranges around each 100
 *	ranges SECONDS  30,000 ranges a second, two levels; each 30th launches
 *	copies SECONDS  copies alone
 *	capture SECONDS one capture of launches that takes so long
 *	queued SECONDS  launches wait behind a kernel that takes so long
 *	idle SECONDS    a few kernels, then nothing
 *	again SECONDS   recording is stopped and started by the program
 *	again-idle SECONDS   then nothing is launched any more
 *	names N         N kernels of different names
 *	domains N       N domains with a registered string, and a range each
 *	churn N         N threads that live for a range and a kernel
 *	eat MB          takes so much memory after some kernels; 1 if it can't
 *	seccomp kill, seccomp errno   a filter that knows what CUDA programs use
 *
 * Prints what it did as JSON, with its peak memory in kB.
 */
#include <cudaProfiler.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/host/gpu.h"
#include "test/host/narrow.h"

#define SECOND UINT64_C(1000000000)
#define MS UINT64_C(1000000)

static struct gpu gpu;
static long rate = 200000;

static void launch(long nr)
{
	for (long i = 0; i < nr; i++) {
		gpu_launch(&gpu, i % NR_KERNELS, NULL, 2000);
		if (i % 10000 == 9999)
			CU(cuCtxSynchronize);
	}
	CU(cuCtxSynchronize);
	TALLY("gpu", "kernels", nr);
}

static int mode_launch(const char *nr)
{
	nvtxRangePushA("launch");
	launch(atol(nr));
	nvtxRangePop();
	return EXIT_SUCCESS;
}

static int mode_rate(const char *seconds)
{
	uint64_t end_ns = now_ns() + (uint64_t)(atof(seconds) * SECOND);

	while (now_ns() < end_ns) {
		launch(10);
		usleep(10000);
	}
	return EXIT_SUCCESS;
}

/* In turns of a millisecond; a turn that comes late is made up for, up to a
 * tenth of a second.  The GPU is never more than that behind. */
static int mode_soak(const char *argument)
{
	uint64_t start_ns = now_ns(), due_ns = start_ns, now;
	uint64_t end_ns = start_ns + (uint64_t)(atof(argument) * SECOND);
	long a_turn = rate / 1000, i, turns = 0, nr = 0;

	while ((now = now_ns()) < end_ns) {
		due_ns = due_ns + 100 * MS < now ? now : due_ns + MS;
		for (i = 0; i < a_turn; i++, nr++) {
			if (nr % 100 == 0)
				nvtxRangePushA("hundred");
			gpu_launch(&gpu, nr % NR_KERNELS, NULL, 1000);
			if (nr % 100 == 99)
				nvtxRangePop();
		}
		if (++turns % 100 == 0)
			CU(cuCtxSynchronize);
		now = now_ns();
		if (now < due_ns)
			usleep((useconds_t)((due_ns - now) / 1000));
	}
	CU(cuCtxSynchronize);
	TALLY("gpu", "kernels", nr);
	TALLY("rate", "kernels a second",
	      (long)((double)nr * SECOND / (double)(now_ns() - start_ns)));
	return EXIT_SUCCESS;
}

static int mode_ranges(const char *seconds)
{
	uint64_t start_ns = now_ns(), due_ns = start_ns;
	uint64_t end_ns = start_ns + (uint64_t)(atof(seconds) * SECOND);

	while (now_ns() < end_ns) {
		for (int i = 0; i < 15; i++) {
			nvtxRangePushA("outer");
			nvtxRangePushA("inner");
			if (!i)
				gpu_launch(&gpu, KERNEL_COPY, NULL, 1000);
			nvtxRangePop();
			nvtxRangePop();
		}
		TALLY("gpu", "kernels", 1);
		TALLY("nvtx", "ranges", 30);
		due_ns += MS;
		if (now_ns() < due_ns)
			usleep((useconds_t)((due_ns - now_ns()) / 1000 + 1));
	}
	CU(cuCtxSynchronize);
	return EXIT_SUCCESS;
}

static int mode_copies(const char *seconds)
{
	uint64_t end_ns = now_ns() + (uint64_t)(atof(seconds) * SECOND);
	CUdeviceptr memory;
	char bytes[4096] = "";

	CU(cuMemAlloc, &memory, sizeof(bytes));
	while (now_ns() < end_ns) {
		for (int i = 0; i < 20; i++)
			CU(cuMemcpyHtoD, memory, bytes, sizeof(bytes));
		usleep(20000);
	}
	CU(cuMemFree, memory);
	return EXIT_SUCCESS;
}

static int mode_capture(const char *seconds)
{
	uint64_t end_ns = now_ns() + (uint64_t)(atof(seconds) * SECOND);
	CUstream stream;
	CUgraph graph;

	CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	CU(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	while (now_ns() < end_ns) {
		for (int i = 0; i < 20; i++)
			gpu_launch(&gpu, KERNEL_SILU, stream, 2000);
		usleep(20000);
	}
	CU(cuStreamEndCapture, stream, &graph);
	CU(cuGraphDestroy, graph);
	CU(cuStreamDestroy, stream);
	return EXIT_SUCCESS;
}

static int mode_queued(const char *seconds)
{
	launch(300);
	gpu_launch(&gpu, KERNEL_SILU, NULL, (uint64_t)(atof(seconds) * SECOND));
	for (int i = 0; i < 200; i++) {
		gpu_launch(&gpu, KERNEL_COPY, NULL, 2000);
		usleep(20000);
	}
	CU(cuCtxSynchronize);
	return EXIT_SUCCESS;
}

static int mode_idle(const char *seconds)
{
	launch(300);
	usleep((useconds_t)(atof(seconds) * 1e6));
	return EXIT_SUCCESS;
}

static int again(double seconds, bool is_idle)
{
	char text[32];

	CU(cuProfilerStart);
	launch(500);
	CU(cuProfilerStop);
	/* What a busy machine is late with would be of the second window. */
	usleep(2000000);
	CU(cuProfilerStart);
	snprintf(text, sizeof(text), "%f", seconds);
	if (is_idle)
		usleep((useconds_t)(seconds * 1e6));
	else
		mode_rate(text);
	CU(cuProfilerStop);
	return EXIT_SUCCESS;
}

static int mode_again(const char *seconds)
{
	return again(atof(seconds), false);
}

static int mode_again_idle(const char *seconds)
{
	return again(atof(seconds), true);
}

/* ---- Names ---- */

enum { NAMES_A_MODULE = 1000 };

static void launch_named(long from, long to)
{
	char *text = malloc(64 + NAMES_A_MODULE * 128), name[64];
	CUmodule module;
	CUfunction function;
	size_t len = sprintf(text, ".version 7.0\n.target sm_70\n"
			     ".address_size 64\n");
	long i;

	for (i = from; i < to; i++)
		len += sprintf(text + len, ".visible .entry name_%ld(.param "
			       ".u64 duration_ns, .param .u64 spin_ns)\n"
			       "{\n\tret;\n}\n", i);
	CU(cuModuleLoadData, &module, text);
	for (i = from; i < to; i++) {
		snprintf(name, sizeof(name), "name_%ld", i);
		CU(cuModuleGetFunction, &function, module, name);
		gpu_launch_function(function, 1, 32, 0, NULL, 1000);
	}
	CU(cuCtxSynchronize);
	free(text);
}

static int mode_names(const char *argument)
{
	long nr = atol(argument), i;

	for (i = 0; i < nr; i += NAMES_A_MODULE)
		launch_named(i, i + NAMES_A_MODULE < nr ? i + NAMES_A_MODULE :
			     nr);
	TALLY("gpu", "kernels", nr);
	return EXIT_SUCCESS;
}

static int mode_domains(const char *argument)
{
	nvtxEventAttributes_t attributes = {
		.version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.messageType = NVTX_MESSAGE_TYPE_REGISTERED,
	};
	long nr = atol(argument), i;
	char name[64];

	launch(10);
	for (i = 0; i < nr; i++) {
		snprintf(name, sizeof(name), "domain %ld", i);
		nvtxDomainHandle_t domain = nvtxDomainCreateA(name);

		snprintf(name, sizeof(name), "string %ld", i);
		attributes.message.registered =
			nvtxDomainRegisterStringA(domain, name);
		nvtxDomainRangePushEx(domain, &attributes);
		nvtxDomainRangePop(domain);
		if (i % 100 == 99)
			usleep(1000);
	}
	TALLY("ranges", "all", nr);
	return EXIT_SUCCESS;
}

/* ---- Threads ---- */

static void *live_a_moment(void *argument)
{
	(void)argument;
	gpu_use(&gpu);
	nvtxRangePushA("moment");
	gpu_launch(&gpu, KERNEL_SILU, NULL, 1000);
	nvtxRangePop();
	return NULL;
}

static int mode_churn(const char *argument)
{
	long nr = atol(argument), i;
	uint64_t start_ns = now_ns();
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 << 10);
	for (i = 0; i < nr; i++) {
		if (pthread_create(&thread, &attributes, live_a_moment, NULL))
			return EXIT_FAILURE;
		pthread_join(thread, NULL);
	}
	CU(cuCtxSynchronize);
	TALLY("gpu", "kernels", nr);
	TALLY("ranges", "moment", nr);
	TALLY("rate", "threads a second",
	      (long)(nr * SECOND / (now_ns() - start_ns + 1)));
	return EXIT_SUCCESS;
}

static int mode_eat(const char *mb)
{
	size_t size = (size_t)atol(mb) << 20;
	char *memory;

	launch(5000);
	memory = malloc(size);
	if (!memory)
		return EXIT_FAILURE;
	memset(memory, 1, size);
	launch(5000);
	free(memory);
	return EXIT_SUCCESS;
}

static int mode_seccomp(const char *how)
{
	(void)how;
	return mode_launch("2000");
}

/* VmHWM: getrusage() would show the parent's memory too. */
static long status_kb(const char *key)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[256];
	long kb = 0;

	while (status && fgets(line, sizeof(line), status))
		if (!strncmp(line, key, strlen(key)))
			kb = atol(line + strlen(key));
	if (status)
		fclose(status);
	return kb;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(const char *argument);
	} modes[] = {
		{ "soak", mode_soak }, { "launch", mode_launch }, { "rate", mode_rate },
		{ "copies", mode_copies }, { "capture", mode_capture },
		{ "ranges", mode_ranges },
		{ "queued", mode_queued }, { "idle", mode_idle }, { "again", mode_again },
		{ "again-idle", mode_again_idle }, { "names", mode_names },
		{ "domains", mode_domains }, { "churn", mode_churn },
		{ "eat", mode_eat }, { "seccomp", mode_seccomp },
	};
	int status = 2;
	size_t i;

	if (argc < 3)
		return 2;
	if (!strcmp(argv[1], "seccomp") &&
	    narrow_seccomp(!strcmp(argv[2], "kill")))
		return 77;
	if (argc > 3)
		rate = atol(argv[3]);
	gpu_open(&gpu, 0);
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[1], modes[i].name))
			status = modes[i].run(argv[2]);
	gpu_close(&gpu);
	TALLY("memory", "peak_kb", status_kb("VmHWM:"));
	tally_print();
	return status;
}
