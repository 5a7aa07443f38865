/* SPDX-License-Identifier: MIT */
/*
 * What an NVTX push and pop cost the program, in four states: without an
 * injection library, with libgputrace.so loaded but no window open, with
 * GPUTRACE_START=off where CUDA is in use, and while recording; there also with
 * a payload of 24 bytes, as NCCL's ranges have it.  The program
 * runs itself once for each.  A run measures bursts that fit the thread's ring
 * (128 KiB, about 112 bytes a pair), with pauses in which the writer drains
 * it, and reports the median burst.  The first pairs of a burst are not
 * counted: they pay for the core's waking up, which has nothing to do with
 * NVTX; the ring's memory stays as cold as the writer has left it on its core.
 *
 * The states with CUDA need it: the real driver where there is a GPU, else the
 * simulated one beside this program.  The last line is what the trace says was
 * lost; it must be 0, or the bursts did not record.
 */
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <stdbool.h>

#include "test/bench/bench.h"

#define WARM_UP 100
#define PAIRS 500
#define BURSTS 101
#define PAUSE_US 25000

static char out[] = "/tmp/gputrace-bench-XXXXXX.json";

static bool has_payload;

/* The schema is asked for by the writer alone. */
static void pairs_with_payload(int nr)
{
	static const uint64_t data[3] = { 1, 4096 };
	nvtxPayloadData_t payload = { NVTX_TYPE_PAYLOAD_SCHEMA_RAW,
		sizeof(data), data };
	nvtxEventAttributes_t event = {
		.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.messageType = NVTX_MESSAGE_TYPE_ASCII,
		.message.ascii = "decoder layer", .reserved0 = 1,
		.payloadType = NVTX_PAYLOAD_TYPE_EXT,
		.payload.ullValue = (uint64_t)(uintptr_t)&payload,
	};
	int i;

	for (i = 0; i < nr; i++) {
		nvtxDomainRangePushEx(NULL, &event);
		nvtxDomainRangePop(NULL);
	}
}

static void pairs(int nr)
{
	int i;

	if (has_payload) {
		pairs_with_payload(nr);
		return;
	}
	for (i = 0; i < nr; i++) {
		nvtxRangePushA("decoder layer");
		nvtxRangePop();
	}
}

static double burst(void)
{
	uint64_t start;

	pairs(WARM_UP);
	start = bench_now_ns();
	pairs(PAIRS);
	return (double)(bench_now_ns() - start) / PAIRS;
}

static void measure(bool with_cuda)
{
	double ns[BURSTS];
	int i;

	if (with_cuda)
		bench_use_cuda();
	burst();
	for (i = 0; i < BURSTS; i++) {
		usleep(PAUSE_US);
		ns[i] = burst();
	}
	printf("%f\n", bench_median(ns, BURSTS));
}

static void prepare(const char *state)
{
	if (!strcmp(state, "bare"))
		return;
	bench_find_gpu();
	bench_preload(out);
	setenv("GPUTRACE_START", !strcmp(state, "recording") ||
	       !strcmp(state, "payload") ? "now" :
	       !strcmp(state, "asleep") ? "off" : "profiler-api", 1);
}

/* The number after "ring full" in the trace; -1 without a trace. */
static long lost(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[65536], *at;
	long n = 0;

	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file)) {
		at = strstr(line, "\"ring full\"");
		if (at && (at = strchr(at, ':')))
			n = strtol(at + 1, NULL, 10);
	}
	fclose(file);
	return n;
}

int main(int argc, char **argv)
{
	double bare, loaded, asleep, recording, payload;
	int fd;

	if (argc > 1) {
		has_payload = !strcmp(argv[1], "payload");
		measure(strcmp(argv[1], "bare"));
		return EXIT_SUCCESS;
	}
	fd = mkstemps(out, 5);
	if (fd < 0)
		return EXIT_FAILURE;
	close(fd);
	unlink(out);
	if (bench_run("bare", prepare, &bare, 1) ||
	    bench_run("loaded", prepare, &loaded, 1) ||
	    bench_run("asleep", prepare, &asleep, 1) ||
	    bench_run("recording", prepare, &recording, 1) ||
	    bench_run("payload", prepare, &payload, 1))
		return EXIT_FAILURE;
	bench_print(bare, "ns", bare, 0, "nvtx pair, no tool");
	bench_print(loaded, "ns", bare, 25, "nvtx pair, loaded");
	bench_print(asleep, "ns", bare, 25, "nvtx pair, asleep");
	bench_print(recording, "ns", bare, 100, "nvtx pair, recording");
	bench_print(payload, "ns", bare, 150, "nvtx pair, with a payload");
	bench_print((double)lost(out), "records", 0, 0, "nvtx pair, lost");
	unlink(out);
	return EXIT_SUCCESS;
}
