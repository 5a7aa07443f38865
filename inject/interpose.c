/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <stddef.h>

#include "collector/cupti.h"
#include "inject/attach.h"

/*
 * Functions of others that the program finds here first when the library is
 * preloaded; each does what it must and calls the real one.
 *
 *   cudaProfilerStart/Stop, cuProfilerStart/Stop   open and close windows
 *   cuptiSubscribe(_v2)                            CUPTI has one subscriber:
 *                                                  ours gives way
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
static const char *const cuptis[] = {
	"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", NULL,
};

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
EXPORT int cuptiSubscribe(void *subscriber, void *callback, void *argument);
EXPORT int cuptiSubscribe_v2(void *subscriber, void *callback,
			     void *argument, void *parameters);

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

/* CUPTI_ERROR_UNKNOWN where there is no CUPTI to ask. */
#define NO_CUPTI 999

int cuptiSubscribe(void *subscriber, void *callback, void *argument)
{
	int (*call)(void *, void *, void *) = (int (*)(void *, void *, void *))
		real("cuptiSubscribe", cuptis);

	cupti_give_way();
	return call ? call(subscriber, callback, argument) : NO_CUPTI;
}

int cuptiSubscribe_v2(void *subscriber, void *callback, void *argument,
		      void *parameters)
{
	int (*call)(void *, void *, void *, void *) =
		(int (*)(void *, void *, void *, void *))
		real("cuptiSubscribe_v2", cuptis);

	cupti_give_way();
	return call ? call(subscriber, callback, argument, parameters) :
		NO_CUPTI;
}
