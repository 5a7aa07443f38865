/* SPDX-License-Identifier: MIT */
/*
 * hostile: a program that does what programs do to their guests.
 *
 *	hostile MODE [ARGUMENT]
 *
 *	close-all FILE  closes all descriptors now and then, and gets their
 *	                numbers for a file of its own, which must stay empty
 *	chdir FOLDER    changes its folder between two stretches of work
 *	children        children by fork and by a bare clone, which end normally
 *	errno           errno must survive calls that reach the library
 *	exit            ends while threads launch and use NVTX, which end late
 *	hung            ends while a kernel runs that never ends
 *	signals         a handler that uses NVTX interrupts NVTX
 *	small-stack     NVTX on threads with the smallest stack
 *	streams N       N streams, one after another, with a kernel each
 *
 * Prints what it did as JSON; status 1 if it was harmed.
 */
#include <cudaProfiler.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/host/gpu.h"

static struct gpu gpu;

static void work(long nr)
{
	long i;

	nvtxRangePushA("work");
	for (i = 0; i < nr; i++)
		gpu_launch(&gpu, KERNEL_SILU, NULL, 2000);
	CU(cuCtxSynchronize);
	nvtxRangePop();
	TALLY("gpu", "kernels", nr);
	TALLY("ranges", "work", 1);
}

static int fail(const char *what)
{
	printf("harmed: %s\n", what);
	return EXIT_FAILURE;
}

/* ---- close-all ---- */

/* Enough that a recorder has begun to write before it is time to. */
enum { NR_MUCH = 80000 };

/* While the library is idle, as far as one can tell from here: closes all and
 * takes the numbers over.  The files stay open, also at the exit. */
static int close_all(const char *path)
{
	int i, round;

	for (round = 0; round < 2; round++) {
		work(NR_MUCH);
		usleep(500000);
		for (i = 3; i < 64; i++)
			close(i);
		for (i = 3; i < 64; i++)
			if (open(path, O_RDWR | O_CREAT, 0600) < 0)
				return EXIT_FAILURE;
	}
	work(NR_MUCH);
	return EXIT_SUCCESS;
}

/* ---- chdir ---- */

static int change_folder(const char *folder)
{
	work(100);
	if (chdir(folder))
		return EXIT_FAILURE;
	usleep(300000);
	work(100);
	return EXIT_SUCCESS;
}

/* ---- children ---- */

static void *spin_nvtx(void *argument)
{
	uint64_t until_ns = now_ns() + *(uint64_t *)argument;

	while (now_ns() < until_ns) {
		nvtxRangePushA("beside");
		nvtxRangePop();
	}
	return NULL;
}

/* Milliseconds until the child has ended, or -1 if it did not end with 7. */
static long child_ms(bool is_bare)
{
	uint64_t start_ns = now_ns();
	int status;
	pid_t pid;

	pid = is_bare ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) :
		fork();
	if (!pid) {
		nvtxRangePushA("in a child");
		nvtxRangePop();
		exit(7);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
	    WEXITSTATUS(status) != 7)
		return -1;
	return (long)((now_ns() - start_ns) / 1000000);
}

static int children(const char *unused)
{
	uint64_t spin_ns = 1000000000;
	pthread_t thread;
	long ms, slowest = 0;
	int i;

	(void)unused;
	pthread_create(&thread, NULL, spin_nvtx, &spin_ns);
	for (i = 0; i < 20; i++) {
		work(20);
		ms = child_ms(i % 2);
		if (ms < 0)
			return fail("a child's status");
		slowest = ms > slowest ? ms : slowest;
	}
	pthread_join(thread, NULL);
	TALLY("children", "slowest ms", slowest);
	work(20);
	return EXIT_SUCCESS;
}

/* ---- errno ---- */

#define KEPT(call) do { \
	errno = 4711; \
	call; \
	if (errno != 4711) \
		return fail(#call); \
} while (0)

static int keep_errno(const char *unused)
{
	nvtxEventAttributes_t attributes = {
		.version = NVTX_VERSION, .size = sizeof(attributes),
		.messageType = NVTX_MESSAGE_TYPE_ASCII,
		.message = { .ascii = "range" },
	};
	nvtxDomainHandle_t domain;
	char name[32];
	int i;

	(void)unused;
	KEPT(cuProfilerStart());
	for (i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "domain %d", i);
		KEPT(domain = nvtxDomainCreateA(name));
		KEPT(nvtxDomainRegisterStringA(domain, name));
		KEPT(nvtxDomainNameCategoryA(domain, 1, name));
		KEPT(nvtxDomainRangePushEx(domain, &attributes));
		KEPT(nvtxDomainRangePop(domain));
	}
	KEPT(nvtxNameOsThreadA((uint32_t)gettid(), "main"));
	KEPT(cuProfilerStop());
	return EXIT_SUCCESS;
}

