/* SPDX-License-Identifier: MIT */
/*
 * Another preload that wraps CUPTI as ours does: it passes each call on to the
 * next one in line, or to CUPTI's own, and counts.  At the end it says on
 * stderr how many calls it saw.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>

#include <cupti.h>

static _Atomic long seen;

static void *next(const char *name)
{
	void *function = dlsym(RTLD_NEXT, name), *library;

	if (!function) {
		library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
		function = library ? dlsym(library, name) : NULL;
	}
	atomic_fetch_add(&seen, 1);
	return function;
}

#define NEXT(name) ((__typeof__(&name))next(#name))

CUptiResult CUPTIAPI
cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
			       CUpti_BuffersCallbackCompleteFunc complete)
{
	return NEXT(cuptiActivityRegisterCallbacks)(request, complete);
}

CUptiResult CUPTIAPI
cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc now)
{
	return NEXT(cuptiActivityRegisterTimestampCallback)(now);
}

CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind)
{
	return NEXT(cuptiActivityEnable)(kind);
}

CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind)
{
	return NEXT(cuptiActivityDisable)(kind);
}

CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t flag)
{
	return NEXT(cuptiActivityFlushAll)(flag);
}

__attribute__((destructor))
static void tell(void)
{
	if (atomic_load(&seen))
		fprintf(stderr, "wrapper: %ld calls\n", atomic_load(&seen));
}
