/* SPDX-License-Identifier: MIT */
/*
 * What an allocation of PyTorch's caching allocator, or a free, costs more
 * (part of the source `torch`): host/allocator does pairs of them on the
 * simulated one, without libgputrace.so, with it but without the source, with
 * the source asleep, and while recording.
 */
#include "test/bench/bench.h"

/* ns a report, below 0 on failure; `settings` as the shell takes them. */
static double run(const char *build, const char *settings)
{
	char command[16384];
	double ns = -1;
	FILE *in;

	snprintf(command, sizeof(command), "LD_LIBRARY_PATH='%s/sim' "
		 "GPUTRACE_LOG=quiet %s '%s/host/allocator' '%s/sim/c10' "
		 "burst 500 51", build, settings, build, build);
	in = popen(command, "r");
	if (!in || fscanf(in, "%lf", &ns) != 1)
		ns = -1;
	return in && pclose(in) ? -1 : ns / 2;
}

static int report(const char *build, const char *out)
{
	/* To be held: a jump while off; 1.5 % at 100,000 a second. */
	static const struct {
		const char *state, *settings;
		int limit;
	} states[] = {
		{ "loaded", "GPUTRACE_TRACE=cuda", 50 },
		{ "asleep", "GPUTRACE_TRACE=cuda,torch GPUTRACE_START=off",
		  50 },
		{ "recording", "GPUTRACE_TRACE=cuda,torch", 200 },
	};
	double bare = run(build, ""), with;
	char settings[8192];
	size_t i;

	for (i = 0; i < sizeof(states) / sizeof(*states); i++) {
		snprintf(settings, sizeof(settings), "LD_PRELOAD='%s/"
			 "libgputrace.so' GPUTRACE_OUT='%s' %s", build, out,
			 states[i].settings);
		with = run(build, settings);
		if (bare < 0 || with < 0)
			return 1;
		bench_print(with - bare, "ns", bare, states[i].limit,
			    "torch allocation, %s, added", states[i].state);
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
	failed = report(build, out);
	unlink(out);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
