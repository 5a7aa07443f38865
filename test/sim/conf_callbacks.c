// SPDX-License-Identifier: MIT
/* The callback API, id filters, and the runtime above the driver. */
#include "test/sim/conf.h"

#include <cudaProfiler.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KERNEL CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
#define DRIVER CUPTI_ACTIVITY_KIND_DRIVER
#define RUNTIME CUPTI_ACTIVITY_KIND_RUNTIME

static const int none[] = { 0 };
static bool enable_inside;
static unsigned int fired;

static void CUPTIAPI on_callback(void *user, CUpti_CallbackDomain domain,
				 CUpti_CallbackId cbid, const void *data)
{
	const CUpti_CallbackData *d = data;
	const char *name = NULL;
	char key[32];

	(void)user;
	if (++fired > 40)
		return;
	cupti.GetCallbackName(domain, cbid, &name);
	snprintf(key, sizeof(key), "event%u", fired);
	if (domain <= CUPTI_CB_DOMAIN_RUNTIME_API)
		fact(key, "domain=%d %s %s thread=%s correlation=%s", domain,
		     name ? name : "?", d->callbackSite ? "exit" : "enter",
		     conf_thread(conf_tid()), d->correlationId ? "set" : "0");
	else
		fact(key, "domain=%d cbid=%u %s thread=%s", domain, cbid,
		     name ? name : "?", conf_thread(conf_tid()));
	if (enable_inside) {
		enable_inside = false;
		fact("enable-inside", "%d", cupti.ActivityEnable(KERNEL));
	}
}

static void *open_cudart(void)
{
	void *h = dlopen("libcudart.so.13", RTLD_NOW);

	if (!h)
		h = dlopen("/usr/local/cuda/lib64/libcudart.so.13", RTLD_NOW);
	return h;
}

static int runtime_call(void *cudart, const char *name)
{
	int (*f)(void) = (int (*)(void))dlsym(cudart, name);

	return f ? f() : -1;
}

static void twice(const char *variant)
{
	CUpti_SubscriberHandle a = NULL, b = NULL;
	CUpti_SubscriberParams params = {
		.structSize = sizeof(params), .subscriberName = "conformance",
	};

	if (*variant == 'i')
		gpu_context();
	fact("first", "%d", cupti.Subscribe(&a, on_callback, NULL));
	fact("second", "%d", cupti.Subscribe(&b, on_callback, NULL));
	fact("second-v2", "%d", cupti.Subscribe_v2(&b, on_callback, NULL,
						   &params));
	fact("unsubscribe", "%d", cupti.Unsubscribe(a));
	fact("unsubscribe-again", "%d", cupti.Unsubscribe(a));
	fact("third", "%d", cupti.Subscribe(&b, on_callback, NULL));
	fact("enable-bad-domain", "%d", cupti.EnableDomain(1, b, 77));
	fact("enable-bad-cbid", "%d", cupti.EnableCallback(1, b,
		CUPTI_CB_DOMAIN_DRIVER_API, 100000));
	fact("enable-null", "%d", cupti.EnableCallback(1, NULL,
		CUPTI_CB_DOMAIN_DRIVER_API, 1));
	fact("unsubscribe-third", "%d", cupti.Unsubscribe(b));
}

static void enable_profiler(CUpti_SubscriberHandle s, int domain)
{
	static const unsigned int ids[2][2] = {
		{ CUPTI_DRIVER_TRACE_CBID_cuProfilerStart,
		  CUPTI_DRIVER_TRACE_CBID_cuProfilerStop },
		{ CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStart_v4000,
		  CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStop_v4000 },
	};

	for (int i = 0; i < 2; i++)
		MUST(cupti.EnableCallback(1, s, (CUpti_CallbackDomain)domain,
					  ids[domain - 1][i]));
}

