/* SPDX-License-Identifier: MIT */
/*
 * stacks: a program whose call stacks are known.
 *
 *	stacks MODE [--seconds S] [--threads N]
 *
 *	sync     outer -> middle -> inner waits for a kernel of 2 ms, 20 times
 *	shares   one thread: three parts of its CPU time in `heavy`, one in
 *	         `light`, both under `work`; it says how much by its own clock
 *	threads  N threads that compute at once
 *	signals  computes under a storm of its own signals and timers
 *	taken    takes SIGURG after 0.3 s, and computes
 *	timer    has a timer that sends SIGURG, and computes
 *	filter   lets no thread make timers or perf events, from its half on
 *	waits    blocks SIGURG from the start, computes, and looks whether
 *	         one has come
 *	loop     blocks SIGURG from the start, and waits for it again and
 *	         again, computing between
 *	reset    puts all signals back to their defaults, and computes
 *	go       has SIGURG from the start, as Go's runtime does
 *	dlopen   loads and unloads a library whose code computes, again and
 *	         again, while other threads compute
 *	garbage  computes with a stack pointer that points nowhere
 *	jit      computes in code that it made: without unwind tables, with
 *	         and without a frame pointer; named in perf-PID.map
 *	sleep    sleeps: no CPU time, no samples
 *
 * Shows: what the source `stacks` makes of each.  It prints its own account.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "test/host/gpu.h"
#include "test/host/narrow.h"
#include "test/noinline.h"

enum { SYNCS = 20, KERNEL_NS = 2000000 };

static struct gpu gpu;
static CUstream stream;
static double seconds = 1;
static int nr_threads = 200;
static atomic_ulong sink;

#define USE(n) atomic_fetch_add_explicit(&sink, n, memory_order_relaxed)

static double cpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void computed(double from)
{
	TALLY("cpu", "us", (long)((cpu_now() - from) * 1e6));
}

/* ---- sync ---- */

NOINLINE void inner(void)
{
	gpu_launch(&gpu, KERNEL_GEMM_UP, stream, KERNEL_NS);
	CU(cuStreamSynchronize, stream);
	TALLY("gpu", "kernels", 1);
	USE(1);
}

NOINLINE void middle(void)
{
	inner();
	USE(1);
}

NOINLINE void outer(void)
{
	middle();
	USE(1);
}

NOINLINE static void mode_sync(void)
{
	for (int i = 0; i < SYNCS; i++)
		outer();
	USE(2);
}

/* ---- shares ---- */

NOINLINE void heavy(double for_s)
{
	for (double from = cpu_now(); cpu_now() - from < for_s;)
		for (int i = 0; i < 20000; i++)
			USE(i);
	USE(1);
}

NOINLINE void light(double for_s)
{
	for (double from = cpu_now(); cpu_now() - from < for_s;)
		for (int i = 0; i < 20000; i++)
			USE(i);
	USE(2);
}

NOINLINE void work(void)
{
	double from = cpu_now(), between;

	heavy(0.09);
	between = cpu_now();
	TALLY("cpu", "heavy us", (long)((between - from) * 1e6));
	light(0.03);
	TALLY("cpu", "light us", (long)((cpu_now() - between) * 1e6));
}

static void mode_shares(void)
{
	for (double from = cpu_now(); cpu_now() - from < seconds;)
		work();
}

/* ---- threads ---- */

static void *compute(void *argument)
{
	double from = cpu_now();

	(void)argument;
	heavy(seconds);
	computed(from);
	return NULL;
}

static void mode_threads(void)
{
	pthread_t threads[1024];
	int i;

	for (i = 0; i < nr_threads; i++)
		if (pthread_create(&threads[i], NULL, compute, NULL))
			exit(1);
	while (i-- > 0)
		pthread_join(threads[i], NULL);
	TALLY("cpu", "threads", nr_threads);
}

/* ---- signals ---- */

static atomic_long caught;

NOINLINE void on_own_signal(int number)
{
	(void)number;
	caught++;
	for (int i = 0; i < 2000; i++)
		USE(i);
}

