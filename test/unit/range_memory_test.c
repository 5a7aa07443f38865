/* SPDX-License-Identifier: MIT */
/*
 * Ranges near the bound on their memory: what is open, and what waits.
 */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/check.h"
#include "test/unit/scene.h"
#include "test/unit/scene_trace.h"

#define US UINT64_C(1000)

/* Pushes that nobody pops take most of the memory: what is closed waits for its
 * launches all the same, and only that asks for a flush. */
static void test_leaked(void)
{
	static const struct writer_options options = {
		.out = "/dev/null", .memory = 16 << 20, .world_size = 1,
	};
	static char name[RECORD_TEXT_MAX + 1];
	const struct ranges *ranges;
	uint64_t open_bytes;
	uint32_t i;

	memset(name, 'l', sizeof(name) - 1);
	scene_open_trace(&options);
	ranges = &trace->ranges;
	for (i = 0; ranges->bytes * 10 < ranges->max_bytes * 9; i++) {
		scene_push(i, i, name);
		step(false);
	}
	open_bytes = ranges->bytes;
	CHECK_EQ(ranges_use(ranges), 0);
	scene_push(10 * US, i, "waits");
	scene_launch((uint32_t)syscall(SYS_gettid), 1, 11 * US, 12 * US);
	scene_pop(13 * US, i);
	step(false);
	step(false);
	CHECK(ranges->closed_bytes > 0);
	CHECK_EQ(ranges->bytes, open_bytes + ranges->closed_bytes);
	CHECK(ranges_use(ranges) < RANGES_MANY);
	scene_kernel("k", 7, 1, 20 * US, 30 * US);
	step(false);
	/* Beside those a tenth of the memory is all that there is. */
	for (; ranges_use(ranges) <= RANGES_MANY; i++) {
		scene_push(40 * US, 4000, name);
		scene_pop(50 * US, 4000);
		drain_rings(trace);
	}
	CHECK(ranges->closed_bytes < ranges->max_bytes / 20);
	/* All of it is given back. */
	drain_close_ranges(trace, scene.t_ns + 100 * US);
	CHECK_EQ(ranges->bytes, ranges->closed_bytes);
	batch_write(trace, true);
	CHECK_EQ(ranges->bytes, 0);
	CHECK_EQ(ranges->closed_bytes, 0);
	CHECK(has("\"gpu_user_annotation\",\"name\":\"waits\"",
		  "\"GPU operations\":1"));
	scene_close_trace();
}

int main(void)
{
	scene_begin();
	test_leaked();
	return check_result();
}
