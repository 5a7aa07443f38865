/* SPDX-License-Identifier: MIT */
/*
 * endings: a program that ends in every way there is.
 *
 *	endings MODE [--kernels N] [--wait]
 *
 * Launches N kernels (200), says so in JSON on stdout, with --wait reads stdin
 * to its end, and then ends: see `modes` below.  Kernels are short, so that
 * all have run by then.
 */
#include <cudaProfiler.h>
#include <getopt.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "test/host/gpu.h"

/* Exit statuses, one a way, so that none is taken for another. */
enum { STATUS = 42, FROM_HANDLER = 43, FROM_THREAD = 44 };

static struct gpu gpu;
static char *self;
static volatile sig_atomic_t go_on = 1;

static void work(long nr)
{
	long i;

	nvtxRangePushA("work");
	for (i = 0; i < nr; i++)
		gpu_launch(&gpu, KERNEL_SILU, NULL, 2000);
	CU(cuCtxSynchronize);
	nvtxRangePop();
	TALLY("gpu", "kernels", nr);
}

static void say(void)
{
	tally_print();
	fflush(stdout);
}

/* ---- The plain ones ---- */

static void by_return(void) { }
static void by_exit(void) { exit(STATUS); }
static void by__exit(void) { _exit(STATUS); }
static void by__Exit(void) { _Exit(STATUS); }
static void by_quick_exit(void) { quick_exit(STATUS); }
static void by_abort(void) { abort(); }
static void by_kill(void) { kill(getpid(), SIGKILL); }

static void by_exec(void)
{
	execl(self, self, "nothing", NULL);
}

static void by_exec_self(void)
{
	execl(self, self, "return", NULL);
}

static void by_crash(void)
{
	*(volatile int *)(uintptr_t)(gpu.device + 8) = 1;
}

/* The depth is no constant for the compiler. */
static int descend(volatile char *from, long depth)
{
	volatile char frame[4096];

	frame[0] = from ? from[0] : 0;
	return depth ? descend(frame, depth - 1) + frame[1] : 0;
}

static void by_overflow(void)
{
	(void)descend(NULL, go_on * 1000000000L);
}

static void exit_again(void)
{
	_exit(STATUS);
}

static void by_double_exit(void)
{
	atexit(exit_again);
	exit(1);
}

/* ---- Signals ---- */

static void exit_in_handler(int signal)
{
	(void)signal;
	exit(FROM_HANDLER);
}

static void _exit_in_handler(int signal)
{
	(void)signal;
	_exit(FROM_HANDLER);
}

static void stop_in_handler(int signal)
{
	(void)signal;
	go_on = 0;
}

static void wait_for_signal(void)
{
	while (go_on)
		pause();
}

static void handle(int number, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	sigaction(number, &action, NULL);
}

static void by_signal(void) { wait_for_signal(); }

static void by_term_exit(void)
{
	handle(SIGTERM, exit_in_handler, 0);
	wait_for_signal();
}

static void by_term__exit(void)
{
	handle(SIGTERM, _exit_in_handler, 0);
	wait_for_signal();
}

static void by_term_return(void)
{
	handle(SIGTERM, stop_in_handler, 0);
	wait_for_signal();
	work(10);
	exit(STATUS);
}

/* A crash handler as they are: its own stack, as small as is usual. */
static void on_own_stack(void)
{
	static char stack[8192];        /* SIGSTKSZ, before glibc 2.34 */
	stack_t own = { .ss_sp = stack, .ss_size = sizeof(stack) };

	sigaltstack(&own, NULL);
	handle(SIGSEGV, _exit_in_handler, SA_ONSTACK);
}

static void by_crash_handler(void)
{
	on_own_stack();
	by_crash();
}

static void by_overflow_handler(void)
{
	on_own_stack();
	by_overflow();
}

/* In the middle of what the handler interrupts, locks are held. */
static void end_soon(void)
{
	struct itimerval soon = { { 0, 0 }, { 0, 20000 } };

	handle(SIGALRM, _exit_in_handler, 0);
	setitimer(ITIMER_REAL, &soon, NULL);
}

static void in_malloc(void)
{
	void *volatile block;

	end_soon();
	for (;;) {
		block = malloc(100000);
		free(block);
	}
}

static void in_nvtx(void)
{
	end_soon();
	for (;;) {
		nvtxRangePushA("interrupted");
		nvtxRangePop();
	}
}

static void in_launch(void)
{
	end_soon();
	for (;;)
		gpu_try_launch(&gpu, KERNEL_COPY, NULL, 1000);
}

static void in_profiler_api(void)
{
	end_soon();
	for (;;) {
		cuProfilerStart();
		cuProfilerStop();
	}
}

/* ---- Threads ---- */

static void *end_from_thread(void *argument)
{
	void (*end)(int) = *(void (**)(int))argument;

	end(FROM_THREAD);
	return NULL;
}

