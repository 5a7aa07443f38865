/* SPDX-License-Identifier: MIT */
/*
 * tangle: ranges and threads that do not go together as they should.
 *
 *	tangle MODE [ARGUMENT]
 *
 *	cancel       threads that are cancelled amid NVTX and launches, at once
 *	             or where they look; each leaves a range open
 *	crowd [N]    N threads that launch and use NVTX at the same time
 *	fibres       400 fibres on four threads: each pushes on one thread,
 *	             launches and pops on whichever goes on with it
 *	unbalanced   pops of nothing, 20,000 pushes that are never popped, ends
 *	             of ranges that never were, or twice
 *	late [N]     NVTX in handlers and destructors of all kinds, at the end of
 *	             N threads and of the process, and in a thread that runs
 *	             on
 *	handler      NVTX in a signal handler on a stack of its own, as a
 *	             thread's first call and amid others
 *	plugin FILE  a library that uses NVTX, loaded 200 times
 *
 * Then 100 kernels, each in a range "work", by the main thread: nothing of the
 * above may be in their way.  Prints what it did as JSON.
 */
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "test/host/gpu.h"

enum { NR_WORK = 100 };

static struct gpu gpu;

static void work(void)
{
	int i;

	for (i = 0; i < NR_WORK; i++) {
		nvtxRangePushA("work");
		gpu_launch(&gpu, KERNEL_SILU, NULL, 2000);
		nvtxRangePop();
	}
	CU(cuCtxSynchronize);
	TALLY("ranges", "work", NR_WORK);
	TALLY("gpu", "kernels", NR_WORK);
}

/* Nothing but NVTX: a thread may be cancelled in the middle, and most of the
 * C library does not take that. */
static void use_everything(unsigned int turn)
{
	static const wchar_t wide[] = L"wide \u00e9 in the middle";
	nvtxDomainHandle_t domain = nvtxDomainCreateA("a domain");
	char name[] = "string 000";
	nvtxRangeId_t id;

	name[7] = (char)('0' + turn / 100 % 10);
	name[8] = (char)('0' + turn / 10 % 10);
	name[9] = (char)('0' + turn % 10);
	nvtxDomainRegisterStringA(domain, name);
	id = nvtxRangeStartA("started");
	nvtxRangePushW(wide);
	nvtxNameOsThreadA((uint32_t)gettid(), "cancelled");
	nvtxRangePop();
	nvtxRangeEnd(id);
}

/* ---- cancel ---- */

static void *until_cancelled(void *argument)
{
	bool is_async = (intptr_t)argument & 1;
	unsigned int turn;

	if ((intptr_t)argument & 2)
		nvtxRangePushA("cancelled");
	if (is_async)
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	else
		gpu_use(&gpu);
	for (turn = 0;; turn++) {
		use_everything(turn);
		if (turn % 2 == 0)
			usleep(500);
		if (!is_async) {
			gpu_launch(&gpu, KERNEL_COPY, NULL, 1000);
			pthread_testcancel();
		}
	}
	return NULL;
}