static void *send_signals(void *argument)
{
	pthread_t *to = argument;

	for (int i = 0; i < 4000; i++) {
		pthread_kill(*to, i & 1 ? SIGUSR1 : SIGRTMIN);
		usleep(100);
	}
	return NULL;
}

static void mode_signals(void)
{
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, off = { 0 };
	pthread_t self = pthread_self(), thread;
	double from = cpu_now();

	signal(SIGUSR1, on_own_signal);
	signal(SIGRTMIN, on_own_signal);
	signal(SIGPROF, on_own_signal);
	setitimer(ITIMER_PROF, &often, NULL);
	pthread_create(&thread, NULL, send_signals, &self);
	heavy(seconds);
	pthread_join(thread, NULL);
	setitimer(ITIMER_PROF, &off, NULL);
	computed(from);
	TALLY("signals", "caught", caught);
}

static void mode_taken(void)
{
	heavy(0.3);
	signal(SIGURG, on_own_signal);
	usleep(300000);
	caught = 0;
	heavy(seconds);
	TALLY("signals", "not ours", caught);
	raise(SIGURG);
	TALLY("signals", "caught", caught);
}

/* A timer of the program's own, whose signal nobody handles. */
static void mode_timer(void)
{
	struct itimerspec often = { { 0, 1000000 }, { 0, 1000000 } };
	struct sigevent event = {
		.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG,
	};
	int timer;              /* in librt until glibc 2.34 */

	TALLY("timer", "made",
	      !syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) &&
	      !syscall(SYS_timer_settime, timer, 0, &often, NULL));
	heavy(seconds);
	syscall(SYS_timer_delete, timer);
}

static void block_signal(void)
{
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, SIGURG);
	pthread_sigmask(SIG_BLOCK, &one, NULL);
}

static void mode_waits(void)
{
	struct timespec none = { 0, 0 };
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, SIGURG);
	heavy(seconds);
	TALLY("signals", "not ours", sigtimedwait(&one, NULL, &none) > 0);
	raise(SIGURG);
	TALLY("signals", "caught", sigtimedwait(&one, NULL, &none) > 0);
}

/* Most of the time it is in the wait, in which the kernel has the signal
 * unblocked. */
static void mode_loop(void)
{
	struct timespec pause = { 0, 40000000 };
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, SIGURG);
	for (double from = cpu_now(); cpu_now() - from < seconds;) {
		TALLY("signals", "not ours",
		      sigtimedwait(&one, NULL, &pause) > 0);
		heavy(0.01);
	}
}

/* Hardly ever met in one of its short waits. */
static void mode_naps(void)
{
	for (double from = cpu_now(); cpu_now() - from < seconds;) {
		heavy(0.0005);
		usleep(1);
	}
}

static void mode_reset(void)
{
	heavy(0.3);
	for (int i = 1; i <= SIGRTMAX; i++)
		signal(i, SIG_DFL);
	heavy(seconds);
}

static void have_signal(void)
{
	signal(SIGURG, on_own_signal);
}

static void mode_go(void)
{
	heavy(seconds);
	TALLY("signals", "not ours", caught);
}

/* ---- dlopen ---- */

static void mode_dlopen(void)
{
	char self[PATH_MAX] = "", path[PATH_MAX + 32];
	ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
	pthread_t threads[2];
	long nr = 0;

	if (len < 0)
		exit(1);
	TALLY("dlopen", "errors", dlerror() != NULL);
	snprintf(path, sizeof path, "%s/../shim/plugin.so", dirname(self));
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, compute, NULL);
	for (double from = cpu_now(); cpu_now() - from < seconds; nr++) {
		void *handle = dlopen(path, RTLD_NOW);

		if (!handle)
			exit(1);
		dlclose(handle);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	TALLY("dlopen", "times", nr);
}

static void mode_filter(void)
{
	pthread_t thread;

	heavy(seconds / 2);
	TALLY("filter", "error", narrow_profilers());
	pthread_create(&thread, NULL, compute, NULL);
	heavy(seconds / 2);
	pthread_join(thread, NULL);
}

/* ---- garbage ---- */

