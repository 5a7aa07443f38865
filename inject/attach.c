/* SPDX-License-Identifier: MIT */
#include "inject/attach.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#include "collector/cancel.h"
#include "collector/clock.h"
#include "collector/cupti.h"
#include "collector/cupti_api.h"
#include "collector/filter.h"
#include "collector/log.h"
#include "collector/nvtx.h"
#include "collector/nvtx_marks.h"
#include "collector/own_thread.h"
#include "collector/thread.h"
#include "inject/capture.h"
#include "inject/configuration.h"
#include "inject/control.h"
#include "inject/ending.h"
#include "inject/environment.h"
#include "inject/marks.h"
#include "inject/nccl_plugin.h"
#include "inject/other_tool.h"
#include "inject/schedule.h"
#include "inject/signals.h"
#include "inject/sources.h"
#include "inject/timer.h"
#include "writer/writer.h"

/* Marks dump no more often than that and half of the flight recorder. */
#define LEAST_APART_NS UINT64_C(1000000000)

enum state { OFF, BEGUN, ON, DEAD };

static _Atomic uint32_t state;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_once_t attach_once = PTHREAD_ONCE_INIT;
static struct configuration configuration;
static enum attach_way way_in;
static bool has_marks;          /* that start or write something */

/* A function of the driver that the process has loaded, or NULL. */
static void *driver_function(const char *name)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	return driver ? dlsym(driver, name) : NULL;
}

static uint32_t driver_version(void)
{
	int (*get)(int *version) = (int (*)(int *))
		driver_function("cuDriverGetVersion");
	int version = 0;

	if (get && get(&version) == 0 && version > 0)
		return (uint32_t)version;
	return 0;
}

bool attach_cuda_is_in_use(void)
{
	int (*get)(int *count) = (int (*)(int *))
		driver_function("cuDeviceGetCount");
	int count;

	/* 3, CUDA_ERROR_NOT_INITIALIZED, before cuInit. */
	return get && get(&count) == 0;
}

/* ---- The way out: ending.c, and the child of a fork ---- */

/*
 * In the child of a fork after cuInit neither CUDA nor CUPTI works, none of
 * our threads exists, and the file is the parent's: nothing is recorded.  A
 * child of a process without CUDA starts afresh when it calls cuInit.
 */
static void in_child(void)
{
	thread_forget_all();
	own_thread_forget_all();
	nvtx_marks_forget();
	schedule_forget();
	if (atomic_load(&state) == OFF)
		return;
	atomic_store(&state, DEAD);
	ending_forget();
	control_forget();
	capture_forget();
	sources_forget();
	timer_forget();
	signals_forget();
	cupti_forget();
	writer_forget();
}

/* ---- The way in ---- */

static void prepare(void)
{
	clock_init();
	environment_seal();
	configuration_read(&configuration);
	log_init(configuration.log_level, configuration.log_file);
	thread_limit(configuration.thread_bytes);
	nvtx_select_domains(configuration.nvtx_domains);
	has_marks = marks_prepare(&configuration);
	pthread_atfork(NULL, NULL, in_child);
}

static int start_window(enum capture_by by)
{
	const struct capture_request request = { .by = by };
	char why[1];            /* said where it is refused */

	return capture_start(&request, why, sizeof why);
}

static void start_or_stop(bool start)
{
	if (start)
		start_window(BY_PROFILER_API);
	else
		capture_stop(BY_PROFILER_API);
}

static int start_tracing(void)
{
	int error;

	configuration.cupti.driver_version = driver_version();
	if (configuration.start == START_PROFILER_API)
		configuration.cupti.on_profiler_api = start_or_stop;
	if (way_in == ATTACH_LATE && configuration.cupti.graph_level) {
		log_line(LOG_WARN, "GPUTRACE_GRAPH=graph is possible only from "
			 "the start of CUDA on; recording each kernel of a "
			 "graph");
		configuration.cupti.graph_level = false;
	}
	error = cupti_attach(&configuration.cupti);
	if (error)
		return error;
	configuration.writer.driver_version =
		configuration.cupti.driver_version;
	configuration.writer.cupti_version = cupti_api_version();
	error = writer_start(&configuration.writer);
	if (error) {
		cupti_give_way();
		log_line(LOG_WARN, "not tracing: no memory, or no thread could "
			 "be started");
		return error;
	}
	if (configuration.wants_nccl_plugin)
		nccl_plugin_arm();
	sources_prepare(&configuration.source);
	capture_init(&(struct capture_options){
		.start = configuration.in_force[SETTING_START].value,
		.sources = configuration.sources,
		.duration_ns = configuration.duration_ns,
		.is_recorder = configuration.writer.recorder_ns > 0,
	});
	return configuration.start_now ? start_window(BY_SETTING) : 0;
}

