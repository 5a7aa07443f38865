/* SPDX-License-Identifier: MIT */
#include "collector/clock.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

/* A line is first used so long after clock_init(): 0.1 s gives the counter's
 * rate to 1 ppm. */
#define FIRST_LINE_NS 100000000u

/* Lines in turn; a reader that sleeps while 15 newer ones are made (15 s)
 * reads again: its line is overwritten. */
#define NR_LINES 16

/* Steering: at most 0.1 %, so that durations stay true; an error beyond 10 ms
 * (the machine was suspended: BOOTTIME went on, the counter did not) is
 * jumped, forwards only, and the rate is measured anew. */
#define MAX_STEER_PPM 1000
#define JUMP_NS 10000000

struct line {
	_Atomic uint64_t counter, ns;   /* where it starts */
	_Atomic uint64_t rate;          /* ns a count, in units of 2^-32 */
};

/* REALTIME minus BOOTTIME at clock_init(). */
static _Atomic uint64_t epoch_offset_ns;
static struct line lines[NR_LINES];
static _Atomic uint32_t nr_made;        /* 0: no line, use the vDSO */
static uint64_t first_counter, first_ns;
static uint64_t measured_rate;          /* 0: not yet */
static bool counter_is_usable;

/* Where a sandbox refuses: a clock that stood still would end no wait. */
static uint64_t read_ns(clockid_t id)
{
	struct timespec t;
	struct timeval wall = { 0 };

	if (!clock_gettime(id, &t) || (id != CLOCK_REALTIME &&
				       !clock_gettime(CLOCK_MONOTONIC, &t)))
		return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	gettimeofday(&wall, NULL);
	return (uint64_t)wall.tv_sec * 1000000000u +
		(uint64_t)wall.tv_usec * 1000u;
}

static uint64_t read_counter(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#else
	return 0;
#endif
}

/* The kernel has checked the counter of all CPUs before it trusts it. */
static bool kernel_trusts_counter(void)
{
#if defined(__x86_64__)
	unsigned int a, b, c, d;
	char name[16] = "";
	int fd = open("/sys/devices/system/clocksource/clocksource0/"
		      "current_clocksource", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	if (read(fd, name, sizeof name - 1) < 0)
		name[0] = 0;
	close(fd);
	/* Invariant counter: leaf 0x80000007, EDX bit 8 (Intel SDM). */
	return !strcmp(name, "tsc\n") &&
		__get_cpuid(0x80000007, &a, &b, &c, &d) && (d >> 8 & 1);
#else
	return false;
#endif
}

/* Both clocks at one moment: the tightest of a few tries. */
static void read_both(uint64_t *counter, uint64_t *ns)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t before = read_counter();
		uint64_t now = read_ns(CLOCK_BOOTTIME);
		uint64_t took = read_counter() - before;

		if (took < best) {
			best = took;
			*counter = before + took / 2;
			*ns = now;
		}
	}
}

/*
 * True if BOOTTIME and the counter have not gone on alike since the last
 * look, of which the first is clock_init()'s.  While the machine is suspended
 * BOOTTIME goes on, MONOTONIC stands, the counter does either or begins again.
 */
static bool was_suspended(uint64_t counter)
{
	static uint64_t last_counter, last_ahead_ns;
	uint64_t ahead_ns = read_ns(CLOCK_BOOTTIME);
	bool is_back = counter < last_counter;
	int64_t more_ns;

	ahead_ns -= read_ns(CLOCK_MONOTONIC);
	more_ns = (int64_t)(ahead_ns - last_ahead_ns);
	last_ahead_ns = ahead_ns;
	last_counter = counter;
	return is_back || more_ns > JUMP_NS;
}

void clock_init(void)
{
	uint64_t before, real;

	if (atomic_load_explicit(&epoch_offset_ns, memory_order_relaxed))
		return;
	before = read_ns(CLOCK_BOOTTIME);
	real = read_ns(CLOCK_REALTIME);
	/* REALTIME was read between two BOOTTIMEs: take their middle. */
	before += (read_ns(CLOCK_BOOTTIME) - before) / 2;
	counter_is_usable = kernel_trusts_counter();
	if (counter_is_usable) {
		read_both(&first_counter, &first_ns);
		(void)was_suspended(first_counter);
	}
	atomic_store_explicit(&epoch_offset_ns, real - before,
			      memory_order_relaxed);
}

