/* SPDX-License-Identifier: MIT */
/*
 * marks: NVTX ranges that open and close windows, in their awkward forms.
 *
 *	marks MODE [N [MS]]
 *
 *	pushed     "work" N times, each with another "work" inside
 *	started    "work" as a start/end range that another thread ends
 *	registered "work" as a registered string of the domain "library"
 *	wide       "work" in wide characters
 *	across     "work" opens before CUDA is used, and closes after
 *	threads    N threads at once, each with its "work"
 *	abandoned  a thread ends inside "work", then another one
 *	mark       a mark of that name; ranges whose names only begin so
 *	steps      N steps "step I" of a kernel each, and MS after each
 *	both       two such steps, then N ProfilerStep#I with two in each
 *	cycles     N times cuProfilerStart and Stop, while threads launch; it
 *	           prints what it held before and after them
 *
 * Inside "work" and steps only "silu" kernels are launched (counted in
 * "inside"), outside only "copy" (in "outside").
 */
#include <cudaProfiler.h>
#include <dirent.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/host/gpu.h"

static struct gpu gpu;
static long pause_ms;

static void inside(void)
{
	gpu_launch(&gpu, KERNEL_SILU, NULL, 2000);
	CU(cuCtxSynchronize);
	TALLY("inside", "kernels", 1);
}

static void outside(void)
{
	gpu_launch(&gpu, KERNEL_COPY, NULL, 2000);
	CU(cuCtxSynchronize);
	TALLY("outside", "kernels", 1);
}

static void pushed(long nr)
{
	for (long i = 0; i < nr; i++) {
		outside();
		nvtxRangePushA("work");
		inside();
		nvtxRangePushA("work");
		inside();
		nvtxRangePop();
		inside();
		nvtxRangePop();
	}
	outside();
}

static void *end_it(void *id)
{
	nvtxRangeEnd(*(nvtxRangeId_t *)id);
	return NULL;
}

static void started(long nr)
{
	for (long i = 0; i < nr; i++) {
		nvtxRangeId_t id = nvtxRangeStartA("work"), inner;
		pthread_t thread;

		inside();
		inner = nvtxRangeStartA("work");
		nvtxRangeEnd(inner);
		inside();
		pthread_create(&thread, NULL, end_it, &id);
		pthread_join(thread, NULL);
		outside();
	}
}

static void registered(long nr)
{
	nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
	nvtxEventAttributes_t a = {
		.version = NVTX_VERSION, .size = sizeof(a),
		.messageType = NVTX_MESSAGE_TYPE_REGISTERED,
	};

	for (long i = 0; i < nr; i++) {
		a.message.registered = nvtxDomainRegisterStringA(domain,
								 "work");
		outside();
		nvtxDomainRangePushEx(domain, &a);
		inside();
		nvtxDomainRangePop(domain);
		outside();
	}
}

static void wide(long nr)
{
	for (long i = 0; i < nr; i++) {
		outside();
		nvtxRangePushW(L"work");
		inside();
		nvtxRangePop();
	}
}

static void across(long nr)
{
	(void)nr;
	inside();
	nvtxRangePop();
	outside();
}

static pthread_barrier_t barrier;

static void *work_beside(void *argument)
{
	gpu_use(&gpu);
	nvtxRangePushA("work");
	pthread_barrier_wait(&barrier);
	gpu_launch(&gpu, KERNEL_SILU, NULL, 2000);
	CU(cuCtxSynchronize);
	pthread_barrier_wait(&barrier);
	nvtxRangePop();
	return argument;
}

static void threads(long nr)
{
	pthread_t *all = calloc((size_t)nr, sizeof(*all));

	pthread_barrier_init(&barrier, NULL, (unsigned int)nr);
	for (long i = 0; i < nr; i++)
		pthread_create(&all[i], NULL, work_beside, NULL);
	for (long i = 0; i < nr; i++)
		pthread_join(all[i], NULL);
	free(all);
	outside();
}