/* Which callback does a profiler start and stop reach? */
static void profiler(const char *which)
{
	CUpti_SubscriberHandle s;
	void *cudart = NULL;

	conf_trace(none);
	MUST(cupti.Subscribe(&s, on_callback, NULL));
	enable_profiler(s, CUPTI_CB_DOMAIN_DRIVER_API);
	if (strstr(which, "both"))
		enable_profiler(s, CUPTI_CB_DOMAIN_RUNTIME_API);
	gpu_open();
	enable_inside = true;
	if (strstr(which, "runtime")) {
		cudart = open_cudart();
		if (!cudart) {
			fact("cudart", "missing");
			return;
		}
		fact("start", "%d", runtime_call(cudart, "cudaProfilerStart"));
	} else
		fact("start", "%d", cuProfilerStart());
	gpu_empty(gpu.plain);
	if (cudart)
		fact("stop", "%d", runtime_call(cudart, "cudaProfilerStop"));
	else
		fact("stop", "%d", cuProfilerStop());
	MUST(cuCtxSynchronize());
	conf_settle();
	fact("kernels", "%u", conf_count(KERNEL));
}

static void resources(const char *when)
{
	CUpti_SubscriberHandle s;
	CUstream t;

	if (*when == 'l')
		gpu_open();
	MUST(cupti.Subscribe(&s, on_callback, NULL));
	MUST(cupti.EnableDomain(1, s, CUPTI_CB_DOMAIN_RESOURCE));
	MUST(cupti.EnableDomain(1, s, CUPTI_CB_DOMAIN_STATE));
	MUST(cupti.EnableDomain(1, s, CUPTI_CB_DOMAIN_SYNCHRONIZE));
	if (*when != 'l')
		gpu_context();
	MUST(cuStreamCreate(&t, 0));
	MUST(cuStreamSynchronize(t));
	MUST(cuStreamDestroy(t));
	MUST(cuCtxSynchronize());
	fact("count", "%u", fired);
}

static void driver_calls(const char *variant)
{
	CUpti_SubscriberHandle s;

	(void)variant;
	gpu_open();
	MUST(cupti.Subscribe(&s, on_callback, NULL));
	MUST(cupti.EnableCallback(1, s, CUPTI_CB_DOMAIN_DRIVER_API,
				  CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel));
	gpu_empty(gpu.plain);
	MUST(cuCtxSynchronize());
	fact("count", "%u", fired);
	MUST(cupti.EnableCallback(0, s, CUPTI_CB_DOMAIN_DRIVER_API,
				  CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel));
	gpu_empty(gpu.plain);
	fact("count-disabled", "%u", fired);
}

static void print_ids(const char *key)
{
	unsigned int launches = 0, syncs = 0, others = 0;

	for (unsigned int i = 0; i < conf_record_count; i++) {
		const struct conf_record *r = &conf_records[i];

		if (r->kind != DRIVER)
			continue;
		if (r->cbid == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel)
			launches++;
		else if (r->cbid == CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize)
			syncs++;
		else
			others++;
	}
	fact(key, "launches=%u syncs=%u others=%u", launches, syncs, others);
}

static void work(const char *key)
{
	CUcontext c;

	conf_forget();
	gpu_empty(gpu.plain);
	gpu_empty(gpu.plain);
	MUST(cuCtxGetCurrent(&c));
	MUST(cuCtxSynchronize());
	conf_settle();
	print_ids(key);
}

/* The kind, single ids, and which of the two wins. */
static void filters(const char *variant)
{
	unsigned int launch = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel;
	unsigned int sync = CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize;

	conf_trace(none);
	if (!strcmp(variant, "kind-first")) {
		MUST(cupti.ActivityEnable(DRIVER));
		fact("disable-id", "%d", cupti.ActivityEnableDriverApi(sync, 0));
	} else if (!strcmp(variant, "id-off-first")) {
		fact("disable-id", "%d", cupti.ActivityEnableDriverApi(sync, 0));
		MUST(cupti.ActivityEnable(DRIVER));
	} else {
		fact("enable-id", "%d", cupti.ActivityEnableDriverApi(launch,
								      1));
	}
	gpu_open();
	conf_settle();
	work("first");
	if (!strcmp(variant, "id-only")) {
		MUST(cupti.ActivityEnable(DRIVER));
		work("with-kind");
	}
	MUST(cupti.ActivityDisable(DRIVER));
	work("kind-disabled");
	MUST(cupti.ActivityEnable(DRIVER));
	work("enabled-again");
}

