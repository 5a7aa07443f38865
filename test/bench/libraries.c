/* SPDX-License-Identifier: MIT */
/*
 * What a wrapper of a library's function costs the program: host/libraries
 * calls functions of the simulated cuBLAS and NCCL that do nothing, without
 * libgputrace.so, with it but without the source, with the source asleep
 * (GPUTRACE_START=off), and while recording.  The sources stay so far below a
 * real call (some microseconds) that what they add is told, not a share.
 */
#include "test/bench/bench.h"

/* ns a call, below 0 on failure; `settings` as the shell takes them. */
static double run(const char *build, const char *settings, const char *call)
{
	char command[16384];
	double ns = -1;
	FILE *in;

	snprintf(command, sizeof(command), "LD_LIBRARY_PATH='%s/sim:"
		 "%s/sim/libraries' GPUTRACE_LOG=quiet %s "
		 "'%s/host/libraries' --burst %s", build, build, settings,
		 build, call);
	in = popen(command, "r");
	if (!in || fscanf(in, "%lf", &ns) != 1)
		ns = -1;
	return in && pclose(in) ? -1 : ns;
}

static int report(const char *build, const char *out, const char *call)
{
	/* To be held: a jump while off, 400 ns while recording. */
	static const struct {
		const char *state, *settings;
		int limit;
	} states[] = {
		{ "loaded", "GPUTRACE_TRACE=cuda", 50 },
		{ "asleep", "GPUTRACE_TRACE=cuda,cublas,nccl "
		  "GPUTRACE_START=off", 50 },
		{ "recording", "GPUTRACE_TRACE=cuda,cublas,nccl", 400 },
	};
	double bare = run(build, "", call), with;
	char settings[8192];
	size_t i;

	for (i = 0; i < sizeof(states) / sizeof(*states); i++) {
		snprintf(settings, sizeof(settings), "LD_PRELOAD='%s/"
			 "libgputrace.so' GPUTRACE_OUT='%s' %s", build, out,
			 states[i].settings);
		with = run(build, settings, call);
		if (bare < 0 || with < 0)
			return 1;
		bench_print(with - bare, "ns", bare, states[i].limit,
			    "library call %s, %s, added", call,
			    states[i].state);
	}
	return 0;
}

int main(void)
{
	char build[BENCH_PATH], out[] = "/tmp/gputrace-bench-XXXXXX.json";
	int fd = mkstemps(out, 5), failed;

	if (fd < 0)
		return EXIT_FAILURE;
	close(fd);
	bench_build(build);
	failed = report(build, out, "gemm") || report(build, out, "matmul") ||
		report(build, out, "allreduce");
	unlink(out);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
