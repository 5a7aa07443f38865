/* SPDX-License-Identifier: MIT */
/*
 * ranges: NVTX where it is awkward for a recorder.  Without CUDA work but for
 * one kernel, which makes a trace.
 *
 *	ranges MODE [N]
 *
 *	started    N start/end ranges ("s0", "s1", ...) that are open when the
 *	           window opens, and end inside it
 *	at-once    N times: a start/end range from before the window ends right
 *	           after the window has opened
 *	windows    N short windows, one after another, inside "outer"; in each
 *	           its own range "w<i>", which crosses both its edges
 *	elsewhere  N start/end ranges, each ended by another thread, which
 *	           is younger
 *	categories a category named N times, then a domain and a string
 *
 * Windows are the program's: GPUTRACE_START=profiler-api.  The clock of the
 * windows is printed: {"windows": {"w0": [ns, ns, ns, ns], ...}}, before and
 * behind the opening, before and behind the closing, of CLOCK_BOOTTIME.
 */
#include <cudaProfiler.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/host/gpu.h"

static struct gpu gpu;
static nvtxRangeId_t *ids;

static uint64_t boottime_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static nvtxRangeId_t start_numbered(const char *prefix, long i)
{
	char name[32];

	snprintf(name, sizeof(name), "%s%ld", prefix, i);
	return nvtxRangeStartA(name);
}

static void started(long nr)
{
	long i;

	for (i = 0; i < nr; i++)
		ids[i] = start_numbered("s", i);
	CU(cuProfilerStart);
	usleep(400000);
	for (i = 0; i < nr; i++) {
		nvtxRangeEnd(ids[i]);
		if (i % 100 == 99)
			usleep(20000);
	}
	CU(cuProfilerStop);
	usleep(300000);
}

static void at_once(long nr)
{
	long i;

	for (i = 0; i < nr; i++) {
		nvtxRangeId_t id = start_numbered("s", i);

		usleep(150000);
		CU(cuProfilerStart);
		usleep(1000);
		nvtxRangeEnd(id);
		usleep(150000);
		CU(cuProfilerStop);
	}
	usleep(300000);
}

/* Times go to stdout as they are: counters would add them up. */
static void windows(long nr)
{
	uint64_t at[4];
	char name[32];
	long i;

	printf("{\"windows\": {");
	nvtxRangePushA("outer");
	for (i = 0; i < nr; i++) {
		snprintf(name, sizeof(name), "w%ld", i);
		nvtxRangePushA(name);
		usleep(2000);
		at[0] = boottime_ns();
		CU(cuProfilerStart);
		at[1] = boottime_ns();
		nvtxMarkA(name);
		usleep(5000);
		nvtxMarkA(name);
		at[2] = boottime_ns();
		CU(cuProfilerStop);
		at[3] = boottime_ns();
		usleep(1000);
		nvtxRangePop();
		printf("%s\"%s\": [%llu, %llu, %llu, %llu]", i ? ", " : "",
		       name, (unsigned long long)at[0],
		       (unsigned long long)at[1], (unsigned long long)at[2],
		       (unsigned long long)at[3]);
	}
	nvtxRangePop();
	printf("}}\n");
	usleep(300000);
}

static sem_t is_started;
static long nr_elsewhere;

static void *end_them(void *argument)
{
	long i;

	for (i = 0; i < nr_elsewhere; i++) {
		sem_wait(&is_started);
		nvtxRangeEnd(ids[i]);
	}
	return argument;
}

static void elsewhere(long nr)
{
	pthread_t thread;
	long i;

	nr_elsewhere = nr;
	sem_init(&is_started, 0, 0);
	nvtxMarkA("older");
	pthread_create(&thread, NULL, end_them, NULL);
	for (i = 0; i < nr; i++) {
		ids[i] = start_numbered("s", i);
		sem_post(&is_started);
		if (i % 200 == 199)
			usleep(12000);
	}
	pthread_join(thread, NULL);
}

static void categories(long nr)
{
	nvtxEventAttributes_t attributes = {
		.version = NVTX_VERSION, .size = sizeof(attributes),
		.messageType = NVTX_MESSAGE_TYPE_REGISTERED, .category = 1,
	};
	nvtxDomainHandle_t domain;
	long i;

	for (i = 0; i < nr; i++)
		nvtxNameCategoryA(1, "the same name, given again and again");
	domain = nvtxDomainCreateA("domain");
	nvtxDomainNameCategoryA(domain, 1, "category");
	attributes.message.registered =
		nvtxDomainRegisterStringA(domain, "string");
	nvtxDomainMarkEx(domain, &attributes);
}

static const struct {
	const char *name;
	void (*run)(long nr);
} modes[] = {
	{ "started", started }, { "at-once", at_once },
	{ "windows", windows }, { "elsewhere", elsewhere },
	{ "categories", categories },
};

int main(int argc, char **argv)
{
	long nr = argc > 2 ? atol(argv[2]) : 10;
	size_t i;

	ids = calloc((size_t)nr + 1, sizeof(*ids));
	gpu_open(&gpu, 0);
	gpu_launch(&gpu, KERNEL_SILU, NULL, 2000);
	CU(cuCtxSynchronize);
	for (i = 0; argc > 1 && i < sizeof(modes) / sizeof(*modes); i++)
		if (!strcmp(argv[1], modes[i].name))
			modes[i].run(nr);
	free(ids);
	return EXIT_SUCCESS;
}
