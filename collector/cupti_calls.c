/* SPDX-License-Identifier: MIT */
#include "collector/cupti_calls.h"

#include <stdatomic.h>
#include <stddef.h>

#include "collector/api_calls.h"
#include "collector/clock.h"
#include "collector/cupti_subscriber.h"
#include "collector/thread.h"

/* As api_calls.c's lists; a list of what may wait, not of what does. */
static const char *const runtime_calls[] = {
	"cudaDeviceSynchronize", "cudaStreamSynchronize",
	"cudaEventSynchronize", "cudaThreadSynchronize",
	"cudaMemcpy*", "cudaMemset*", "cudaMalloc*", "cudaFree*",
	"cudaHostAlloc", "cudaHostRegister", "cudaHostUnregister",
	"cudaLaunch*", "cudaGraphLaunch", "cudaGraphInstantiate*",
	"cudaGraphExecUpdate", "cudaStreamCreate*", "cudaStreamDestroy",
};

static const char *const driver_calls[] = {
	"cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize",
	"cuMemcpy*", "cuMemset*", "cuMemAlloc*", "cuMemFree*", "cuMemHost*",
	"cuLaunch*", "cuGraphLaunch", "cuGraphInstantiate*",
	"cuGraphExecUpdate", "cuStreamCreate*", "cuStreamDestroy",
	"cuModuleLoad*", "cuLibraryLoad*",
};

static uint64_t min_ns;
static void (*_Atomic on_long)(uint32_t correlation);
static bool is_on, is_seen;

/* A driver call inside a runtime call has its correlation: the first to end,
 * the inner one, has the whole stack. */
static bool is_new(uint32_t correlation)
{
	struct thread *thread = thread_self();

	if (!thread || thread->last_stack == correlation)
		return false;
	thread->last_stack = correlation;
	return true;
}

/* CUPTI keeps a number for us from a call's begin to its end. */
static void see(const CUpti_CallbackData *data)
{
	/* Pairs with the store in cupti_calls_prepare(). */
	void (*call)(uint32_t correlation) =
		atomic_load_explicit(&on_long, memory_order_acquire);

	if (!data->correlationData)
		return;
	if (data->callbackSite == CUPTI_API_ENTER) {
		*data->correlationData = clock_now_ns();
		return;
	}
	/* 0: it began before this was enabled. */
	if (*data->correlationData &&
	    clock_now_ns() - *data->correlationData >= min_ns &&
	    is_new(data->correlationId))
		call(data->correlationId);
}

int cupti_calls_prepare(uint64_t least_ns, void (*call)(uint32_t correlation))
{
	min_ns = least_ns;
	atomic_store(&on_long, call);
	return cupti_subscribe_calls(see);
}

static void enable(bool is_runtime, uint32_t cbid)
{
	is_seen |= cupti_subscriber_enable(is_runtime, cbid, is_on);
}

bool cupti_calls_enable(bool on)
{
	is_on = on;
	is_seen = false;
	api_each_named(true, runtime_calls,
		       sizeof runtime_calls / sizeof *runtime_calls, enable);
	api_each_named(false, driver_calls,
		       sizeof driver_calls / sizeof *driver_calls, enable);
	return is_seen;
}