static void print_runtime(void)
{
	conf_print_records("", 0, UINT64_MAX);
}

/* A runtime call and the driver call inside it. */
static void runtime(const char *variant)
{
	static const int both[] = { RUNTIME, DRIVER, CUPTI_ACTIVITY_KIND_MEMCPY,
		CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 0 };
	static const int alone[] = { RUNTIME, CUPTI_ACTIVITY_KIND_MEMCPY,
		CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 0 };
	static const int driver[] = { DRIVER, CUPTI_ACTIVITY_KIND_MEMCPY, 0 };
	void *cudart = open_cudart();
	int (*copy)(void *, const void *, size_t, int, void *);
	int (*sync)(void *);
	int (*get_device)(int *);
	int device;

	if (!cudart) {
		fact("cudart", "missing");
		return;
	}
	copy = (__typeof__(copy))dlsym(cudart, "cudaMemcpyAsync");
	sync = (__typeof__(sync))dlsym(cudart, "cudaStreamSynchronize");
	get_device = (__typeof__(get_device))dlsym(cudart, "cudaGetDevice");
	conf_trace(!strcmp(variant, "both") ? both :
		   !strcmp(variant, "alone") ? alone : driver);
	gpu_open();
	MUST(copy((void *)gpu.memory[0], gpu.pinned, 4096, 1, gpu.plain));
	MUST(sync(gpu.plain));
	conf_settle();
	conf_forget();
	MUST(copy((void *)gpu.memory[0], gpu.pinned, 4096, 1, gpu.plain));
	MUST(sync(gpu.plain));
	MUST(get_device(&device));
	fact("profiler-start", "%d", runtime_call(cudart, "cudaProfilerStart"));
	conf_settle();
	print_runtime();
}

static void finalized(const char *variant)
{
	static const int kinds[] = { KERNEL, 0 };

	(void)variant;
	conf_trace(kinds);
	gpu_open();
	conf_settle();
	conf_forget();
	fact("finalize", "%d", cupti.Finalize());
	gpu_empty(gpu.plain);
	MUST(cuCtxSynchronize());
	fact("flush", "%d", cupti.ActivityFlushAll(0));
	usleep(100000);
	fact("kernels", "%u", conf_count(KERNEL));
}

#define CALLBACKS(n, f, v) { "callbacks." n, f, v, "callbacks" }

const struct conf_experiment conf_callbacks[] = {
	CALLBACKS("twice", twice, ""), CALLBACKS("twice-init", twice, "i"),
	CALLBACKS("profiler-driver", profiler, "driver"),
	CALLBACKS("profiler-runtime", profiler, "runtime"),
	CALLBACKS("profiler-driver-both", profiler, "driver both"),
	CALLBACKS("profiler-runtime-both", profiler, "runtime both"),
	CALLBACKS("resources-early", resources, "early"),
	CALLBACKS("resources-late", resources, "late"),
	CALLBACKS("driver-calls", driver_calls, ""),
	CALLBACKS("filter-kind-first", filters, "kind-first"),
	CALLBACKS("filter-id-off-first", filters, "id-off-first"),
	CALLBACKS("filter-id-only", filters, "id-only"),
	CALLBACKS("runtime-both", runtime, "both"),
	CALLBACKS("runtime-alone", runtime, "alone"),
	CALLBACKS("runtime-driver", runtime, "driver"),
	CALLBACKS("finalized", finalized, ""),
	{ NULL, NULL, NULL, NULL },
};
