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
#include <sys/syscall.h>

#include "collector/clock.h"
#include "collector/modules.h"
#include "collector/sample_signal.h"
#include "collector/stack_fill.h"
#include "collector/window.h"
#include "test/bench/bench.h"
#include "test/noinline.h"

enum { BURSTS = 41, TIMES = 200, HZ = 99 };

static union {
	struct stack_record record;
	uint64_t room[STACK_RECORD_MAX / 8 + 1];
} taken;
static struct sample_slot slot;
static volatile uint32_t sink;

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
		uint64_t start = bench_now_ns();

		for (int k = 0; k < TIMES; k++)
			take();
		ns[i] = (double)(bench_now_ns() - start) / TIMES;
	}
	return bench_median(ns, BURSTS);
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

		bench_print(ours, "ns", deep(depth, take_libc), 0,
			    "a call's stack, %u frames", taken.record.nr_pcs);
	}
	slot.ring = ring_create(16 << 10);
	slot.tid = (uint32_t)syscall(SYS_gettid);
	off = deep(20, take_sample);    /* no window: the signal alone */
	window_open();
	sink = 0;
	sample = deep(20, take_sample);
	if (sink >> 31)
		return EXIT_FAILURE;    /* it was not taken */
	bench_print(sample, "ns", off, 0, "a sample, with its signal");
	bench_print(sample * HZ / 1e7, "%", 0, 0,
		    "sampling a busy thread at %d Hz", HZ);
	return EXIT_SUCCESS;
}
