// SPDX-License-Identifier: MIT
/* CUPTI's clock: the client's callback, or CLOCK_REALTIME. */
#include "test/sim/cupti_sim.h"

#include <stdatomic.h>
#include <time.h>

#define JUMP_NS 20000		/* a clock that moved against ours by more */
#define QUICK_NS 2000		/* a reading that nothing came between */

static _Atomic(CUpti_TimestampCallbackFunc) client_clock;
static atomic_uint_fast64_t offset;	/* CUPTI's clock - CLOCK_MONOTONIC */

static uint64_t read_realtime(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t sim_cupti_now(void)
{
	CUpti_TimestampCallbackFunc f = atomic_load(&client_clock);

	return f ? f() : read_realtime();
}

void sim_cupti_clock_check(void)
{
	uint64_t before, now, after, found, old = atomic_load(&offset);
	int64_t off;

	for (int i = 0; i < 10; i++) {
		before = sim_now();
		now = sim_cupti_now();
		after = sim_now();
		found = now - before / 2 - after / 2;
		off = (int64_t)(found - old);
		if (old && off < JUMP_NS && off > -JUMP_NS)
			return;
		if (after - before < QUICK_NS)
			break;
	}
	atomic_store(&offset, found);
}

uint64_t sim_cupti_time(uint64_t monotonic)
{
	return monotonic + atomic_load(&offset);
}

/* SIM_CLOCK_PPM, SIM_CLOCK_JUMP_MS: the device's clock against the CPU's. */
uint64_t sim_gpu_time(uint64_t monotonic)
{
	static _Atomic uint64_t first;
	static _Atomic int64_t ppm, jump_ns;
	uint64_t none = 0;
	int64_t past;

	if (atomic_compare_exchange_strong(&first, &none, monotonic)) {
		ppm = (int64_t)sim_env_number("SIM_CLOCK_PPM", 0);
		jump_ns = (int64_t)sim_env_number("SIM_CLOCK_JUMP_MS", 0) *
			1000000;
	}
	past = (int64_t)(monotonic - atomic_load(&first));
	past += past / 1000000 * ppm + (past > 1000000000 ? jump_ns : 0);
	return sim_cupti_time(atomic_load(&first) + (uint64_t)past);
}

SIM_EXPORT CUptiResult CUPTIAPI cuptiGetTimestamp(uint64_t *out)
{
	if (!out)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*out = sim_cupti_now();
	return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult CUPTIAPI
cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc f)
{
	CUptiResult r = sim_refusal(__func__);

	if (r)
		return r;
	if (!f)
		return CUPTI_ERROR_INVALID_PARAMETER;
	atomic_store(&client_clock, f);
	atomic_store(&offset, 0);
	sim_cupti_clock_check();
	return CUPTI_SUCCESS;
}
