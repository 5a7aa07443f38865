/* SPDX-License-Identifier: MIT */
#include "inject/attach.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "collector/clock.h"
#include "collector/cupti.h"
#include "collector/cupti_api.h"
#include "collector/log.h"
#include "collector/loss.h"
#include "collector/nvtx.h"
#include "collector/thread.h"
#include "inject/configuration.h"
#include "writer/writer.h"

/* The end of the process may take so long in the worst case. */
#define EXIT_FLUSH_NS 1000000000u
#define EXIT_WRITE_NS 800000000u

enum state { OFF, BEGUN, ON, ENDED, DEAD };

static _Atomic uint32_t state;
static pid_t attached_pid;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_once_t attach_once = PTHREAD_ONCE_INIT;
static struct configuration configuration;
static enum attach_way way_in;

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

/* ---- The ways out ---- */

static void say_summary(uint64_t started_ns)
{
	struct writer_summary summary;
	uint64_t lost = 0;

	writer_summary(&summary);
	for (int i = 0; i < LOSS_NR; i++)
		lost += loss_get(i);
	if (summary.path[0])
		log_line(LOG_WARN, "%s: %llu kernels, %llu lost",
			 summary.path, (unsigned long long)summary.kernels,
			 (unsigned long long)lost);
	else if (lost && !loss_get(LOSS_WRITE)) /* that is said already */
		log_line(LOG_WARN, "nothing was written: %llu lost",
			 (unsigned long long)lost);
	for (int i = 0; lost && i < LOSS_NR; i++)
		if (loss_get(i))
			log_line(LOG_INFO, "lost: %s: %llu", loss_key(i),
				 (unsigned long long)loss_get(i));
	log_line(LOG_INFO, "the end took %llu ms", (unsigned long long)
		 ((clock_now_ns() - started_ns) / 1000000));
}

static void at_exit(void)
{
	uint32_t on = ON;
	uint64_t started_ns;

	/* A child that was made without fork() (a bare clone): in_child() has
	 * not run, our threads are not here. */
	if (getpid() != attached_pid ||
	    !atomic_compare_exchange_strong(&state, &on, ENDED))
		return;
	started_ns = clock_now_ns();
	if (cupti_finish(started_ns + EXIT_FLUSH_NS))
		log_line(LOG_WARN, "CUPTI did not answer in time; what it "
			 "still held is lost");
	if (writer_finish(clock_now_ns() + EXIT_WRITE_NS))
		log_line(LOG_WARN, "the end of the trace was not written in "
			 "time; the file is complete up to the last flush");
	say_summary(started_ns);
}

/*
 * In the child of a fork after cuInit neither CUDA nor CUPTI works, none of
 * our threads exists, and the file is the parent's: nothing is recorded.  A
 * child of a process without CUDA starts afresh when it calls cuInit.
 */
static void in_child(void)
{
	thread_forget_all();
	if (atomic_load(&state) == OFF)
		return;
	atomic_store(&state, DEAD);
	cupti_forget();
	writer_forget();
}

/* ---- The way in ---- */

static void prepare(void)
{
	clock_init();
	configuration_read(&configuration);
	log_init(configuration.log_level, configuration.log_file);
	thread_limit(configuration.thread_bytes);
	nvtx_select_domains(configuration.nvtx_domains);
	pthread_atfork(NULL, NULL, in_child);
}

static int start_tracing(void)
{
	int error;

	configuration.cupti.driver_version = driver_version();
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
	return configuration.start_now ? cupti_start() : 0;
}

static void attach_now(void)
{
	uint32_t off = OFF;

	/* A child that was forked in the middle of this would do it again. */
	if (!atomic_compare_exchange_strong(&state, &off, BEGUN))
		return;
	attached_pid = getpid();
	pthread_once(&once, prepare);
	configuration_complain();
	if (!configuration.wants_cuda)
		return;
	if (start_tracing())
		return;
	log_line(LOG_INFO, "attached to pid %d, CUPTI %u from %s",
		 (int)getpid(), cupti_api_version(), cupti_api_path());
	atomic_store(&state, ON);
	if (atexit(at_exit))
		log_line(LOG_WARN, "no memory to see the program's end: the "
			 "file will end with the last flush before it");
}

/* On the program's thread: errno is kept, and a cancellation of the thread does
 * not leave us half attached. */
static void once_whole(pthread_once_t *control, void (*run)(void))
{
	int saved = errno, cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_once(control, run);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
}

void attach(enum attach_way way)
{
	way_in = way;
	once_whole(&attach_once, attach_now);
}

void attach_profiler_api(bool start)
{
	int saved = errno;

	if (atomic_load(&state) != ON || !configuration.cupti.on_profiler_api)
		return;
	if (start)
		cupti_start();
	else
		cupti_stop();
	errno = saved;
}

bool attach_nvtx(void)
{
	once_whole(&once, prepare);
	return configuration.wants_nvtx;
}
