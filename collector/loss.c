/* SPDX-License-Identifier: MIT */
#include "collector/loss.h"

#include <stdatomic.h>

static _Atomic uint64_t counts[LOSS_NR];

static const char *const keys[LOSS_NR] = {
#define X(id, key) [id] = key,
	LOSSES(X)
#undef X
};

void loss_add(enum loss cause, uint64_t n)
{
	atomic_fetch_add_explicit(&counts[cause], n, memory_order_relaxed);
}

uint64_t loss_get(enum loss cause)
{
	return atomic_load_explicit(&counts[cause], memory_order_relaxed);
}

const char *loss_key(enum loss cause)
{
	return keys[cause];
}