static void *abandon(void *argument)
{
	gpu_use(&gpu);
	nvtxRangePushA("work");
	inside();
	return argument;
}

static void abandoned(long nr)
{
	for (long i = 0; i < nr; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, abandon, NULL);
		pthread_join(thread, NULL);
		outside();
	}
}

static void mark(long nr)
{
	for (long i = 0; i < nr; i++) {
		nvtxMarkA("work");
		nvtxRangePushA("work 2");
		nvtxRangePushA("wor");
		outside();
		nvtxRangePop();
		nvtxRangePop();
	}
}

static void numbered(const char *prefix, long i)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%ld", prefix, i);
	nvtxRangePushA(name);
}

static void steps(long nr)
{
	for (long i = 0; i < nr; i++) {
		numbered("step ", i);
		inside();
		nvtxRangePop();
		usleep((unsigned int)pause_ms * 1000);
	}
}

static void both(long nr)
{
	steps(2);
	for (long i = 0; i < nr; i++) {
		numbered("ProfilerStep#", i);
		steps(2);
		nvtxRangePop();
	}
}

/* ---- cycles ---- */

static _Atomic bool is_over;

static void *launch_on(void *argument)
{
	gpu_use(&gpu);
	while (!is_over) {
		nvtxRangePushA("beside");
		gpu_launch(&gpu, KERNEL_COPY, NULL, 2000);
		nvtxRangePop();
		usleep(20);
	}
	return argument;
}

static long entries(const char *path)
{
	DIR *folder = opendir(path);
	long nr = 0;

	while (folder && readdir(folder))
		nr++;
	if (folder)
		closedir(folder);
	return nr;
}

static long resident_kb(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages = 0;

	if (file && fscanf(file, "%*d %ld", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void cycle(void)
{
	CU(cuProfilerStart);
	for (int i = 0; i < 20; i++)
		gpu_launch(&gpu, KERNEL_SILU, NULL, 2000);
	CU(cuProfilerStop);
	TALLY("inside", "kernels", 20);
	usleep(500);
}

static void cycles(long nr)
{
	pthread_t beside[3];

	for (int i = 0; i < 3; i++)
		pthread_create(&beside[i], NULL, launch_on, NULL);
	for (long i = 0; i < nr / 10; i++)      /* what is made once */
		cycle();
	usleep(100000);
	TALLY("before", "threads", entries("/proc/self/task"));
	TALLY("before", "files", entries("/proc/self/fd"));
	TALLY("before", "kb", resident_kb());
	for (long i = 0; i < nr; i++)
		cycle();
	usleep(100000);
	TALLY("after", "threads", entries("/proc/self/task"));
	TALLY("after", "files", entries("/proc/self/fd"));
	TALLY("after", "kb", resident_kb());
	is_over = true;
	for (int i = 0; i < 3; i++)
		pthread_join(beside[i], NULL);
	CU(cuCtxSynchronize);
}

static const struct {
	const char *name;
	void (*run)(long nr);
} modes[] = {
	{ "pushed", pushed }, { "started", started },
	{ "registered", registered }, { "wide", wide }, { "across", across },
	{ "threads", threads }, { "abandoned", abandoned }, { "mark", mark },
	{ "steps", steps }, { "both", both }, { "cycles", cycles },
};

int main(int argc, char **argv)
{
	long nr = argc > 2 ? atol(argv[2]) : 3;
	size_t i;

	pause_ms = argc > 3 ? atol(argv[3]) : 0;
	if (argc > 1 && !strcmp(argv[1], "across"))
		nvtxRangePushA("work");
	gpu_open(&gpu, 0);
	for (i = 0; argc > 1 && i < sizeof(modes) / sizeof(*modes); i++)
		if (!strcmp(argv[1], modes[i].name))
			modes[i].run(nr);
	gpu_close(&gpu);
	tally_print();
	return EXIT_SUCCESS;
}
