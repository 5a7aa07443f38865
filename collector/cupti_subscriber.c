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

/* Only cuProfilerStart and cuProfilerStop are enabled; cudart's calls end in
 * these (seen with 13.0). */
static void CUPTIAPI driver_call(void *argument, CUpti_CallbackDomain domain,
				 CUpti_CallbackId cbid, const void *call)
{
	const CUpti_CallbackData *data = call;
	int saved = errno, cancel = cancel_hold();

	(void)argument;
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API &&
	    cbid == CUPTI_DRIVER_TRACE_CBID_cuProfilerStart &&
	    data->callbackSite == CUPTI_API_EXIT)
		on_profiler_api(true);
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API &&
	    cbid == CUPTI_DRIVER_TRACE_CBID_cuProfilerStop &&
	    data->callbackSite == CUPTI_API_ENTER)
		on_profiler_api(false);
	cancel_release(cancel);
	errno = saved;
}

int cupti_subscribe(void (*call)(bool start))
{
	const struct cupti_api *api = cupti_api();
	CUpti_SubscriberHandle ours;
	CUptiResult result;

	on_profiler_api = call;
	result = api->Subscribe(&ours, driver_call, NULL);
	if (result == CUPTI_SUCCESS) {
		api->EnableCallback(1, ours, CUPTI_CB_DOMAIN_DRIVER_API,
			CUPTI_DRIVER_TRACE_CBID_cuProfilerStart);
		api->EnableCallback(1, ours, CUPTI_CB_DOMAIN_DRIVER_API,
			CUPTI_DRIVER_TRACE_CBID_cuProfilerStop);
		atomic_store(&subscriber, ours);
	}
	return cupti_kinds_explain(result, "cudaProfilerStart cannot be seen");
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