#if defined(__x86_64__)
/* Nothing of the stack may be touched here; its signals have another one. */
__attribute__((noinline)) static void spin_on(unsigned long garbage, long turns)
{
	__asm__ volatile("mov %%rsp, %%r12\n\tmov %%rbp, %%r13\n\t"
			 "mov %0, %%rsp\n\tmov %0, %%rbp\n"
			 "1:\tdec %1\n\tjnz 1b\n\t"
			 "mov %%r12, %%rsp\n\tmov %%r13, %%rbp"
			 : "+r" (garbage), "+r" (turns) : :
			 "r12", "r13", "memory", "cc");
}

static void mode_garbage(void)
{
	static const unsigned long places[] = {
		0, 8, 4096, 0x4141414141414141, 0x7ffffffff000,
		0xffffffffff600000, ~0ul, 0x123456789abc,
	};
	stack_t other = { .ss_sp = malloc(65536), .ss_size = 65536 };
	double from = cpu_now();

	sigaltstack(&other, NULL);
	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		spin_on(places[i], 200000000);
	spin_on((unsigned long)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE |
				    MAP_ANONYMOUS, -1, 0) + 2048, 200000000);
	computed(from);
}
#else
static void mode_garbage(void)
{
}
#endif

/* ---- jit ---- */

#if defined(__x86_64__)
NOINLINE void called_from_jit(void)
{
	heavy(seconds / 2);
	USE(1);
}

/* With a frame pointer: push rbp; mov rbp, rsp; call rdi; pop rbp; ret.
 * Without: sub rsp, 24; call rdi; add rsp, 24; ret. */
static const unsigned char with[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7,
				      0x5d, 0xc3 };
static const unsigned char without[] = { 0x48, 0x83, 0xec, 0x18, 0xff, 0xd7,
					 0x48, 0x83, 0xc4, 0x18, 0xc3 };

static void mode_jit(void)
{
	char path[64];
	char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FILE *map;

	memcpy(code, with, sizeof with);
	memcpy(code + 64, without, sizeof without);
	snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
	map = fopen(path, "w");
	if (!map)
		exit(1);
	fprintf(map, "%lx 40 made with pointer\n%lx 40 made without\n",
		(unsigned long)code, (unsigned long)code + 64);
	fclose(map);
	((void (*)(void (*)(void)))(void *)code)(called_from_jit);
	((void (*)(void (*)(void)))(void *)(code + 64))(called_from_jit);
	usleep(300000);                 /* its names are read meanwhile */
	unlink(path);
}
#else
static void mode_jit(void)
{
}
#endif

static void mode_sleep(void)
{
	usleep((useconds_t)(seconds * 1e6));
	USE(1);
}

static const struct {
	const char *name;
	void (*run)(void);
	void (*before)(void);           /* CUDA is there */
} modes[] = {
	{ "sync", mode_sync, NULL }, { "shares", mode_shares, NULL },
	{ "threads", mode_threads, NULL }, { "signals", mode_signals, NULL },
	{ "taken", mode_taken, NULL }, { "waits", mode_waits, block_signal },
	{ "loop", mode_loop, block_signal }, { "naps", mode_naps, NULL },
	{ "reset", mode_reset, NULL }, { "go", mode_go, have_signal },
	{ "dlopen", mode_dlopen, NULL }, { "timer", mode_timer, NULL },
	{ "filter", mode_filter, NULL },
	{ "garbage", mode_garbage, NULL }, { "jit", mode_jit, NULL },
	{ "sleep", mode_sleep, NULL },
};

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "seconds", required_argument, NULL, 's' },
		{ "threads", required_argument, NULL, 't' },
		{ NULL, 0, NULL, 0 },
	};
	size_t i;
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case 's': seconds = atof(optarg); break;
		case 't': nr_threads = atoi(optarg); break;
		default: return 2;
		}
	}
	for (i = 0; i < sizeof modes / sizeof *modes; i++)
		if (optind < argc && !strcmp(modes[i].name, argv[optind]))
			break;
	if (i == sizeof modes / sizeof *modes)
		return 2;
	if (modes[i].before)
		modes[i].before();
	gpu_open(&gpu, 0);
	CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	modes[i].run();
	CU(cuStreamDestroy, stream);
	gpu_close(&gpu);
	tally_print();
	return EXIT_SUCCESS;
}
