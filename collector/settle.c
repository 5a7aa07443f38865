/* SPDX-License-Identifier: MIT */
#include "collector/settle.h"

#include "collector/pool.h"
#include "collector/window.h"

bool settle_is_fetched(void)
{
	struct window window;

	return !pool_outstanding() ||
		(window_get(window_epoch() / 2, &window) &&
		 pool_oldest_ns() > window.close_ns);
}

bool settle_is_due(uint64_t flushed_ns, uint64_t wait_ns)
{
	uint32_t closed = window_epoch() / 2;
	struct window window;

	return window_settled() < closed && window_get(closed, &window) &&
		(pool_oldest_ns() > window.close_ns ||
		 flushed_ns > window.close_ns + wait_ns) &&
		window.close_ns < flushed_ns;
}
