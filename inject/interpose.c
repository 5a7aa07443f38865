/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <stddef.h>

#include "inject/attach.h"

/*
 * cudaProfilerStart/Stop and cuProfilerStart/Stop, which open and close
 * windows: the program finds them here first when the library is preloaded.
 * Each calls the real one.
 *
 * Programs that reach the real functions in another way (a static cudart,
 * dlsym) are seen by CUPTI's own callbacks, as long as we may subscribe.
 */
#define EXPORT __attribute__((visibility("default")))

/* Where the real ones are, should they not be in the global scope (a library
 * that Python loaded with RTLD_LOCAL). */
static const char *const runtimes[] = {
	"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", NULL,
};
static const char *const drivers[] = { "libcuda.so.1", NULL };

static void *real(const char *name, const char *const *libraries)
{
	void *function = dlsym(RTLD_NEXT, name), *library;

	for (; !function && *libraries; libraries++) {
		library = dlopen(*libraries, RTLD_NOW | RTLD_NOLOAD);
		if (library)
			function = dlsym(library, name);
	}
	return function;
}

/* The driver's own, where cudart's is not found: cudart only passes on. */
static int call_profiler(const char *runtime_name, const char *driver_name)
{
	int (*call)(void) = NULL;

	if (runtime_name)
		call = (int (*)(void))real(runtime_name, runtimes);
	if (!call)
		call = (int (*)(void))real(driver_name, drivers);
	return call ? call() : 0;
}

static int start(const char *runtime_name)
{
	int result = call_profiler(runtime_name, "cuProfilerStart");

	attach_profiler_api(true);
	return result;
}

static int stop(const char *runtime_name)
{
	attach_profiler_api(false);
	return call_profiler(runtime_name, "cuProfilerStop");
}

EXPORT int cudaProfilerStart(void);
EXPORT int cudaProfilerStop(void);
EXPORT int cuProfilerStart(void);
EXPORT int cuProfilerStop(void);
int cudaProfilerStart(void)
{
	return start("cudaProfilerStart");
}

int cudaProfilerStop(void)
{
	return stop("cudaProfilerStop");
}

int cuProfilerStart(void)
{
	return start(NULL);
}

int cuProfilerStop(void)
{
	return stop(NULL);
}
