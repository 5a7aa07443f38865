/* SPDX-License-Identifier: MIT */
#include "collector/cupti_demand.h"

#include <errno.h>
#include <stdatomic.h>

#include "collector/clock.h"
#include "collector/wait.h"

static _Atomic uint32_t nr_asked, nr_answered, answers;

int cupti_demand(_Atomic uint32_t *wake, uint64_t deadline_ns)
{
	uint32_t ours = atomic_fetch_add(&nr_asked, 1) + 1, seen;
	uint64_t now_ns;

	wait_wake(wake);
	while (seen = atomic_load(&answers),
	       (int32_t)(atomic_load(&nr_answered) - ours) < 0) {
		now_ns = clock_now_ns();
		if (now_ns >= deadline_ns)
			return -ETIMEDOUT;
		wait_change(&answers, seen, deadline_ns - now_ns);
	}
	return 0;
}

bool cupti_demand_is_there(uint32_t *asked)
{
	*asked = atomic_load(&nr_asked);
	return *asked != atomic_load(&nr_answered);
}

void cupti_demand_answer(uint32_t asked)
{
	atomic_store(&nr_answered, asked);
	wait_wake(&answers);
}
