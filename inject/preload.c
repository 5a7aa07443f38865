/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

#include "collector/log.h"
#include "collector/module.h"
#include "collector/nvtx.h"
#include "collector/nvtx_payload.h"
#include "collector/osrt.h"
#include "collector/source.h"
#include "collector/thread.h"
#include "inject/arm.h"
#include "inject/attach.h"
#include "inject/environment.h"
#include "inject/exits.h"
#include "inject/late.h"
#include "inject/other_copy.h"

/*
 * The four ways in.  All lead to attach().
 *
 *   LD_PRELOAD              constructor: sets the two variables below to this
 *                           file, and notes the environment, stderr and the
 *                           real _exit for later
 *   CUDA_INJECTION64_PATH   the driver calls InitializeInjection() in cuInit
 *   NVTX_INJECTION64_PATH   each user of NVTX calls InitializeInjectionNvtx2(),
 *                           of its extensions
 *                           InitializeInjectionNvtxExtension()
 *   dlopen, late            constructor: late.c; with settings of its own:
 *                           gputrace_attach()
 *
 * A second copy of the library in one process passes calls on to the first.
 * NCCL looks up tables in it (nccl_plugin.h), which attach nothing.
 */
#define EXPORT __attribute__((visibility("default")))

static enum { NOT_WANTED, AT_WORK, SECOND } role;

/* 1: we come first, 2: the C library does. */
static int look_who_is_first(struct dl_phdr_info *module, size_t size,
			     void *argument)
{
	(void)size;
	(void)argument;
	return module_has(module, (uintptr_t)look_who_is_first, 0) ? 1 :
		module_has(module, (uintptr_t)getauxval, 0) ? 2 : 0;
}

/* True when the loader brought us at the start of the program: then we are
 * before the C library in its list.  (LD_PRELOAD itself may name a file that
 * is not there.) */
static bool is_preloaded(void)
{
	return dl_iterate_phdr(look_who_is_first, NULL) == 1;
}

/* The driver or NVTX may have brought us, and call then. */
static bool is_injected(const char *path)
{
	static const char *const variables[] = { ARM_CUDA, ARM_NVTX };

	for (size_t i = 0; i < 2; i++) {
		const char *value = environment_get(variables[i]);

		if (value && strstr(value, strrchr(path, '/') + 1))
			return true;
	}
	return false;
}

/* The earlier, the smaller the number of our thread-specific key, and the
 * fewer allocations it takes (thread.h). */
static void prepare_osrt(void)
{
	const char *sources = environment_get("GPUTRACE_TRACE");

	if (sources && strstr(sources, osrt_source.name))
		(void)thread_prepare();
}

/* Shells that inherit two copies in LD_PRELOAD need not hear of it. */
static void say_second(const char *first, const char *path)
{
	const char *log = environment_get("GPUTRACE_LOG");

	if (!is_preloaded() && (!log || strncmp(log, "quiet", 5)))
		log_line(LOG_WARN, "%s is in this process already; this copy, "
			 "%s, does nothing", first, path);
}

__attribute__((constructor))
static void on_load(void)
{
	const char *path, *first;

	osrt_resolve();
	if (getauxval(AT_SECURE) || !(path = arm_path()))
		return;
	environment_keep();
	log_keep_stderr();
	exits_prepare();
	first = other_copy_find();
	role = first ? SECOND : AT_WORK;
	if (first) {
		say_second(first, path);
	} else if (is_preloaded()) {
		prepare_osrt();
		arm(ARM_CUDA);
		arm(ARM_NVTX);
	} else {
		late_load(is_injected(path));
	}
}

/* The first copy's function of that name, if this is not the first. */
static int call_first(const char *name, void *argument)
{
	int (*function)(void *argument) = (int (*)(void *))
		other_copy_function(name);

	return function ? function(argument) : 0;
}

EXPORT int InitializeInjection(void)
{
	if (role == SECOND) {
		call_first("InitializeInjection", NULL);
	} else if (!getauxval(AT_SECURE)) {
		late_pick_up();
		if (late_claim_attach())
			attach(ATTACH_IN_CUINIT);
	}
	return 1;
}

EXPORT int InitializeInjectionNvtx2(void *get_export_table)
{
	if (role == SECOND)
		return call_first("InitializeInjectionNvtx2",
				  get_export_table);
	if (getauxval(AT_SECURE) || !attach_nvtx())
		return 0;
	return nvtx_attach(get_export_table);
}

/* Each user of an NVTX extension calls it, after the one above. */
EXPORT int InitializeInjectionNvtxExtension(void *module_info)
{
	if (role == SECOND)
		return call_first("InitializeInjectionNvtxExtension",
				  module_info);
	if (getauxval(AT_SECURE) || !attach_nvtx())
		return 0;
	return nvtx_payload_attach(module_info);
}

/* NVTX 1 and 2 ask by this name when they do not find the other. */
EXPORT int InitializeInjectionNvtx(void *get_export_table)
{
	return InitializeInjectionNvtx2(get_export_table);
}

/*
 * For whoever brings the library into a running process (`gputrace attach`, or
 * a debugger, that makes it call dlopen(), and then this): settings that go
 * before those of the environment, "NAME=VALUE" lines.  Unless GPUTRACE_START
 * is among them or in the environment, it is `off`.  Returns 0, or -EALREADY:
 * the process has read its settings before; -EPERM: it is privileged, and not
 * traced.  NULL: nothing is given; returns 1 in a copy that is at work, else 0.
 * Context: any thread that could call dlopen().
 */
EXPORT int gputrace_attach(const char *settings);
int gputrace_attach(const char *settings)
{
	int result = 0;

	if (!settings)
		return role == AT_WORK;
	if (role == SECOND)
		return call_first("gputrace_attach", (void *)settings);
	if (role != AT_WORK)
		return -EPERM;
	if ((!environment_get("GPUTRACE_START") &&
	     !environment_put("GPUTRACE_START=off")) ||
	    !environment_put(settings))
		result = -EALREADY;
	late_have_settings(!result);
	return result;
}
