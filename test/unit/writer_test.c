/* SPDX-License-Identifier: MIT */
/*
 * A whole file: a scene with everything in it goes through the real writer
 * thread; the judge (check_trace.py) reads the result under every profile,
 * strictly, and its summary holds what the scene held.
 */
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/check.h"
#include "test/unit/scene.h"
#include "writer/writer.h"

static const char gelu[] = "_ZN2at6native29vectorized_elementwise_kernelILi8E"
	"NS0_15CUDAFunctor_addIfEEEEvT0_";
static const char plain[] = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_bias_TNT";
static const char quote[] = "weird \"kernel\" \\ \xff\x01 name";

/* 2000 steps: a range, four launches, an event, a wait, a copy now and then. */
static void steps(uint32_t tid)
{
	CUpti_ActivitySynchronization2 *sync;
	CUpti_ActivityCudaEvent2 *event;
	uint32_t i, k, c = 1000;
	char name[32];

	for (i = 0; i < 500; i++) {
		uint64_t t = i * 100000;

		snprintf(name, sizeof(name), "step %u", i);
		scene_push(t, 0, name);
		scene_push(t + 100, 1, "forward \"x\" \xc3\x28");
		for (k = 0; k < 4; k++) {
			scene_launch(tid, ++c, t + 1000 + k * 5000,
				     t + 3000 + k * 5000);
			scene_kernel(k % 3 == 0 ? gelu : k % 3 == 1 ? plain :
				     quote, k == 3 ? 13 : 7, c,
				     t + 10000 + k * 5000,
				     t + 14000 + k * 5000);
		}
		scene_pop(t + 40000, 1);
		scene_call(CUPTI_ACTIVITY_KIND_RUNTIME,
			   CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020, tid,
			   ++c, t + 41000, t + 42000);
		event = scene_room(CUPTI_ACTIVITY_KIND_CUDA_EVENT);
		event->correlationId = c;
		event->contextId = 1;
		event->streamId = 7;
		event->eventId = 5;
		event->cudaEventSyncId = 100 + i;
		sync = scene_room(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
		sync->type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
		sync->start = scene.t_ns + t + 43000;
		sync->end = scene.t_ns + t + 44000;
		sync->correlationId = ++c;
		sync->contextId = 1;
		sync->streamId = 13;
		sync->cudaEventId = 5;
		sync->cudaEventSyncId = 100 + i;
		if (i % 10 == 0) {
			scene_call(CUPTI_ACTIVITY_KIND_RUNTIME,
				CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020,
				tid, ++c, t + 45000, t + 46000);
			scene_copy(7, c, t + 50000, t + 60000, 4096);
		}
		scene_pop(t + 70000, 0);
		if (i % 50 == 49)
			usleep(25000);  /* the ring holds some 200 steps */
	}
}

/* A graph of 20 nodes on two streams, launched by one call. */
static void graph(uint32_t tid)
{
	uint64_t t = 500 * 100000;
	uint32_t k;

	scene_call(CUPTI_ACTIVITY_KIND_RUNTIME,
		   CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000, tid,
		   900000, t, t + 5000);
	for (k = 0; k < 20; k++) {
		CUpti_ActivityKernel10 *kernel;

		kernel = scene_kernel(plain, 20 + k % 2, 900000,
				      t + 6000 + k * 100,
				      t + 6000 + k * 100 + 150);
		kernel->graphId = 3;
		kernel->graphNodeId = 77 + k;
	}
}

static void odd_ones(uint32_t tid)
{
	uint64_t t = 600 * 100000;

	/* a driver call inside its runtime call: told once */
	scene_call(CUPTI_ACTIVITY_KIND_DRIVER,
		   CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, tid, 910000,
		   t + 100, t + 200);
	scene_launch(tid, 910000, t + 50, t + 300);
	scene_kernel(plain, 7, 910000, t + 500, t + 600);
	/* a driver call by itself */
	scene_call(CUPTI_ACTIVITY_KIND_DRIVER,
		   CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, tid, 910001,
		   t + 1000, t + 1100);
	scene_kernel(plain, 7, 910001, t + 2000, t + 2100);
	/* its launch is unknown */
	scene_kernel(plain, 7, 910002, t + 3000, t + 3100);
	/* clock skew: begins 700 ns before its launch */
	scene_launch(tid, 910003, t + 5000, t + 6000);
	scene_kernel(plain, 7, 910003, t + 4300, t + 4900);
	/* no length, thrice at one time */
	scene_launch(tid, 910004, t + 7000, t + 7100);
	scene_kernel(plain, 7, 910004, t + 8000, t + 8000);
	scene_launch(tid, 910005, t + 7200, t + 7300);
	scene_kernel(plain, 7, 910005, t + 8000, t + 8000);
	scene_launch(tid, 910006, t + 7400, t + 7500);
	scene_kernel(plain, 7, 910006, t + 8000, t + 8100);
	/* overlapping on one stream, out of order */
	scene_launch(tid, 910007, t + 9000, t + 9100);
	scene_kernel(plain, 7, 910007, t + 9700, t + 9900);
	scene_launch(tid, 910008, t + 9200, t + 9300);
	scene_kernel(plain, 7, 910008, t + 9600, t + 9800);
	/* running when it was flushed; without time */
	scene_kernel(plain, 7, 910009, 0, 0)->start = 0;
	((CUpti_ActivityKernel10 *)(void *)(scene.data + scene.used -
		sizeof(CUpti_ActivityKernel10)))->end = 0;
}

static int judge(const char *path, const char *expect)
{
	const char *folder = getenv("GPUTRACE_JUDGE");
	char command[8192], list[4096];
	FILE *file;

	snprintf(command, sizeof(command), "%s/check_trace.py",
		 folder ? folder : "../shared/tools");
	if (access(command, R_OK)) {
		fprintf(stderr, "no judge: set GPUTRACE_JUDGE\n");
		return 77;
	}
	snprintf(list, sizeof(list), "%s.expect", path);
	file = fopen(list, "w");
	fputs(expect, file);
	fclose(file);
	snprintf(command, sizeof(command),
		 "python3 %s/check_trace.py --profile all --expect %s %s >&2",
		 folder ? folder : "../shared/tools", list, path);
	return system(command) ? EXIT_FAILURE : 0;
}

static int write_trace(const char *path)
{
	struct setting_text settings[] = { { "GPUTRACE_OUT", path } };
	struct writer_options options = {
		.out = path, .flush_ns = 200000000, .max_size = 1 << 30,
		.memory = 64 << 20, .mask_argv = true, .world_size = 2,
		.rank = 1, .settings = settings, .nr_settings = 1,
		.cupti_version = 130000, .driver_version = 13000,
	};
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	struct writer_summary summary;
	int err;

	CHECK_EQ(writer_start(&options), 0);
	scene_device();
	steps(tid);
	graph(tid);
	scene_flush();
	usleep(300000);
	odd_ones(tid);
	scene_flush();
	scene_push(700 * 100000, 0, "never popped");
	usleep(300000);
	err = writer_finish(clock_now_ns() + UINT64_C(10000000000));
	CHECK_EQ(err, 0);
	writer_summary(&summary);
	CHECK_EQ(summary.kernels, 500 * 4 + 20 + 9);
	CHECK(!strcmp(summary.path, path));
	return err;
}

int main(int argc, char **argv)
{
	/* By hand: 2000 + 20 + 9 kernels, 50 copies; launches: 2000 + 1 + 8
	 * told, 500 event records, 50 copies; arrows: all but the unknown
	 * launch and the one that was early. */
	static const char expect[] = "{"
		"\"kinds\": {\"X/kernel\": 2029, \"X/gpu_memcpy\": 50,"
		" \"X/cuda_runtime\": 2558, \"X/cuda_driver\": 1,"
		" \"X/cuda_sync\": 500, \"X/user_annotation\": 1001,"
		" \"X/gpu_user_annotation\": 2000},"
		"\"flows\": {\"start\": 2077, \"end\": 2077, \"bound\": 4154,"
		" \"unbound\": 0, \"paired\": 2077},"
		"\"gpu_links\": {\"orphan\": 1, \"before_launch\": 1},"
		"\"devices\": {\"0\": {\"kernels\": 2029, \"streams\": 4}}}";
	char own[64], *path = argc > 1 ? argv[1] : own;
	char list[80];
	int status;

	snprintf(own, sizeof(own), "/tmp/gputrace-writer-%d.json", getpid());

	scene_begin();
	if (write_trace(path))
		return EXIT_FAILURE;
	status = judge(path, expect);
	snprintf(list, sizeof(list), "%.70s.expect", path);
	unlink(list);
	if (argc < 2)
		unlink(own);
	if (status == 77 && !check_failures)
		return 77;
	CHECK_EQ(status, 0);
	return check_result();
}