/* BOOTTIME as the line says; a counter read before its start is its start.
 * What clock_adjust() stores into a line is not visible before the number of
 * the line before it: acquire here, release there. */
static uint64_t on_line(struct line *line, uint64_t counter)
{
	uint64_t start = atomic_load_explicit(&line->counter,
					      memory_order_acquire);
	uint64_t ns = atomic_load_explicit(&line->ns, memory_order_acquire);
	uint64_t rate = atomic_load_explicit(&line->rate,
					     memory_order_acquire);
	int64_t past = (int64_t)(counter - start);

	if (past < 0)
		past = 0;
	return ns + (uint64_t)((unsigned __int128)(uint64_t)past * rate >> 32);
}

static uint64_t boottime_ns(void)
{
	/* Pairs with the release store in clock_adjust(). */
	uint32_t nr = atomic_load_explicit(&nr_made, memory_order_acquire);

	while (nr) {
		uint64_t ns = on_line(&lines[nr % NR_LINES], read_counter());
		uint32_t newest = atomic_load_explicit(&nr_made,
						       memory_order_acquire);

		if (newest - nr < NR_LINES - 1)
			return ns;
		nr = newest;
	}
	return read_ns(CLOCK_BOOTTIME);
}

uint64_t clock_now_ns(void)
{
	return boottime_ns() +
		atomic_load_explicit(&epoch_offset_ns, memory_order_relaxed);
}

static uint64_t steered(uint64_t rate, int64_t error_ns)
{
	int64_t ppm = error_ns / 1000;  /* to be gone in one second */

	if (error_ns < -JUMP_NS)        /* too far ahead: wait for BOOTTIME */
		return rate / 2;
	if (ppm > MAX_STEER_PPM)
		ppm = MAX_STEER_PPM;
	if (ppm < -MAX_STEER_PPM)
		ppm = -MAX_STEER_PPM;
	return rate + (uint64_t)((int64_t)(rate / 1000000) * ppm);
}

/* The counter's rate is measured from here on. */
static void begin_measure(uint64_t counter, uint64_t ns)
{
	first_counter = counter;
	first_ns = ns;
}

static void start_line(uint32_t nr, uint64_t counter, uint64_t ns,
		       uint64_t rate)
{
	struct line *line = &lines[nr % NR_LINES];

	atomic_store_explicit(&line->counter, counter, memory_order_release);
	atomic_store_explicit(&line->ns, ns, memory_order_release);
	atomic_store_explicit(&line->rate, rate, memory_order_release);
	atomic_store_explicit(&nr_made, nr, memory_order_release);
}

void clock_adjust(void)
{
	uint32_t nr = atomic_load_explicit(&nr_made, memory_order_relaxed);
	uint64_t counter = 0, ns = 0, start_ns;
	int64_t error_ns;
	bool is_new;

	if (!counter_is_usable)
		return;
	read_both(&counter, &ns);
	is_new = was_suspended(counter);
	/* The first line starts 1 us ahead: no reading before is later. */
	start_ns = nr ? on_line(&lines[nr % NR_LINES], counter) : ns + 1000;
	error_ns = (int64_t)(ns - start_ns);
	if (error_ns > JUMP_NS) {
		start_ns = ns;
		error_ns = 0;
		is_new = true;
	}
	if (is_new || error_ns < -JUMP_NS)
		begin_measure(counter, ns);
	else if (ns - first_ns >= FIRST_LINE_NS)
		measured_rate = (uint64_t)(((unsigned __int128)(ns - first_ns)
					    << 32) / (counter - first_counter));
	else if (!nr)
		return;
	if (measured_rate)
		start_line(nr + 1, counter, start_ns,
			   steered(measured_rate, error_ns));
}

void clock_snapshot(struct clock_pair *pair)
{
	uint64_t before = read_ns(CLOCK_BOOTTIME);

	pair->realtime_ns = read_ns(CLOCK_REALTIME);
	pair->boottime_ns = before + (read_ns(CLOCK_BOOTTIME) - before) / 2;
	pair->t_ns = clock_now_ns();
}