static void cancel(const char *unused)
{
	pthread_t threads[4];
	int i, round;

	(void)unused;
	nvtxMarkA("the first use");
	for (round = 0; round < 25; round++) {
		for (i = 0; i < 4; i++)
			pthread_create(&threads[i], NULL, until_cancelled,
				       (void *)(intptr_t)i);
		usleep((useconds_t)(rand() % 3000));
		for (i = 0; i < 4; i++)
			pthread_cancel(threads[i]);
		for (i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
	}
}

/* ---- crowd ---- */

static pthread_barrier_t all_there;

static void *be_one_of_many(void *argument)
{
	char name[32];
	int i;

	snprintf(name, sizeof(name), "one %d", (int)(intptr_t)argument);
	gpu_use(&gpu);
	pthread_barrier_wait(&all_there);
	nvtxRangePushA(name);
	for (i = 0; i < 5; i++) {
		nvtxMarkA("launch");
		gpu_launch(&gpu, KERNEL_ADD, NULL, 1000);
	}
	nvtxRangePop();
	pthread_barrier_wait(&all_there);
	return NULL;
}

static void crowd(const char *number)
{
	int i, nr = number ? atoi(number) : 1000;
	pthread_t *threads = calloc((size_t)nr, sizeof(*threads));

	/* NVTX's own first call races with others, by design. */
	nvtxMarkA("launch");
	pthread_barrier_init(&all_there, NULL, (unsigned int)nr);
	for (i = 0; i < nr; i++)
		if (pthread_create(&threads[i], NULL, be_one_of_many,
				   (void *)(intptr_t)i))
			exit(EXIT_FAILURE);
	for (i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
	free(threads);
	TALLY("gpu", "kernels", nr * 5);
}

/* ---- fibres ---- */

enum { NR_FIBRES = 400, NR_CARRIERS = 4, STACK = 64 << 10, NR_YIELDS = 3 };

static struct fibre {
	ucontext_t context;
	struct fibre *next;
	int number, turn;
	bool has_ended;
} fibres[NR_FIBRES];

static __thread ucontext_t *carrier;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fibre *ready, **last_ready = &ready;
static _Atomic int nr_left = NR_FIBRES;

static void put_ready(struct fibre *fibre)
{
	pthread_mutex_lock(&lock);
	fibre->next = NULL;
	*last_ready = fibre;
	last_ready = &fibre->next;
	pthread_mutex_unlock(&lock);
}

static struct fibre *take_ready(void)
{
	struct fibre *fibre;

	pthread_mutex_lock(&lock);
	fibre = ready;
	if (fibre)
		ready = fibre->next;
	if (!ready)
		last_ready = &ready;
	pthread_mutex_unlock(&lock);
	return fibre;
}

/* A fibre must not keep the address of a thread-local across a switch. */
__attribute__((noinline))
static ucontext_t *get_carrier(void)
{
	__asm__ volatile("" ::: "memory");
	return carrier;
}

static void be_fibre(int number)
{
	struct fibre *fibre = &fibres[number];
	char name[32];

	snprintf(name, sizeof(name), "fibre %d", number);
	nvtxRangePushA(name);
	for (; fibre->turn < NR_YIELDS; fibre->turn++) {
		gpu_launch(&gpu, KERNEL_ADD, NULL, 1000);
		swapcontext(&fibre->context, get_carrier());
	}
	nvtxRangePop();
	if (number % 3 == 0)
		nvtxRangePop();
	fibre->has_ended = true;
	swapcontext(&fibre->context, get_carrier());
}

static void *carry(void *argument)
{
	ucontext_t own;
	struct fibre *fibre;

	gpu_use(&gpu);
	carrier = &own;
	while (atomic_load(&nr_left)) {
		fibre = take_ready();
		if (!fibre) {
			sched_yield();
			continue;
		}
		swapcontext(&own, &fibre->context);
		if (fibre->has_ended)
			atomic_fetch_sub(&nr_left, 1);
		else
			put_ready(fibre);
	}
	return argument;
}

static void make_fibre(int number)
{
	struct fibre *fibre = &fibres[number];

	getcontext(&fibre->context);
	fibre->context.uc_stack.ss_sp = malloc(STACK);
	fibre->context.uc_stack.ss_size = STACK;
	makecontext(&fibre->context, (void (*)(void))be_fibre, 1, number);
	put_ready(fibre);
}

static void run_fibres(const char *unused)
{
	pthread_t threads[NR_CARRIERS];
	int i;

	(void)unused;
	for (i = 0; i < NR_FIBRES; i++)
		make_fibre(i);
	for (i = 0; i < NR_CARRIERS; i++)
		pthread_create(&threads[i], NULL, carry, NULL);
	for (i = 0; i < NR_CARRIERS; i++)
		pthread_join(threads[i], NULL);
	TALLY("gpu", "kernels", NR_FIBRES * NR_YIELDS);
}

/* ---- unbalanced ---- */

static void *leave_open(void *argument)
{
	nvtxDomainHandle_t domain = nvtxDomainCreateA("deep");
	nvtxEventAttributes_t a = { .version = NVTX_VERSION,
				    .size = sizeof(a) };
	int i;

	for (i = 0; i < 20000; i++) {
		if (i % 2)
			nvtxRangePushA("never popped");
		else
			nvtxDomainRangePushEx(domain, &a);
		if (i % 500 == 499)
			usleep(12000);
	}
	return argument;
}

static void unbalanced(const char *unused)
{
	nvtxRangeId_t id;
	pthread_t thread;
	int i, wrong = 0;

	(void)unused;
	for (i = 0; i < 1000; i++)
		wrong += nvtxRangePop() >= 0;
	/* Ids that others will have. */
	for (i = 0; i < 1000; i++)
		nvtxRangeEnd((nvtxRangeId_t)i + 1);
	for (i = 0; i < 5; i++) {
		id = nvtxRangeStartA("real");
		usleep(60000);
		nvtxRangeEnd(id);
		nvtxRangeEnd(id);
	}
	nvtxRangeEnd(UINT64_MAX);
	nvtxRangeEnd(0);
	nvtxDomainRangePop(NULL);
	pthread_create(&thread, NULL, leave_open, NULL);
	pthread_join(thread, NULL);
	TALLY("ranges", "wrong", wrong);
}

/* ---- late ---- */

/* The system's rounds of destructors; in its last one ThreadSanitizer's own
 * runs, and nothing of the program may behind it. */
#ifdef __has_feature
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)
#define NR_ROUNDS 3
#else
#define NR_ROUNDS 4
#endif

static pthread_key_t key;

static void use_named(const char *name)
{
	nvtxMarkA(name);
	nvtxRangePushA(name);
	nvtxRangePop();
	nvtxRangePushA("never popped");
	nvtxRangeStartA("never ended");
	nvtxNameOsThreadA((uint32_t)gettid(), "late");
}

static void in_key_destructor(void *value)
{
	use_named("key destructor");
	if ((intptr_t)value > 1)
		pthread_setspecific(key, (void *)((intptr_t)value - 1));
}

/* What a C++ thread_local registers (the ABI of libstdc++ and glibc). */
extern int __cxa_thread_atexit_impl(void (*run)(void *), void *argument,
				    void *library);
extern void *__dso_handle;

static void in_local_destructor(void *argument)
{
	use_named(argument);
}

static void *end_late(void *argument)
{
	__cxa_thread_atexit_impl(in_local_destructor, "thread_local",
				 &__dso_handle);
	pthread_setspecific(key, (void *)NR_ROUNDS);
	return argument;
}

static void at_the_end(void)
{
	use_named("atexit");
}

__attribute__((destructor))
static void at_unload(void)
{
	use_named("destructor");
}

static void *run_on(void *argument)
{
	for (;;) {
		use_named("runs on");
		usleep(100);
	}
	return argument;
}

static void late(const char *number)
{
	int i, nr = number ? atoi(number) : 200;
	pthread_t thread;

	pthread_key_create(&key, in_key_destructor);
	for (i = 0; i < nr; i++) {
		pthread_create(&thread, NULL, end_late, NULL);
		pthread_join(thread, NULL);
	}
	pthread_create(&thread, NULL, run_on, NULL);
	usleep(50000);
}

/* ---- handler ---- */

static _Atomic int nr_handled;

static void on_signal(int signal)
{
	static const wchar_t wide[200] = { [0 ... 198] = 0x1F600 };

	(void)signal;
	nvtxRangePushW(wide);
	nvtxMarkA("in a handler");
	nvtxRangePop();
	nvtxRangeEnd(nvtxRangeStartW(wide));
	atomic_fetch_add(&nr_handled, 1);
}

static void *be_interrupted(void *argument)
{
	/* What the kernel needs, and 4 KiB for the program. */
	size_t size = getauxval(AT_MINSIGSTKSZ) + 4096;
	char *memory = mmap(NULL, 8192 + size, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t stack = { .ss_size = size };
	int i;

	size = (size + 4095) & ~(size_t)4095;
	mprotect(memory + 4096, size, PROT_READ | PROT_WRITE);
	stack.ss_sp = memory + 4096 + (size - stack.ss_size);
	sigaltstack(&stack, NULL);
	for (i = 0; i < 2000; i++) {
		if (i % 4 == 0)
			raise(SIGUSR1);
		nvtxRangePushA("interrupted");
		nvtxRangePop();
	}
	return argument;
}

static void handler(const char *unused)
{
	struct sigaction action = { .sa_handler = on_signal,
				    .sa_flags = SA_ONSTACK | SA_RESTART };
	pthread_t threads[4];
	int i, round;

	(void)unused;
	sigaction(SIGUSR1, &action, NULL);
	for (i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, be_interrupted, NULL);
	for (round = 0; round < 2000; round++)
		pthread_kill(threads[round % 4], SIGUSR1);
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	TALLY("signals", "handled", atomic_load(&nr_handled));
}

/* ---- plugin ---- */

static void plugin(const char *path)
{
	void (*run)(unsigned int number);
	unsigned int i;
	void *library;

	for (i = 0; i < 200; i++) {
		library = dlopen(path, RTLD_NOW);
		run = library ? (void (*)(unsigned int))dlsym(library,
			"plugin_work") : NULL;
		if (!run)
			exit(EXIT_FAILURE);
		run(i);
		dlclose(library);
	}
	TALLY("ranges", "plugin", i);
}

static const struct {
	const char *name;
	void (*run)(const char *argument);
} modes[] = {
	{ "cancel", cancel }, { "crowd", crowd }, { "fibres", run_fibres },
	{ "unbalanced", unbalanced }, { "late", late },
	{ "handler", handler }, { "plugin", plugin }, { "work", NULL },
};

int main(int argc, char **argv)
{
	int status = 2;
	size_t i;

	atexit(at_the_end);             /* runs after the library's end */
	gpu_open(&gpu, 0);
	for (i = 0; argc > 1 && i < sizeof(modes) / sizeof(*modes); i++) {
		if (strcmp(argv[1], modes[i].name))
			continue;
		if (modes[i].run)
			modes[i].run(argc > 2 ? argv[2] : NULL);
		work();
		tally_print();
		status = EXIT_SUCCESS;
	}
	return status;
}
