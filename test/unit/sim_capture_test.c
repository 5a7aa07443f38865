/* SPDX-License-Identifier: MIT */
/*
 * The door to windows (inject/capture.h), on the simulated GPU: one at a time,
 * what each records, who may close it, and when it closes by itself.
 */
#include "inject/capture.h"

#include <cuda.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collector/clock.h"
#include "collector/nvtx_record.h"
#include "collector/window.h"
#include "inject/attach.h"
#include "inject/ending.h"
#include "inject/environment.h"
#include "inject/settings.h"
#include "test/check.h"

static CUdeviceptr memory;
static char why[CAPTURE_WHY];

static int start(enum capture_by by, uint64_t sources, uint64_t duration_ns)
{
	struct capture_request request = {
		.by = by, .sources = sources, .duration_ns = duration_ns,
	};

	why[0] = 0;
	return capture_start(&request, why, sizeof why);
}

/* A range with a set of memory in it. */
static void work(const char *name)
{
	struct nvtx_message message = { 0 };

	nvtx_set_text(&message, name);
	nvtx_push(&message);
	CHECK_EQ(cuMemsetD8(memory, 1, 4096), CUDA_SUCCESS);
	CHECK_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
	nvtx_pop(NULL);
}

static void test_before(void)
{
	CHECK_EQ(start(BY_CONTROL, 0, 0), -ENODEV);
	CHECK(strstr(why, "CUDA"));
	CHECK_EQ(capture_stop(BY_CONTROL), -ENOENT);
}

/* 10 s: a second for the stop, and a machine that is busy. */
static void stop_and_settle(int number)
{
	uint64_t until_ns = clock_now_ns() + UINT64_C(10000000000);

	CHECK_EQ(capture_stop(BY_CONTROL), number);
	while (window_settled() < (uint32_t)number &&
	       clock_now_ns() < until_ns)
		usleep(1000);
	CHECK_EQ(window_settled(), number);
}

static void test_one_at_a_time(void)
{
	struct capture_status status;

	work("before");
	CHECK_EQ(start(BY_CONTROL, 0, 0), 0);
	CHECK_EQ(start(BY_CONTROL, 0, 0), -EBUSY);
	CHECK(strstr(why, "gputrace stop"));
	work("first");
	/* The program's marks close what they have opened. */
	CHECK_EQ(capture_stop(BY_NVTX), -ENOENT);
	CHECK_EQ(capture_stop(BY_PROFILER_API), -ENOENT);
	capture_status(&status);
	CHECK(status.is_open && !status.is_recorder);
	CHECK(!strcmp(status.start, "off"));
	stop_and_settle(1);
	CHECK_EQ(capture_stop(BY_CONTROL), -ENOENT);
	work("between");
	capture_status(&status);
	CHECK(!status.is_open);
	CHECK_EQ(status.windows, 1);
}

static void test_sources(void)
{
	CHECK_EQ(start(BY_CONTROL, SOURCE_CUDA, 0), 0);
	work("no ranges");
	stop_and_settle(2);
	CHECK_EQ(start(BY_CONTROL, SOURCE_NVTX, 0), 0);
	work("no CUDA");
	stop_and_settle(3);
	/* As the settings say, again. */
	CHECK_EQ(start(BY_CONTROL, 0, 0), 0);
	work("both again");
	stop_and_settle(4);
}

/* Without a wait between a stop and the next start. */
static void test_at_once(void)
{
	CHECK_EQ(start(BY_NVTX, 0, 0), 0);
	work("fifth");
	CHECK_EQ(capture_stop(BY_NVTX), 5);
	CHECK_EQ(start(BY_NVTX, 0, 0), 0);
	work("sixth");
	/* Anybody else may. */
	stop_and_settle(6);
}

static void test_duration(void)
{
	uint64_t until_ns = clock_now_ns() + UINT64_C(10000000000);
	struct window window;

	CHECK_EQ(start(BY_CONTROL, 0, 50000000), 0);
	work("short");
	while (window_is_open(window_epoch()) && clock_now_ns() < until_ns)
		usleep(1000);
	CHECK(!window_is_open(window_epoch()));
	CHECK(window_get(7, &window));
	CHECK(window.close_ns >= window.open_ns + 50000000);
	/* The time of a window that was stopped is not that of the next. */
	CHECK_EQ(start(BY_CONTROL, 0, 300000000), 0);
	CHECK_EQ(capture_stop(BY_SIGNAL), 8);
	CHECK_EQ(start(BY_CONTROL, 0, 0), 0);
	usleep(500000);
	CHECK(window_is_open(window_epoch()));
	stop_and_settle(9);
}

/* Nothing is wanted of a window that a warm-up never comes to. */
static void test_warm_up(void)
{
	CHECK_EQ(capture_warm_up(), 0);
	work("warm");
	CHECK(!window_is_open(window_epoch()));
	CHECK_EQ(start(BY_SCHEDULE, 0, 0), 0);
	work("tenth");
	CHECK_EQ(capture_stop(BY_SCHEDULE), 10);
	CHECK_EQ(capture_warm_up(), 0);
	CHECK_EQ(capture_stop(BY_SCHEDULE), -ENOENT);
}

static int count(const char *text, const char *word)
{
	int nr = 0;

	for (; (text = strstr(text, word)); text += strlen(word))
		nr++;
	return nr;
}

static void test_file(const char *path)
{
	static const char *const there[] = { "\"first\"", "\"no CUDA\"",
		"\"both again\"", "\"fifth\"", "\"sixth\"", "\"short\"",
		"\"tenth\"" };
	static const char *const not_there[] = { "\"before\"", "\"between\"",
		"\"no ranges\"", "\"warm\"" };
	static char text[4 << 20];
	FILE *file = fopen(path, "r");

	CHECK(file && fread(text, 1, sizeof text - 1, file) > 0);
	for (size_t i = 0; i < sizeof there / sizeof *there; i++)
		CHECK_EQ(count(text, there[i]) > 0, 1);
	for (size_t i = 0; i < sizeof not_there / sizeof *not_there; i++)
		CHECK_EQ(count(text, not_there[i]), 0);
	CHECK_EQ(count(text, "\"cat\": \"gpu_memset\"") +
		 count(text, "\"cat\":\"gpu_memset\""), 7);
	if (file)
		fclose(file);
}

int main(void)
{
	char path[] = "/tmp/gputrace-capture-XXXXXX";
	CUdevice device;
	CUcontext context;
	int fd = mkstemp(path);

	setenv("GPUTRACE_OUT", path, 1);
	setenv("GPUTRACE_START", "off", 1);
	setenv("GPUTRACE_CONTROL", "off", 1);
	setenv("GPUTRACE_LOG", "quiet", 1);
	environment_keep();
	if (fd < 0 || cuInit(0) || cuDeviceGet(&device, 0) ||
	    cuDevicePrimaryCtxRetain(&context, device) ||
	    cuCtxSetCurrent(context) || cuMemAlloc(&memory, 4096))
		return 77;
	test_before();
	attach(ATTACH_LATE);
	(void)attach_nvtx();
	test_one_at_a_time();
	test_sources();
	test_at_once();
	test_duration();
	test_warm_up();
	ending_run();
	test_file(path);
	unlink(path);
	return check_result();
}
