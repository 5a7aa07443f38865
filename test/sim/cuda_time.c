// SPDX-License-Identifier: MIT
/* The timeline: when things start and end, and how to wait for that. */
#include "test/sim/cuda_sim.h"

#include <errno.h>
#include <time.h>

#define SPIN_NS 50000		/* the last part of a wait is not slept */

static struct sim_timeline timelines[SIM_MAX_DEVICES];

uint64_t sim_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sim_wait_until(uint64_t when)
{
	uint64_t now = sim_now();
	uint64_t wake = when - SPIN_NS;
	struct timespec t = {
		.tv_sec = (time_t)(wake / 1000000000u),
		.tv_nsec = (long)(wake % 1000000000u),
	};

	if (now + SPIN_NS < when)
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t,
				       NULL) == EINTR)
			;
	while (sim_now() < when)
		__builtin_ia32_pause();
}

void sim_burn(uint64_t ns)
{
	uint64_t end = sim_now() + ns;

	while (sim_now() < end)
		__builtin_ia32_pause();
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

uint64_t sim_context_tail(CUcontext c)
{
	uint64_t tail = 0;

	for (CUstream s = c->streams; s; s = s->next)
		tail = later(tail, s->tail);
	return tail;
}

/* The default stream waits for all blocking streams, and they for it. */
static uint64_t legacy_tail(CUstream s)
{
	uint64_t tail = s->tail;

	if (s->flags & CU_STREAM_NON_BLOCKING)
		return tail;
	if (s != s->context->null_stream)
		return later(tail, s->context->null_stream->tail);
	for (CUstream o = s->context->streams; o; o = o->next)
		if (!(o->flags & CU_STREAM_NON_BLOCKING))
			tail = later(tail, o->tail);
	return tail;
}

uint64_t sim_ready(CUstream s)
{
	static uint64_t latency;

	if (!latency)
		latency = sim_env_number("SIM_LATENCY_NS", 3000) + 1;
	/* about what one kernel behind another costs on the device */
	return later(sim_now() + latency, legacy_tail(s) + 800);
}

static uint64_t *engine_for(struct sim_timeline *t, const struct sim_op *op)
{
	uint64_t *first = &t->slot[0];

	if (op->kind == SIM_OP_COPY)
		return &t->engine[op->copy_kind == 1 ? 0 :
				  op->copy_kind == 2 ? 1 : 2];
	for (int i = 1; i < SIM_SLOTS; i++)
		if (t->slot[i] < *first)
			first = &t->slot[i];
	return first;
}

uint64_t sim_place(unsigned int device, const struct sim_op *op,
		   uint64_t earliest, uint64_t duration)
{
	uint64_t *engine = engine_for(&timelines[device], op);
	uint64_t start = later(earliest, *engine);

	*engine = start + duration;
	return start;
}

void sim_schedule(CUstream s, struct sim_op *op, uint64_t duration)
{
	op->start = sim_place(s->context->device, op, sim_ready(s), duration);
	op->end = op->start + duration;
	s->tail = op->end;
	s->queue[s->queued++ % SIM_QUEUE] = op->end;
}

void sim_throttle(CUstream s)
{
	uint64_t oldest = 0;

	sim_lock();
	if (s->queued >= SIM_QUEUE)
		oldest = s->queue[s->queued % SIM_QUEUE];
	sim_unlock();
	if (oldest > sim_now())
		sim_wait_until(oldest);
}

static void wait_hosts(CUstream s)
{
	while (__atomic_load_n(&s->hosts_left, __ATOMIC_ACQUIRE))
		sim_wait_until(sim_now() + 20000);
}

void sim_wait_stream(CUstream s)
{
	uint64_t end;

	sim_lock();
	end = legacy_tail(s);
	sim_unlock();
	sim_wait_until(end);
	wait_hosts(s);
}

void sim_wait_context(CUcontext c)
{
	uint64_t end;
	int hosts;

	sim_lock();
	end = sim_context_tail(c);
	sim_unlock();
	sim_wait_until(end);
	do {
		hosts = 0;
		sim_lock();
		for (CUstream s = c->streams; s; s = s->next)
			hosts += __atomic_load_n(&s->hosts_left,
						 __ATOMIC_ACQUIRE);
		sim_unlock();
		if (hosts)
			sim_wait_until(sim_now() + 20000);
	} while (hosts);
}