/* ---- exit ---- */

static pthread_key_t late_key;

/* Runs in every round of destructors, before and behind the library's. */
static void end_late(void *value)
{
	nvtxRangePushA("in a destructor");
	nvtxRangePop();
	gpu_launch(&gpu, KERNEL_SILU, NULL, 1000);
	if ((intptr_t)value > 1)
		pthread_setspecific(late_key, (void *)((intptr_t)value - 1));
}

static void *live_shortly(void *argument)
{
	gpu_use(&gpu);
	pthread_setspecific(late_key, (void *)3);
	nvtxRangePushA("never closed");
	gpu_launch(&gpu, KERNEL_COPY, NULL, 1000);
	return argument;
}

static void *exit_elsewhere(void *argument)
{
	usleep(200000);
	exit(*(int *)argument);
}

static int end_busy(const char *unused)
{
	int i, status = EXIT_SUCCESS;
	pthread_t thread;

	(void)unused;
	pthread_key_create(&late_key, end_late);
	for (i = 0; i < 50; i++) {
		pthread_create(&thread, NULL, live_shortly, NULL);
		pthread_join(thread, NULL);
	}
	for (i = 0; i < 4; i++)
		pthread_create(&thread, NULL, gpu_launch_for_ever, &gpu);
	pthread_create(&thread, NULL, exit_elsewhere, &status);
	pthread_join(thread, NULL);     /* it does not end before the process */
	return EXIT_FAILURE;
}

/* ---- hung ---- */

static int end_hung(const char *unused)
{
	CUstream stream;

	(void)unused;
	work(100);
	CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	nvtxRangePushA("request 7");
	gpu_launch(&gpu, KERNEL_ATTENTION, stream, 1000000000000u);
	nvtxRangePop();
	gpu_launch(&gpu, KERNEL_SILU, NULL, 1000);
	TALLY("gpu", "kernels", 1);
	usleep(50000);
	return EXIT_SUCCESS;
}

/* ---- signals ---- */

static void on_signal(int signal)
{
	(void)signal;
	nvtxRangePushA("in a handler");
	nvtxMarkA("in a handler");
	nvtxRangePop();
}

static int use_signals(const char *unused)
{
	struct itimerval often = { { 0, 50 }, { 0, 50 } };
	uint64_t until_ns;

	(void)unused;
	nvtxMarkA("before");    /* makes the thread's state */
	signal(SIGALRM, on_signal);
	setitimer(ITIMER_REAL, &often, NULL);
	for (until_ns = now_ns() + 500000000u; now_ns() < until_ns; ) {
		nvtxRangePushA("interrupted");
		nvtxRangePushA("inner");
		nvtxRangePop();
		nvtxRangePop();
		TALLY("ranges", "interrupted", 1);
	}
	signal(SIGALRM, SIG_IGN);
	work(10);
	return EXIT_SUCCESS;
}

/* ---- small-stack ---- */

static void *use_little(void *argument)
{
	nvtxRangePushW(L"wide");
	nvtxRangePushA("plain");
	nvtxRangePop();
	nvtxRangePop();
	nvtxNameOsThreadA((uint32_t)gettid(), "small");
	return argument;
}

static int small_stack(const char *unused)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int i;

	(void)unused;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN);
	for (i = 0; i < 10; i++) {
		if (pthread_create(&thread, &attributes, use_little, NULL))
			return EXIT_FAILURE;
		pthread_join(thread, NULL);
		TALLY("ranges", "wide", 1);
	}
	return EXIT_SUCCESS;
}

/* ---- streams ---- */

static int many_streams(const char *number)
{
	long i, nr = number ? atol(number) : 1000;
	CUstream stream;

	for (i = 0; i < nr; i++) {
		CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
		gpu_launch(&gpu, KERNEL_SILU, stream, 1000);
		CU(cuStreamSynchronize, stream);
		CU(cuStreamDestroy, stream);
	}
	TALLY("gpu", "kernels", nr);
	return EXIT_SUCCESS;
}

static const struct {
	const char *name;
	int (*run)(const char *argument);
} modes[] = {
	{ "close-all", close_all }, { "chdir", change_folder },
	{ "children", children }, { "errno", keep_errno },
	{ "exit", end_busy }, { "hung", end_hung }, { "signals", use_signals },
	{ "small-stack", small_stack }, { "streams", many_streams },
};

int main(int argc, char **argv)
{
	int status = 2;
	size_t i;

	for (i = 0; argc > 1 && i < sizeof(modes) / sizeof(*modes); i++) {
		if (strcmp(argv[1], modes[i].name))
			continue;
		gpu_open(&gpu, 0);
		status = modes[i].run(argc > 2 ? argv[2] : NULL);
		if (!status)
			tally_print();
	}
	return status;
}
