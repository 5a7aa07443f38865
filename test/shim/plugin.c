/* SPDX-License-Identifier: MIT */
/*
 * A library that uses NVTX as libraries do: in its constructor, in its
 * destructor, with a domain and strings of its own memory.  Loaded by
 * host/tangle, again and again, or preloaded: then before main.
 */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void plugin_work(unsigned int number);

static char text[64] = "plugin string";

static void use(const char *name)
{
	nvtxRangePushA(name);
	nvtxRangePop();
}

__attribute__((constructor))
static void on_load(void)
{
	use("plugin constructor");
	if (getenv("PLUGIN_OPEN"))
		nvtxRangePushA("from before main");
}

__attribute__((destructor))
static void on_unload(void)
{
	use("plugin destructor");
}

/* Strings and handles are gone with the library, or changed before that. */
void plugin_work(unsigned int number)
{
	nvtxDomainHandle_t domain = nvtxDomainCreateA("plugin domain");
	nvtxEventAttributes_t a = {
		.version = NVTX_VERSION, .size = sizeof(a), .category = 1,
		.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT32,
		.payload = { .uiValue = number },
		.messageType = NVTX_MESSAGE_TYPE_REGISTERED,
	};

	strcpy(text, "plugin string");
	nvtxDomainNameCategoryA(domain, 1, "plugin category");
	a.message.registered = nvtxDomainRegisterStringA(domain, text);
	memset(text, '!', sizeof(text) - 1);
	nvtxDomainRangePushEx(domain, &a);
	nvtxDomainRangePop(domain);
	snprintf(text, sizeof(text), "open %u", number % 10);
	nvtxDomainRangeStartEx(domain, &a);
	nvtxDomainDestroy(domain);
}
