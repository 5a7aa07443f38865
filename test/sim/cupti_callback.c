// SPDX-License-Identifier: MIT
/* The callback API: one subscriber, and only what it enabled. */
#include "test/sim/cupti_sim.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CBID (CUPTI_DRIVER_TRACE_CBID_SIZE + 1)

struct CUpti_Subscriber_st {
	int used;
};

static struct CUpti_Subscriber_st the_subscriber;
static _Atomic(CUpti_CallbackFunc) function;
static void *user;
static atomic_bool taken;
static atomic_uchar enabled[CUPTI_CB_DOMAIN_SIZE][MAX_CBID];

static bool is_enabled(unsigned int domain, unsigned int cbid)
{
	return atomic_load(&function) &&
	       atomic_load_explicit(&enabled[domain][cbid],
				    memory_order_acquire);
}

static void call(unsigned int domain, unsigned int cbid, const void *data)
{
	CUpti_CallbackFunc f = atomic_load(&function);

	if (f)
		f(user, (CUpti_CallbackDomain)domain, cbid, data);
}

void sim_callback_api(struct sim_call *c, CUpti_ApiCallbackSite site,
		      unsigned int result)
{
	CUpti_CallbackData d = {
		.callbackSite = site, .correlationId = c->correlation,
		.correlationData = &c->user_value, .context = c->context,
		.symbolName = c->symbol,
	};

	if (!is_enabled(c->domain, c->cbid))
		return;
	d.functionName = sim_callback_name(c->domain, c->cbid);
	d.functionReturnValue = site == CUPTI_API_EXIT ? &result : NULL;
	d.contextUid = sim_context_id(c->context);
	call(c->domain, c->cbid, &d);
}

void sim_callback_resource(const struct sim_resource *r)
{
	CUpti_ResourceData d = { 0 };

	if (!r->cbid || !is_enabled(CUPTI_CB_DOMAIN_RESOURCE, r->cbid))
		return;
	if (r->stream) {
		d.context = r->stream->context;
		d.resourceHandle.stream = r->stream->stream;
	} else if (r->context) {
		d.context = r->context->context;
	}
	call(CUPTI_CB_DOMAIN_RESOURCE, r->cbid, &d);
}

void sim_callback_sync(unsigned int cbid, const struct sim_sync *s)
{
	CUpti_SynchronizeData d = { 0 };

	(void)s;
	if (is_enabled(CUPTI_CB_DOMAIN_SYNCHRONIZE, cbid))
		call(CUPTI_CB_DOMAIN_SYNCHRONIZE, cbid, &d);
}

void sim_callbacks_forget(void)
{
	atomic_store(&function, NULL);
	atomic_store(&taken, false);
	for (int i = 0; i < CUPTI_CB_DOMAIN_SIZE; i++)
		for (int k = 0; k < MAX_CBID; k++)
			atomic_store(&enabled[i][k], 0);
}

SIM_EXPORT CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle *out,
					       CUpti_CallbackFunc f, void *data)
{
	CUptiResult r = sim_refusal(__func__);

	if (r)
		return r;
	if (!out || !f)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (atomic_exchange(&taken, true))
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	user = data;
	*out = &the_subscriber;
	atomic_store(&function, f);
	sim_attach();
	return CUPTI_SUCCESS;
}

SIM_SINCE(130000, cuptiSubscribe_v2, (CUpti_SubscriberHandle *out,
	CUpti_CallbackFunc f, void *data, CUpti_SubscriberParams *p))
{
	const char *holder = getenv("SIM_SUBSCRIBER");

	if (holder && p && p->oldSubscriberName && p->oldSubscriberSize)
		snprintf(p->oldSubscriberName, p->oldSubscriberSize, "%s",
			 holder);
	return cuptiSubscribe(out, f, data);
}

SIM_EXPORT CUptiResult CUPTIAPI cuptiUnsubscribe(CUpti_SubscriberHandle s)
{
	CUptiResult r = sim_refusal(__func__);

	if (r)
		return r;
	if (s != &the_subscriber)
		return CUPTI_ERROR_INVALID_PARAMETER;
	sim_callbacks_forget();
	return CUPTI_SUCCESS;
}

static bool known(CUpti_SubscriberHandle s, unsigned int domain)
{
	return s == &the_subscriber && sim_callback_count(domain);
}

SIM_EXPORT CUptiResult CUPTIAPI
cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle s,
		    CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
	CUptiResult r = sim_refusal(__func__);

	if (r)
		return r;
	if (!known(s, domain) || cbid >= sim_callback_count(domain))
		return CUPTI_ERROR_INVALID_PARAMETER;
	atomic_store(&enabled[domain][cbid], on != 0);
	return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult CUPTIAPI cuptiEnableDomain(uint32_t on,
						  CUpti_SubscriberHandle s,
						  CUpti_CallbackDomain domain)
{
	CUptiResult r = sim_refusal(__func__);

	if (r)
		return r;
	if (!known(s, domain))
		return CUPTI_ERROR_INVALID_PARAMETER;
	for (unsigned int i = 0; i < sim_callback_count(domain); i++)
		atomic_store(&enabled[domain][i], on != 0);
	return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult CUPTIAPI
cuptiEnableAllDomains(uint32_t on, CUpti_SubscriberHandle s)
{
	for (int i = 1; i < CUPTI_CB_DOMAIN_SIZE; i++)
		if (cuptiEnableDomain(on, s, (CUpti_CallbackDomain)i))
			return CUPTI_ERROR_INVALID_PARAMETER;
	return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult CUPTIAPI
cuptiGetCallbackState(uint32_t *on, CUpti_SubscriberHandle s,
		      CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
	if (!on || !known(s, domain) || cbid >= sim_callback_count(domain))
		return CUPTI_ERROR_INVALID_PARAMETER;
	*on = atomic_load(&enabled[domain][cbid]);
	return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult CUPTIAPI
cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid,
		     const char **name)
{
	if (!name)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*name = sim_callback_name(domain, cbid);
	return *name ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}
