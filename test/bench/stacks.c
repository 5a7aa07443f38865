/* SPDX-License-Identifier: MIT */
/*
 * What a call stack costs the program: one taken in a call, of 12 and 52
 * frames, beside the C library's backtrace(); and a sample, with the signal
 * that brings it, and what that is of a busy thread's time at 99 Hz.  Medians
 * of bursts; the modules' table and the rows are warm, as they are after the
 * first of a place.
 */
#include <execinfo.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "collector/clock.h"
#include "collector/modules.h"
#include "collector/sample_signal.h"
#include "collector/stack_fill.h"
#include "collector/window.h"
#include "test/noinline.h"

enum { BURSTS = 41, TIMES = 200, HZ = 99 };

static union {
	struct stack_record record;
	uint64_t room[STACK_RECORD_MAX / 8 + 1];
} taken;
static struct sample_slot slot;
static volatile uint32_t sink;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void take_ours(void)
{
	struct unwind_frame frame;

	unwind_here(&frame);
	sink += stack_fill(&taken.record, &frame);
}

static void take_libc(void)
{
	void *pcs[STACK_PCS_MAX];

	sink += (uint32_t)backtrace(pcs, STACK_PCS_MAX);
}

/* As the kernel does when the thread's timer is over. */
static void take_sample(void)
{
	siginfo_t why = { .si_code = SI_TIMER };

	why.si_value.sival_ptr = &slot;
	syscall(SYS_rt_tgsigqueueinfo, getpid(), (int)slot.tid,
		sample_signal(), &why);
	if (ring_peek(slot.ring))
		ring_release(slot.ring);
	else
		sink |= 1u << 31;
}

static double median(void (*take)(void))
{
	double ns[BURSTS];

	for (int i = 0; i < BURSTS; i++) {
		uint64_t start = now_ns();

		for (int k = 0; k < TIMES; k++)
			take();
		ns[i] = (double)(now_ns() - start) / TIMES;
	}
	qsort(ns, BURSTS, sizeof ns[0], compare);
	return ns[BURSTS / 2];
}

static void tell(const char *name, double value, double baseline)
{
	printf("{\"name\":\"%s\",\"value\":%.0f,\"unit\":\"ns\","
	       "\"baseline\":%.0f,\"frames\":%u}\n", name, value, baseline,
	       taken.record.nr_pcs);
	fflush(stdout);
}

NOINLINE static double deep(int n, void (*take)(void))
{
	double found;

	if (!n)
		return median(take);
	found = deep(n - 1, take);
	sink++;
	return found;
}

int main(void)
{
	double sample, off;

	clock_init();
	if (modules_refresh() < 0 || sample_signal_take(&slot, sizeof slot))
		return EXIT_FAILURE;
	(void)deep(0, take_libc);
	for (int depth = 8; depth <= 48; depth += 40) {
		double ours = deep(depth, take_ours);

		tell(depth == 8 ? "a call's stack, shallow" :
		     "a call's stack, deep", ours, deep(depth, take_libc));
	}
	slot.ring = ring_create(16 << 10);
	slot.tid = (uint32_t)syscall(SYS_gettid);
	off = deep(20, take_sample);    /* no window: the signal alone */
	window_open();
	sink = 0;
	sample = deep(20, take_sample);
	if (sink >> 31)
		return EXIT_FAILURE;    /* it was not taken */
	tell("a sample, with its signal", sample, off);
	printf("{\"name\":\"sampling a busy thread at 99 Hz\","
	       "\"value\":%.3f,\"unit\":\"%%\",\"baseline\":0}\n",
	       sample * HZ / 1e7);
	return EXIT_SUCCESS;
}
