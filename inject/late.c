/* SPDX-License-Identifier: MIT */
#include "inject/late.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "collector/debugger.h"
#include "collector/log.h"
#include "collector/nvtx_late.h"
#include "collector/own_thread.h"
#include "collector/wait.h"
#include "inject/arm.h"
#include "inject/attach.h"
#include "inject/brought.h"

/* From the load to the call that brings the settings: a debugger stops and
 * continues the process some times.  Looks are LOOK_NS apart. */
enum { SETTINGS_LOOKS = 100 };

/* `gputrace attach` always brings them, unless it fails half way: then nothing
 * of ours happens in the process. */
enum { COMMAND_LOOKS = 1500 };

/* A driver that does not say at once whether it is in use is in cuInit. */
enum { ANSWER_LOOKS = 50 };

/* cuInit took 0.3 s on an H200, and takes some seconds with many GPUs that
 * sleep; how long, and how often, we look on. */
enum { LOOKS = 500 };
#define LOOK_NS 20000000u

static _Atomic uint32_t has_answer, has_settings, never;
static atomic_bool is_claimed;
static atomic_flag is_begun = ATOMIC_FLAG_INIT;
static bool is_late, is_brought, is_commanded;
static int (*driver_init)(unsigned int flags);
static int (*driver_count)(int *count);

bool late_claim_attach(void)
{
	return !atomic_exchange(&is_claimed, true);
}

/* ---- Users of NVTX ---- */

static void pick_up(void)
{
	static atomic_flag is_done = ATOMIC_FLAG_INIT;
	unsigned int nr;

	if (atomic_flag_test_and_set(&is_done) || !attach_nvtx())
		return;
	nr = nvtx_late_attach();
	if (nr)
		log_line(LOG_INFO, "NVTX: %u programs or libraries that used "
			 "it before", nr);
}

static void *run_pick_up(void *argument)
{
	(void)argument;
	pick_up();
	return NULL;
}

void late_pick_up(void)
{
	if (is_late)
		own_thread_start("gputrace-nvtx", run_pick_up, NULL);
}

/* ---- The thread ---- */

static void wait_until(_Atomic uint32_t *word, int looks)
{
	while (!atomic_load(word) && looks--)
		wait_change(word, 0, LOOK_NS);
}

/* 3, CUDA_ERROR_NOT_INITIALIZED, before cuInit. */
static bool is_in_use(void)
{
	int count;

	return driver_count && driver_count(&count) == 0;
}

static void find_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	if (!driver)
		return;
	driver_init = (int (*)(unsigned int))dlsym(driver, "cuInit");
	driver_count = (int (*)(int *))dlsym(driver, "cuDeviceGetCount");
}

static bool look_on(void)
{
	for (int i = 0; i < LOOKS && !is_in_use(); i++)
		wait_change(&never, 0, LOOK_NS);
	return is_in_use();
}

/* Until the answer is there the constructor holds the loader's lock. */
static void *come_late(void *argument)
{
	bool in_use;

	(void)argument;
	if (is_brought) {
		wait_until(&has_settings, is_commanded ? COMMAND_LOOKS :
			   SETTINGS_LOOKS);
		if (is_commanded && !atomic_load(&has_settings)) {
			atomic_flag_clear(&is_begun);
			return NULL;
		}
		arm(ARM_NVTX);
	}
	in_use = is_in_use();
	if (!in_use)
		arm(ARM_CUDA);
	wait_wake(&has_answer);
	if (!in_use && (!driver_count || !look_on()))
		return NULL;
	/* Whoever is in it is through after that; else it does nothing. */
	if (driver_init)
		driver_init(0);
	pick_up();
	if (late_claim_attach())
		attach(ATTACH_LATE);
	return NULL;
}

/* ---- The constructor ---- */

/* A debugger has this thread. */
static bool is_debugged(void)
{
	return debugger_of("/proc/thread-self/status");
}

static bool begin(void)
{
	if (atomic_flag_test_and_set(&is_begun))
		return true;
	is_late = true;
	find_driver();
	return (is_brought || driver_count) &&
		!own_thread_start("gputrace-attach", come_late, NULL);
}

void late_have_settings(bool is_new)
{
	wait_wake(&has_settings);
	if (is_new && !atomic_load(&is_claimed))
		begin();
}

void late_load(bool may_be_injected)
{
	is_commanded = brought_by_command();
	is_brought = is_commanded || is_debugged();
	if (may_be_injected && !is_brought)
		return;
	if (!is_brought)
		arm(ARM_NVTX);
	if (begin()) {
		if (!is_brought)
			wait_until(&has_answer, ANSWER_LOOKS);
		return;
	}
	arm(ARM_NVTX);
	arm(ARM_CUDA);
}
