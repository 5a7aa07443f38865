/* SPDX-License-Identifier: MIT */
/*
 * What an allocation of PyTorch's caching allocator, or a free, costs more
 * (part of the source `torch`): host/allocator does pairs of them on the
 * simulated one, without libgputrace.so, with it but without the source, with
 * the source asleep, and while recording.
 */
#include "test/bench/bench.h"

int main(void)
{
	/* 1.5 % at 100,000 a second. */
	static const struct bench_calls pairs = {
		.name = "torch allocation", .libraries = "$B/sim",
		.command = "$B/host/allocator $B/sim/c10 burst 500 51",
		.sources = "torch", .nr = 2, .limit = 200,
	};

	return bench_calls(&pairs) ? EXIT_FAILURE : EXIT_SUCCESS;
}
