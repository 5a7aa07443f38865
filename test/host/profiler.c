/* SPDX-License-Identifier: MIT */
/*
 * profiler: a program with a profiler of its own in it, which uses CUPTI as
 * torch.profiler does (libkineto of PyTorch 2.11, read for the order of its
 * calls): a clock, callbacks, kinds on; work; kinds off, a forced flush.
 *
 *	profiler [--sessions N] [--kernels K] [--running-ms M] [--own-clock]
 *	         [--zeroed] [--no-flush] [--no-register] [--threads N]
 *	         [--exit-inside] [--windows] [--flush-beside]
 *	         [--cancel] [--disable-inside] [--exit-at-stop]
 *
 * Outside a session "silu" kernels are launched, inside "argmax".  With M a
 * kernel ("flash") of that time is in flight when each session begins; with
 * N, other threads launch "copy" kernels all the time.
 *
 * With --flush-beside a thread of the profiler asks for buffers all the time.
 * With --windows a window of cuProfilerStart ends inside each session, and the
 * next begins there.
 *
 * With --cancel that thread is cancelled, and another begins, at each session.
 * With --disable-inside the profiler's callback turns a kind off.
 * With --exit-at-stop the program ends as soon as its last window is closed.
 *
 * Counts what its buffers hold, and what must not happen: buffers that it did
 * not give, times outside of its session, calls without their thread.
 */
#include <cudaProfiler.h>
#include <cupti.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/host/gpu.h"

#define BUFFER_SIZE (1 << 20)
#define MAX_BUFFERS 4096

/* Of the GPU's clock against the CPU's, on a busy machine. */
#define SLACK 100000

static long nr_sessions = 1, nr_kernels = 50, running_ms, nr_threads;
static int own_clock, zeroed, no_flush, no_register, exit_inside, windows,
	flush_beside, cancel, disable_inside, exit_at_stop;
static struct gpu gpu;
static _Atomic(uint8_t *) buffers[MAX_BUFFERS];
static uint64_t begin, end;             /* of the session, by its clock */
static atomic_bool is_over;