/* What starts windows, and dumps, from now on. */
static void arm_starters(void)
{
	bool needs_timer = configuration.delay_ns || configuration.dump_mark ||
		configuration.signal || configuration.dump_signal;

	if (needs_timer && timer_need()) {
		log_line(LOG_WARN, "no thread could be started: "
			 "GPUTRACE_START=delay, GPUTRACE_DUMP_ON and "
			 "GPUTRACE_SIGNAL do nothing");
		return;
	}
	timer_space_dumps(configuration.writer.recorder_ns / 2 +
			  LEAST_APART_NS);
	if (configuration.delay_ns)
		timer_set(TIMER_START, clock_now_ns() +
			  configuration.delay_ns);
	signals_install(configuration.signal, WISH_TOGGLE, "GPUTRACE_SIGNAL");
	signals_install(configuration.dump_signal, WISH_DUMP,
			"GPUTRACE_DUMP_SIGNAL");
}

static void say_whose_nvtx(void)
{
	const char *other = other_tool("NVTX_INJECTION64_PATH");

	if (other && configuration.wants_nvtx)
		log_line(LOG_WARN, "no NVTX ranges: NVTX_INJECTION64_PATH "
			 "names %s", other);
}

static void open_control(void)
{
	const struct control_options options = {
		.out = configuration.writer.out,
		.rank = configuration.writer.rank,
	};

	if (!configuration.wants_control)
		return;
	if (!configuration.control_is_set && filter_is_own()) {
		log_line(configuration.start == START_OFF &&
			 !configuration.signal ? LOG_WARN : LOG_INFO,
			 "no control socket: the program's own filter of "
			 "system calls (seccomp) might end it for one; "
			 "GPUTRACE_CONTROL=on opens it all the same");
		return;
	}
	control_start(&options);
}

static void attach_now(void)
{
	uint32_t off = OFF;

	/* A child that was forked in the middle of this would do it again. */
	if (!atomic_compare_exchange_strong(&state, &off, BEGUN))
		return;
	pthread_once(&once, prepare);
	configuration_complain(&configuration);
	if (!configuration.wants_cuda)
		return;
	if (start_tracing())
		return;
	log_line(LOG_INFO, "attached to pid %d, CUPTI %u from %s",
		 (int)getpid(), cupti_api_version(), cupti_api_path());
	say_whose_nvtx();
	atomic_store(&state, ON);
	ending_arm();
	arm_starters();
	marks_catch_up();
	open_control();
}

/* On the program's thread: errno is kept, and a cancellation of the thread does
 * not leave us half attached. */
static void once_whole(pthread_once_t *control, void (*run)(void))
{
	int saved = errno, cancel = cancel_hold();

	pthread_once(control, run);
	cancel_release(cancel);
	errno = saved;
}

void attach(enum attach_way way)
{
	way_in = way;
	once_whole(&attach_once, attach_now);
}

void attach_explain_absence(void)
{
	static atomic_flag is_said = ATOMIC_FLAG_INIT;
	int saved = errno;
	const char *other = other_tool("CUDA_INJECTION64_PATH");

	if (atomic_load(&state) == OFF && other && attach_cuda_is_in_use() &&
	    !atomic_flag_test_and_set(&is_said)) {
		once_whole(&once, prepare);
		log_line(LOG_WARN, "not tracing: CUDA_INJECTION64_PATH names "
			 "another tool, %s; without it this program is traced",
			 other);
	}
	errno = saved;
}

void attach_profiler_api(bool start)
{
	int saved = errno, cancel;

	attach_explain_absence();
	if (atomic_load(&state) != ON ||
	    configuration.start != START_PROFILER_API)
		return;
	cancel = cancel_hold();
	start_or_stop(start);
	cancel_release(cancel);
	errno = saved;
}

bool attach_nvtx(void)
{
	once_whole(&once, prepare);
	attach_explain_absence();
	return configuration.wants_nvtx || has_marks;
}
