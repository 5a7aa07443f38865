/* SPDX-License-Identifier: MIT */
/*
 * collector/python.h for Python programs, which load this with ctypes: walks
 * asked for, walks in a signal handler, and what a walk costs.
 */
#include "collector/python.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "collector/log.h"
#include "collector/modules.h"
#include "collector/peek.h"
#include "collector/python_layout.h"
#include "collector/python_lines.h"

#define SHOWN __attribute__((visibility("default")))
#define NR_SAMPLES 4096

SHOWN int prepare(int level)
{
	log_keep_stderr();
	log_init((enum log_level)level, NULL);
	modules_refresh();
	return python_prepare();
}

SHOWN int walk(char *text, size_t size)
{
	return python_walk(text, size);
}

SHOWN int walk_calls(char *text, size_t size, uint64_t *ends)
{
	return python_walk_calls(text, size, ends);
}

SHOWN int is_eval_frame(uintptr_t pc)
{
	return python_is_eval_frame(pc);
}

/* How many frames of the native stack are the interpreter's loop. */
SHOWN int nr_eval_frames(void)
{
	void *stack[1000];
	int nr = 0, i, depth = backtrace(stack, 1000);

	for (i = 0; i < depth; i++)
		nr += python_is_eval_frame((uintptr_t)stack[i] - 1);
	return nr;
}

/* The line of the instruction `at` bytes into a code object. */
SHOWN int line_at(unsigned int minor, uintptr_t code, int64_t at)
{
	struct python_types types = {
		.code = (uintptr_t)dlsym(RTLD_DEFAULT, "PyCode_Type"),
		.bytes = (uintptr_t)dlsym(RTLD_DEFAULT, "PyBytes_Type"),
	};
	uint32_t budget = 1 << 20;
	struct peek peek = { 0 };
	const char *why;
	static struct python_layout layout;

	if (!layout.minor &&
	    python_layout_find(&layout, minor,
			       (uintptr_t)dlsym(RTLD_DEFAULT, "_PyRuntime"),
			       &types, &why))
		return -1;
	return python_line(&peek, &layout, types.bytes, code, at, &budget);
}

/* ---- In a signal handler ---- */

static struct sample {
	int nr;
	char text[PYTHON_TEXT_MAX];
} samples[NR_SAMPLES];
static _Atomic unsigned int nr_samples;

static void take_sample(int number)
{
	struct sample *sample =
		&samples[atomic_fetch_add(&nr_samples, 1) % NR_SAMPLES];

	(void)number;
	sample->nr = python_walk(sample->text, sizeof(sample->text));
}

/* The calling thread gets the signal `hz` times a second until the process
 * ends, or the timer is deleted.  Returns the timer, -1. */
SHOWN long sample_thread(int hz)
{
	struct sigaction action = { .sa_handler = take_sample,
				    .sa_flags = SA_RESTART };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID,
				  .sigev_signo = SIGRTMIN + 3 };
	struct itimerspec when = { { 0, 1000000000 / hz },
				   { 0, 1000000000 / hz } };
	timer_t timer;

	event._sigev_un._tid = (int)syscall(SYS_gettid);
	if (sigaction(SIGRTMIN + 3, &action, NULL) ||
	    timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &when, NULL))
		return -1;
	return (long)timer;
}

SHOWN void sample_end(long timer)
{
	timer_delete((timer_t)timer);
}

SHOWN unsigned int count_samples(void)
{
	return atomic_load(&nr_samples);
}

SHOWN int get_sample(unsigned int i, char *text)
{
	memcpy(text, samples[i].text, PYTHON_TEXT_MAX);
	return samples[i].nr;
}

/* ---- Memory that is not there ---- */

SHOWN int peek_at(uintptr_t address, size_t size, char *to)
{
	struct peek peek = { 0 };

	return peek_copy(&peek, to, address, size);
}

/* ---- What it costs: ns a call, the smallest mean of 20 rounds ---- */

static char bench_text[PYTHON_TEXT_MAX];

static void nothing(void)
{
	__asm__ volatile("" ::: "memory");
}

static void walk_once(void)
{
	python_walk(bench_text, sizeof(bench_text));
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

SHOWN double measure(int is_walk, int nr)
{
	void (*volatile call)(void) = is_walk ? walk_once : nothing;
	double least = 1e18, start, ns;
	int round, i;

	for (round = 0; round < 20; round++) {
		start = now_ns();
		for (i = 0; i < nr; i++)
			call();
		ns = (now_ns() - start) / nr;
		if (ns < least)
			least = ns;
	}
	return least;
}

/* ---- A thread without Python ---- */

static void *walk_there(void *nr)
{
	char text[PYTHON_TEXT_MAX];

	*(int *)nr = python_walk(text, sizeof(text));
	return NULL;
}

SHOWN int walk_in_thread(void)
{
	pthread_t thread;
	int nr = -1;

	if (pthread_create(&thread, NULL, walk_there, &nr))
		return -1;
	pthread_join(thread, NULL);
	return nr;
}
