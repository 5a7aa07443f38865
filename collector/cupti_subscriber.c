/* SPDX-License-Identifier: MIT */
#include "collector/cupti_subscriber.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include "collector/cancel.h"
#include "collector/cupti.h"
#include "collector/cupti_api.h"
#include "collector/cupti_kinds.h"

static CUpti_SubscriberHandle _Atomic subscriber;
static void (*on_profiler_api)(bool start);
static cupti_call_fn _Atomic on_call;

/* Only cuProfilerStart and cuProfilerStop are enabled; cudart's calls end in
 * these (seen with 13.0). */
static void CUPTIAPI driver_call(void *argument, CUpti_CallbackDomain domain,
				 CUpti_CallbackId cbid, const void *call)
{
	const CUpti_CallbackData *data = call;
	cupti_call_fn also = atomic_load_explicit(&on_call,
						  memory_order_acquire);
	int saved = errno, cancel = cancel_hold();

	(void)argument;
	if (also)
		also(data);
	if (!on_profiler_api)
		goto done;
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API &&
	    cbid == CUPTI_DRIVER_TRACE_CBID_cuProfilerStart &&
	    data->callbackSite == CUPTI_API_EXIT)
		on_profiler_api(true);
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API &&
	    cbid == CUPTI_DRIVER_TRACE_CBID_cuProfilerStop &&
	    data->callbackSite == CUPTI_API_ENTER)
		on_profiler_api(false);
done:
	cancel_release(cancel);
	errno = saved;
}

static CUptiResult subscribe(void)
{
	CUpti_SubscriberHandle ours;
	CUptiResult result;

	if (atomic_load(&subscriber))
		return CUPTI_SUCCESS;
	result = cupti_api()->Subscribe(&ours, driver_call, NULL);
	if (result == CUPTI_SUCCESS)
		atomic_store(&subscriber, ours);
	return result;
}

int cupti_subscribe(void (*call)(bool start))
{
	CUptiResult result = subscribe();

	if (result == CUPTI_SUCCESS) {
		on_profiler_api = call;
		cupti_subscriber_enable(false,
			CUPTI_DRIVER_TRACE_CBID_cuProfilerStart, true);
		cupti_subscriber_enable(false,
			CUPTI_DRIVER_TRACE_CBID_cuProfilerStop, true);
	}
	return cupti_kinds_explain(result, "cudaProfilerStart cannot be seen");
}

int cupti_subscribe_calls(cupti_call_fn call)
{
	CUptiResult result = subscribe();

	if (result == CUPTI_SUCCESS)
		atomic_store_explicit(&on_call, call, memory_order_release);
	return cupti_kinds_explain(result, "no call stacks of CUDA calls");
}

/* One that has given way meanwhile is refused by CUPTI. */
bool cupti_subscriber_enable(bool is_runtime, uint32_t cbid, bool on)
{
	CUpti_SubscriberHandle ours = atomic_load(&subscriber);

	return ours && cupti_api()->EnableCallback(on, ours, is_runtime ?
		CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API,
		cbid) == CUPTI_SUCCESS;
}

void cupti_give_way(void)
{
	CUpti_SubscriberHandle ours = atomic_exchange(&subscriber, NULL);
	int saved = errno;

	if (ours)
		cupti_api()->Unsubscribe(ours);
	errno = saved;
}

void cupti_subscriber_in_child(void)
{
	atomic_store(&subscriber, NULL);
}