#define CUPTI(call, ...) \
	check(#call, call(__VA_ARGS__))

static void check(const char *call, CUptiResult result)
{
	if (result == CUPTI_SUCCESS)
		return;
	fprintf(stderr, "%s: %d\n", call, result);
	exit(EXIT_FAILURE);
}

/* Counts thirds of nanoseconds since the machine started. */
static uint64_t CUPTIAPI count(void)
{
	return now_ns() * 3;
}

static uint64_t clock_now(void)
{
	uint64_t now;

	CUPTI(cuptiGetTimestamp, &now);
	return now;
}

/* ---- Its buffers ---- */

static void CUPTIAPI requested(uint8_t **buffer, size_t *size, size_t *max)
{
	int i;

	/* Only a client that says so has cleared it. */
	*buffer = malloc(BUFFER_SIZE);
	memset(*buffer, zeroed ? 0 : 0xa5, BUFFER_SIZE);
	*size = BUFFER_SIZE;
	*max = 0;
	for (i = 0; i < MAX_BUFFERS; i++) {
		uint8_t *none = NULL;

		if (atomic_compare_exchange_strong(&buffers[i], &none,
						   *buffer))
			return;
	}
	abort();
}

static bool is_known(uint8_t *buffer)
{
	int i;

	for (i = 0; i < MAX_BUFFERS; i++) {
		uint8_t *known = buffer;

		if (atomic_compare_exchange_strong(&buffers[i], &known, NULL))
			return true;
	}
	return false;
}

static void take_kernel(const CUpti_ActivityKernel10 *kernel)
{
	if (strstr(kernel->name, "ArgMax"))
		TALLY("profiler", "kernels", 1);
	else
		TALLY("profiler", "other kernels", 1);
	if (kernel->start + SLACK < begin || kernel->end > end + SLACK ||
	    kernel->end < kernel->start)
		TALLY("profiler", "misplaced", 1);
}

static void take(const CUpti_Activity *record)
{
	const CUpti_ActivityAPI *api = (const void *)record;

	switch (record->kind) {
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		take_kernel((const void *)record);
		break;
	case CUPTI_ACTIVITY_KIND_DRIVER:
		TALLY("profiler", "calls", 1);
		if (api->start + SLACK < begin || api->end > end + SLACK)
			TALLY("profiler", "misplaced", 1);
		if (api->threadId != (uint32_t)pthread_self() && !nr_threads)
			TALLY("profiler", "other threads", 1);
		break;
	default:
		TALLY("profiler", "other records", 1);
	}
}

static void CUPTIAPI completed(CUcontext context, uint32_t stream,
			       uint8_t *buffer, size_t size, size_t valid)
{
	(void)context;
	(void)stream;
	(void)size;
	if (!is_known(buffer)) {
		TALLY("profiler", "unknown buffers", 1);
		return;
	}
	TALLY("profiler", "buffers", valid != 0);
	if (disable_inside)
		CUPTI(cuptiActivityDisable, CUPTI_ACTIVITY_KIND_MEMCPY);
	/* Read at the end of the session, as there: its end must be known. */
	*(size_t *)(void *)(buffer + BUFFER_SIZE - 16) = valid;
	for (int i = 0; i < MAX_BUFFERS; i++) {
		uint8_t *none = NULL;

		/* The mark: the lowest bit. */
		if (atomic_compare_exchange_strong(&buffers[i], &none,
						   buffer + 1))
			return;
	}
}

static void read_buffers(void)
{
	for (int i = 0; i < MAX_BUFFERS; i++) {
		uint8_t *buffer = atomic_load(&buffers[i]);
		CUpti_Activity *record = NULL;

		if (!((uintptr_t)buffer & 1))
			continue;
		atomic_store(&buffers[i], NULL);
		buffer--;
		while (!cuptiActivityGetNextRecord(buffer, *(size_t *)(void *)
			(buffer + BUFFER_SIZE - 16), &record))
			take(record);
		free(buffer);
	}
}

/* ---- A session ---- */

static void set_per_thread(uint8_t value)
{
	size_t size = sizeof(value);

	CUPTI(cuptiActivitySetAttribute,
	      CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, &size, &value);
	if (zeroed)
		CUPTI(cuptiActivitySetAttribute,
		      CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size,
		      &(uint8_t){ 1 });
}

static void start_session(int number)
{
	if (own_clock)
		CUPTI(cuptiActivityRegisterTimestampCallback, count);
	set_per_thread(1);
	if (!no_register || number == 0)
		CUPTI(cuptiActivityRegisterCallbacks, requested, completed);
	CUPTI(cuptiActivityEnable, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	CUPTI(cuptiActivityEnable, CUPTI_ACTIVITY_KIND_DRIVER);
	begin = clock_now();
}

static void stop_session(void)
{
	end = clock_now();
	CUPTI(cuptiActivityDisable, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	CUPTI(cuptiActivityDisable, CUPTI_ACTIVITY_KIND_DRIVER);
	/* A kind that was never on: of no effect. */
	CUPTI(cuptiActivityDisable, CUPTI_ACTIVITY_KIND_MEMCPY);
	if (!no_flush)
		CUPTI(cuptiActivityFlushAll, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	set_per_thread(0);
	read_buffers();
}

/* ---- The program ---- */

static void launch(enum gpu_kernel kernel, const char *where)
{
	long i;

	for (i = 0; i < nr_kernels; i++)
		gpu_launch(&gpu, kernel, NULL, 2000);
	CU(cuStreamSynchronize, NULL);
	if (*where == 'i')
		TALLY("inside", "kernels", nr_kernels);
	else
		TALLY("outside", "kernels", nr_kernels);
}

static void session(int number, CUstream stream)
{
	if (running_ms) {
		gpu_launch(&gpu, KERNEL_FLASH, stream, running_ms * 1000000u);
		TALLY("outside", "running", 1);
	}
	start_session(number);
	launch(KERNEL_ARGMAX, "inside");
	if (windows) {
		CU(cuProfilerStop);
		launch(KERNEL_ARGMAX, "inside");
		CU(cuProfilerStart);
		launch(KERNEL_ARGMAX, "inside");
	}
	if (exit_inside)
		exit(EXIT_SUCCESS);
	stop_session();
}

static void *launch_beside(void *argument)
{
	CUstream stream;

	gpu_use(&gpu);
	CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	while (!atomic_load(&is_over)) {
		gpu_launch(&gpu, KERNEL_COPY, stream, 2000);
		TALLY("beside", "kernels", 1);
		usleep(100);
	}
	CU(cuStreamSynchronize, stream);
	return argument;
}

static void *flush_often(void *argument)
{
	while (!atomic_load(&is_over)) {
		CUPTI(cuptiActivityFlushAll, 0);
		usleep(200);
	}
	return argument;
}

/* Anywhere: CUPTI's locks are its own affair, ours must not be held here. */
static void *be_cancelled(void *argument)
{
	for (;;) {
		(void)cuptiActivityFlushAll(0);
		pthread_testcancel();
	}
	return argument;
}

static void cancel_a_flush(void)
{
	pthread_t flusher;

	pthread_create(&flusher, NULL, be_cancelled, NULL);
	usleep(2000);
	pthread_cancel(flusher);
	pthread_join(flusher, NULL);
}

static void run(void)
{
	pthread_t threads[64], flusher;
	CUstream stream;
	long i;

	for (i = 0; i < nr_threads && i < 64; i++)
		pthread_create(&threads[i], NULL, launch_beside, NULL);
	CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	if (windows)
		CU(cuProfilerStart);
	if (flush_beside)
		pthread_create(&flusher, NULL, flush_often, NULL);
	launch(KERNEL_SILU, "outside");
	for (i = 0; i < nr_sessions; i++) {
		if (cancel)
			cancel_a_flush();
		session((int)i, stream);
		/* One that left its buffers with CUPTI is waited for. */
		usleep(no_flush ? 1500000 : 0);
		launch(KERNEL_SILU, "outside");
	}
	atomic_store(&is_over, true);
	if (flush_beside)
		pthread_join(flusher, NULL);
	for (i = 0; i < nr_threads && i < 64; i++)
		pthread_join(threads[i], NULL);
	if (exit_at_stop) {
		CU(cuProfilerStop);
		exit(EXIT_SUCCESS);
	}
	CU(cuCtxSynchronize);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "sessions", 1, NULL, 's' }, { "kernels", 1, NULL, 'k' },
		{ "running-ms", 1, NULL, 'r' }, { "threads", 1, NULL, 't' },
		{ "own-clock", 0, &own_clock, 1 }, { "zeroed", 0, &zeroed, 1 },
		{ "no-flush", 0, &no_flush, 1 },
		{ "no-register", 0, &no_register, 1 },
		{ "exit-inside", 0, &exit_inside, 1 },
		{ "windows", 0, &windows, 1 },
		{ "flush-beside", 0, &flush_beside, 1 },
		{ "cancel", 0, &cancel, 1 },
		{ "disable-inside", 0, &disable_inside, 1 },
		{ "exit-at-stop", 0, &exit_at_stop, 1 }, { NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (option) {
		case 0:   break;
		case 's': nr_sessions = atol(optarg); break;
		case 'k': nr_kernels = atol(optarg); break;
		case 'r': running_ms = atol(optarg); break;
		case 't': nr_threads = atol(optarg); break;
		default:  return 2;
		}
	gpu_open(&gpu, 0);
	run();
	tally_print();
	return EXIT_SUCCESS;
}