static void end_elsewhere(void (*end)(int))
{
	pthread_t thread;
	int i;

	for (i = 0; i < 3; i++)
		pthread_create(&thread, NULL, gpu_launch_for_ever, &gpu);
	usleep(20000);
	pthread_create(&thread, NULL, end_from_thread, &end);
	for (;;)
		pause();
}

static void by_thread_exit(void) { end_elsewhere(exit); }
static void by_thread__exit(void) { end_elsewhere(_exit); }

static void *exec_from_thread(void *argument)
{
	by_exec();
	return argument;
}

static void by_thread_exec(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, gpu_launch_for_ever, &gpu);
	pthread_create(&thread, NULL, exec_from_thread, NULL);
	for (;;)
		pause();
}

/* Two at once: one in exit(), the other in _exit(). */
static void by_both(void)
{
	void (*end)(int) = _exit;
	pthread_t thread;

	pthread_create(&thread, NULL, end_from_thread, &end);
	exit(FROM_THREAD);
}

/* A kernel that never ends: the flush waits for it, the end must not. */
static void by_hung_exit(void)
{
	CUstream stream;

	CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	gpu_launch(&gpu, KERNEL_ATTENTION, stream, 1000000000000u);
	_exit(STATUS);
}

static void *be_cancelled(void *argument)
{
	gpu_use(&gpu);
	for (;;) {
		nvtxRangePushA("cancelled");
		gpu_try_launch(&gpu, KERNEL_COPY, NULL, 1000);
		nvtxRangePop();
		usleep(20);     /* here it is cancelled */
	}
	return argument;
}

static void by_cancel(void)
{
	pthread_t threads[4];
	int i, round;

	for (round = 0; round < 5; round++) {
		for (i = 0; i < 4; i++)
			pthread_create(&threads[i], NULL, be_cancelled, NULL);
		usleep(500);
		for (i = 0; i < 4; i++)
			pthread_cancel(threads[i]);
		for (i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
	}
	exit(STATUS);
}

/* ---- The driver's own thread ---- */

static void CUDA_CB exit_in_callback(void *unused)
{
	(void)unused;
	exit(FROM_THREAD);
}

static void CUDA_CB _exit_in_callback(void *unused)
{
	(void)unused;
	_exit(FROM_THREAD);
}

static void by_callback(void)
{
	CU(cuLaunchHostFunc, NULL, exit_in_callback, NULL);
	for (;;)
		pause();
}

static void by_callback__exit(void)
{
	CU(cuLaunchHostFunc, NULL, _exit_in_callback, NULL);
	for (;;)
		pause();
}

static const struct {
	const char *name;
	void (*end)(void);
} modes[] = {
	{ "return", by_return }, { "exit", by_exit }, { "_exit", by__exit },
	{ "_Exit", by__Exit }, { "quick_exit", by_quick_exit },
	{ "double-exit", by_double_exit }, { "exec", by_exec },
	{ "exec-self", by_exec_self }, { "abort", by_abort },
	{ "kill", by_kill }, { "signal", by_signal },
	{ "term-exit", by_term_exit }, { "term-_exit", by_term__exit },
	{ "term-return", by_term_return }, { "crash", by_crash },
	{ "crash-handler", by_crash_handler }, { "overflow", by_overflow },
	{ "overflow-handler", by_overflow_handler },
	{ "in-malloc", in_malloc }, { "in-nvtx", in_nvtx },
	{ "in-launch", in_launch }, { "in-profiler-api", in_profiler_api },
	{ "thread-exit", by_thread_exit }, { "thread-_exit", by_thread__exit },
	{ "thread-exec", by_thread_exec }, { "both", by_both },
	{ "hung-_exit", by_hung_exit }, { "callback", by_callback },
	{ "callback-_exit", by_callback__exit },
	{ "cancel", by_cancel },
};

static void (*find(const char *name))(void)
{
	size_t i;

	for (i = 0; name && i < sizeof(modes) / sizeof(*modes); i++)
		if (!strcmp(name, modes[i].name))
			return modes[i].end;
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "kernels", required_argument, NULL, 'k' },
		{ "wait", no_argument, NULL, 'w' },
		{ NULL, 0, NULL, 0 },
	};
	void (*end)(void);
	bool wait = false;
	long nr = 200;
	int c;

	self = argv[0];
	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (c == 'k')
			nr = atol(optarg);
		else if (c == 'w')
			wait = true;
		else
			return 2;
	}
	if (optind < argc && !strcmp(argv[optind], "nothing"))
		return FROM_HANDLER;
	end = find(argv[optind]);
	if (!end)
		return 2;
	gpu_open(&gpu, 0);
	work(nr);
	say();
	while (wait && getchar() != EOF)
		;
	end();
	return EXIT_SUCCESS;
}
