/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "collector/log.h"
#include "collector/nvtx.h"
#include "collector/own_thread.h"
#include "inject/attach.h"
#include "inject/brought.h"
#include "inject/environment.h"
#include "inject/exits.h"

/*
 * The four ways in.  All lead to attach().
 *
 *   LD_PRELOAD              constructor: sets the two variables below to this
 *                           file, and notes the environment, stderr and the
 *                           real _exit for later
 *   CUDA_INJECTION64_PATH   the driver calls InitializeInjection() in cuInit
 *   NVTX_INJECTION64_PATH   each user of NVTX calls InitializeInjectionNvtx2()
 *   dlopen, late            constructor: where CUDA is in use a thread of ours
 *                           attaches; NVTX is armed for those of its users
 *                           that have not made their first call yet
 *
 * The last may be `gputrace attach`: it calls gputrace_attach() behind it.
 */
#define EXPORT __attribute__((visibility("default")))

static const char *const injection_variables[] = {
	"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH",
};

static bool own_path(char *path, size_t size)
{
	Dl_info self;
	char resolved[PATH_MAX];

	if (!dladdr((void *)own_path, &self) || !self.dli_fname ||
	    !realpath(self.dli_fname, resolved) ||
	    strlen(resolved) >= size)
		return false;
	strcpy(path, resolved);
	return true;
}

/* True when the loader brought us at the start of the program. */
static bool is_preloaded(const char *path)
{
	const char *list = environment_get("LD_PRELOAD");
	const char *name = strrchr(path, '/') + 1;

	return list && strstr(list, name);
}

/* Safe at the start of a program: constructors run before main and its
 * threads.  In a late load setenv can meet a getenv of another thread; there
 * is no other way to reach NVTX. */
static void arm(const char *path, bool cuda)
{
	for (size_t i = cuda ? 0 : 1; i < 2; i++)
		setenv(injection_variables[i], path, 0);
}

static void *attach_late(void *argument)
{
	(void)argument;
	attach(ATTACH_LATE);
	return NULL;
}

/* The driver or NVTX brought us and calls on its own. */
static bool is_injected(const char *path)
{
	for (size_t i = 0; i < 2; i++) {
		const char *value = environment_get(injection_variables[i]);

		if (value && strstr(value, strrchr(path, '/') + 1))
			return true;
	}
	return false;
}

static void come_late(const char *path)
{
	bool in_use = attach_cuda_is_in_use();

	arm(path, !in_use);
	if (in_use)
		own_thread_start("gputrace-attach", attach_late, NULL);
}

static atomic_bool waits_for_settings;

__attribute__((constructor))
static void on_load(void)
{
	char path[PATH_MAX];

	if (getauxval(AT_SECURE) || !own_path(path, sizeof path))
		return;
	environment_keep();
	log_keep_stderr();
	exits_prepare();
	if (is_preloaded(path))
		arm(path, true);
	else if (brought_by_command())
		atomic_store(&waits_for_settings, true);
	else if (!is_injected(path))
		come_late(path);
}

/*
 * For whoever brings the library into a running process (`gputrace attach`
 * makes it call dlopen(), and then this): settings that go before those of the
 * environment, "NAME=VALUE" lines.  Unless GPUTRACE_START is among them or in
 * the environment, it is `off`.  Returns 0, -EALREADY: the process has read
 * its settings before; or -EPERM: it is privileged, and not traced.
 * Context: any thread; no lock.
 */
EXPORT int gputrace_attach(const char *settings);
int gputrace_attach(const char *settings)
{
	char path[PATH_MAX];

	if (getauxval(AT_SECURE) || !own_path(path, sizeof path))
		return -EPERM;
	if (!atomic_exchange(&waits_for_settings, false))
		return -EALREADY;
	if (!environment_get("GPUTRACE_START"))
		environment_put("GPUTRACE_START=off");
	environment_put(settings);
	come_late(path);
	return 0;
}

EXPORT int InitializeInjection(void)
{
	if (!getauxval(AT_SECURE))
		attach(ATTACH_IN_CUINIT);
	return 1;
}

EXPORT int InitializeInjectionNvtx2(void *get_export_table)
{
	if (getauxval(AT_SECURE) || !attach_nvtx())
		return 0;
	return nvtx_attach(get_export_table);
}

/* NVTX 1 and 2 ask by this name when they do not find the other. */
EXPORT int InitializeInjectionNvtx(void *get_export_table)
{
	return InitializeInjectionNvtx2(get_export_table);
}
