/* SPDX-License-Identifier: MIT */
/*
 * What a wrapper of a library's function costs the program: host/libraries
 * calls functions of the simulated cuBLAS and NCCL that do nothing, without
 * libgputrace.so, with it but without the source, with the source asleep
 * (GPUTRACE_START=off), and while recording.  The sources stay so far below a
 * real call (some microseconds) that what they add is told, not a share.
 */
#include "test/bench/bench.h"

#define CALLS(function) { \
	.name = "library call " function, \
	.libraries = "$B/sim:$B/sim/libraries", \
	.command = "$B/host/libraries --burst " function, \
	.sources = "cublas,nccl", .nr = 1, .limit = 400, \
}

int main(void)
{
	static const struct bench_calls calls[] = {
		CALLS("gemm"), CALLS("matmul"), CALLS("allreduce"),
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (bench_calls(&calls[i]))
			return EXIT_FAILURE;
	return EXIT_SUCCESS;
}
