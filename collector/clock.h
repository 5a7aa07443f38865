/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CLOCK_H
#define GPUTRACE_COLLECTOR_CLOCK_H

#include <stdint.h>

/*
 * The clock of everything we record: epoch nanoseconds that cannot step.
 * CLOCK_REALTIME is read once, at clock_init(); from then on CLOCK_BOOTTIME
 * moves it.  CUPTI is given the same clock (cuptiActivityRegisterTimestamp
 * Callback), so that activities and records stand on one time line.
 *
 * Where the kernel itself keeps time by the CPU's time stamp counter, we read
 * that (23 ns instead of 42 for clock_gettime on one virtual machine, twice
 * in each recorded call) and clock_adjust() keeps it on BOOTTIME:
 *
 *   ns  |          .-'     each line starts where the one before has got to
 *       |      .-'         (time never steps back) and is steered to meet
 *       |  .-'             BOOTTIME a second later
 *       +---|-----|---> counter
 *         adjust adjust
 */
void clock_init(void);

/* Context: any thread, signal-safe, no system call (vDSO or counter). */
uint64_t clock_now_ns(void);

/* About every second while a window is open.  Context: flush thread. */
void clock_adjust(void);

/* One reading of our clock beside the system's two, to see drift and steps. */
struct clock_pair {
	uint64_t t_ns;
	uint64_t realtime_ns;
	uint64_t boottime_ns;
};
void clock_snapshot(struct clock_pair *pair);

#endif
