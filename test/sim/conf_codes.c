// SPDX-License-Identifier: MIT
/* Result codes, in and out of order; names; what a dump shows. */
#include "test/sim/conf.h"

#include <string.h>
#include <unistd.h>

static const int two_kinds[] = {
	CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0,
};
static const int no_kinds[] = { 0 };

static void code(const char *key, int result)
{
	fact(key, "%d", result);
}

static void print_name(const char *key, int domain, unsigned int cbid)
{
	const char *name = NULL;
	int r = cupti.GetCallbackName((CUpti_CallbackDomain)domain, cbid,
				      &name);

	fact(key, "%d %s", r, name ? name : "(null)");
}

static void names(const char *variant)
{
	(void)variant;
	print_name("driver-launch", 1, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
	print_name("driver-copy", 1, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2);
	print_name("driver-ptsz", 1,
		   CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz);
	print_name("driver-profiler", 1, CUPTI_DRIVER_TRACE_CBID_cuProfilerStart);
	print_name("driver-0", 1, 0);
	print_name("driver-last", 1, CUPTI_DRIVER_TRACE_CBID_SIZE - 1);
	print_name("driver-behind", 1, CUPTI_DRIVER_TRACE_CBID_SIZE);
	print_name("driver-far", 1, 100000);
	print_name("runtime-launch", 2,
		   CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
	print_name("runtime-copy", 2,
		   CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020);
	print_name("runtime-behind", 2, CUPTI_RUNTIME_TRACE_CBID_SIZE);
	print_name("resource-1", 3, 1);
	print_name("resource-5", 3, 5);
	print_name("sync-1", 4, 1);
	print_name("state-1", 6, 1);
	print_name("domain-9", 9, 1);
}

static void version(const char *variant)
{
	const char *text = NULL;
	uint32_t v = 0;

	(void)variant;
	code("result", cupti.GetVersion(&v));
	fact("version", "%u", v);
	code("null", cupti.GetVersion(NULL));
	cupti.GetResultString((CUptiResult)39, &text);
	fact("string-39", "%s", text ? text : "(null)");
	cupti.GetResultString((CUptiResult)15, &text);
	fact("string-15", "%s", text ? text : "(null)");
	code("string-unknown", cupti.GetResultString((CUptiResult)5000, &text));
}

static void attribute(const char *key, int id, size_t size)
{
	uint64_t value = 0;
	size_t n = size;
	int r = cupti.ActivityGetAttribute((CUpti_ActivityAttribute)id, &n,
					   &value);

	fact(key, "%d size=%zu value=%llu", r, n, (unsigned long long)value);
}

static void attributes(const char *variant)
{
	if (!strcmp(variant, "after-init"))
		gpu_context();
	attribute("device-buffer-size", 0, 8);
	attribute("pool-limit", 2, 8);
	attribute("zeroed-out", 5, 1);
	attribute("pre-allocate", 6, 8);
	attribute("host-pinned", 8, 1);
	attribute("per-thread", 9, 1);
	attribute("device-graphs", 10, 8);
	attribute("unknown-11", 11, 8);
	code("set-zeroed-out", conf_set_attribute(5, 1, 1));
	attribute("zeroed-out-now", 5, 1);
	code("set-per-thread-0", conf_set_attribute(9, 0, 1));
	attribute("per-thread-now", 9, 1);
	code("set-per-thread-size-4", conf_set_attribute(9, 1, 4));
	attribute("per-thread-after-size-4", 9, 1);
	code("set-unknown", conf_set_attribute(99, 1, 8));
	code("set-pool-limit", conf_set_attribute(2, 300, 8));
	code("set-null", cupti.ActivitySetAttribute(0, NULL, NULL));
	conf_trace(two_kinds);
	code("per-thread-after-enable", conf_set_attribute(9, 1, 1));
	code("zeroed-out-after-enable", conf_set_attribute(5, 0, 1));
	code("buffer-size-after-enable", conf_set_attribute(0, 1 << 20, 8));
}

static void before_init(const char *variant)
{
	CUpti_ActivityThreadIdType type = 99;
	uint64_t t = 0;
	size_t dropped = 99;

	(void)variant;
	code("timestamp", cupti.GetTimestamp(&t));
	code("timestamp-null", cupti.GetTimestamp(NULL));
	code("flush-unregistered", cupti.ActivityFlushAll(0));
	code("dropped", cupti.ActivityGetNumDroppedRecords(NULL, 0, &dropped));
	fact("dropped-count", "%zu", dropped);
	code("thread-id-type", cupti.GetThreadIdType(&type));
	fact("thread-id-default", "%d", type);
	code("disable-not-enabled", cupti.ActivityDisable(
		CUPTI_ACTIVITY_KIND_MEMCPY));
	code("enable-0", cupti.ActivityEnable(0));
	code("enable-250", cupti.ActivityEnable(250));
	code("enable-57", cupti.ActivityEnable(57));
	code("enable-event-kind", cupti.ActivityEnable(
		CUPTI_ACTIVITY_KIND_EVENT));
	code("enable-pc-sampling", cupti.ActivityEnable(
		CUPTI_ACTIVITY_KIND_PC_SAMPLING));
	code("disable-250", cupti.ActivityDisable(250));
	code("dump-kernel", cupti.ActivityEnableAndDump(
		CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	code("flush-period", cupti.ActivityFlushPeriod(0));
	code("register-null", cupti.ActivityRegisterCallbacks(NULL, NULL));
	code("clock-null", cupti.ActivityRegisterTimestampCallback(NULL));
	code("get-next-null", cupti.ActivityGetNextRecord(NULL, 0, NULL));
	code("subscribe-null", cupti.Subscribe(NULL, NULL, NULL));
	code("unsubscribe-null", cupti.Unsubscribe(NULL));
}

static void enable_unregistered(const char *variant)
{
	if (*variant == 'i')
		gpu_open();
	code("enable", cupti.ActivityEnable(CUPTI_ACTIVITY_KIND_DRIVER));
	if (*variant != 'i')
		gpu_context();
	code("flush", cupti.ActivityFlushAll(0));
}

static void in_order(const char *variant)
{
	size_t dropped = 99;

	if (*variant == 'i')
		gpu_open();
	conf_trace(no_kinds);
	conf_trace(two_kinds);
	conf_trace(two_kinds);
	code("enable-again", cupti.ActivityEnable(CUPTI_ACTIVITY_KIND_DRIVER));
	code("enable-kernel-too", cupti.ActivityEnable(
		CUPTI_ACTIVITY_KIND_KERNEL));
	code("clock-after-enable",
	     cupti.ActivityRegisterTimestampCallback(conf_clock));
	code("thread-id-after-enable", cupti.SetThreadIdType(0));
	code("thread-id-bad", cupti.SetThreadIdType(7));
	code("latency-after-enable", cupti.ActivityEnableLatencyTimestamps(0));
	code("launch-attributes", cupti.ActivityEnableLaunchAttributes(0));
	code("all-sync", cupti.ActivityEnableAllSyncRecords(0));
	code("event-timestamps",
	     cupti.ActivityEnableCudaEventDeviceTimestamps(0));
	code("driver-api-bad-cbid", cupti.ActivityEnableDriverApi(100000, 1));
	code("flush", cupti.ActivityFlushAll(0));
	code("flush-bad-flag", cupti.ActivityFlushAll(77));
	code("disable", cupti.ActivityDisable(CUPTI_ACTIVITY_KIND_DRIVER));
	code("disable-again", cupti.ActivityDisable(CUPTI_ACTIVITY_KIND_DRIVER));
	code("dropped", cupti.ActivityGetNumDroppedRecords(NULL, 0, &dropped));
	fact("dropped-count", "%zu", dropped);
}

static void external(const char *variant)
{
	static const int kinds[] = {
		CUPTI_ACTIVITY_KIND_DRIVER,
		CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, 0,
	};
	uint64_t last = 0;

	(void)variant;
	code("push-before", cupti.ActivityPushExternalCorrelationId(5, 41));
	code("pop-before", cupti.ActivityPopExternalCorrelationId(5, &last));
	fact("popped", "%llu", (unsigned long long)last);
	conf_trace(kinds);
	gpu_open();
	conf_settle();
	conf_forget();
	code("push", cupti.ActivityPushExternalCorrelationId(5, 42));
	code("push-second", cupti.ActivityPushExternalCorrelationId(4, 43));
	gpu_empty(gpu.plain);
	code("pop", cupti.ActivityPopExternalCorrelationId(5, &last));
	code("pop-second", cupti.ActivityPopExternalCorrelationId(4, &last));
	code("pop-empty", cupti.ActivityPopExternalCorrelationId(4, &last));
	conf_settle();
	conf_print_records("", 0, UINT64_MAX);
}

static void ids(const char *variant)
{
	uint32_t id = 0;

	(void)variant;
	gpu_open();
	code("context", cupti.GetContextId(gpu.context, &id));
	fact("context-id", "%u", id);
	code("device", cupti.GetDeviceId(gpu.context, &id));
	fact("device-id", "%u", id);
	code("stream-null", cupti.GetStreamIdEx(gpu.context, NULL, 0, &id));
	fact("stream-null-id", "%u", id);
	code("stream-legacy", cupti.GetStreamIdEx(gpu.context,
						  CU_STREAM_LEGACY, 0, &id));
	code("stream-thread", cupti.GetStreamIdEx(gpu.context, NULL, 1, &id));
	fact("stream-thread-id", "%u", id);
	code("stream-plain", cupti.GetStreamIdEx(gpu.context, gpu.plain, 0,
						 &id));
	fact("stream-plain-id", "%u", id);
	code("stream-high", cupti.GetStreamId(gpu.context, gpu.high, &id));
	fact("stream-high-id", "%u", id);
	gpu_build_graph();
	code("graph", cupti.GetGraphId(gpu.graph, &id));
	fact("graph-id", "%u", id);
	code("graph-exec", cupti.GetGraphExecId(gpu.exec, &id));
	fact("graph-exec-id", "%u", id);
}

static void dump(const char *variant)
{
	static const struct {
		const char *key;
		CUpti_ActivityKind kind;
	} kinds[] = {
		{ "device", CUPTI_ACTIVITY_KIND_DEVICE },
		{ "context", CUPTI_ACTIVITY_KIND_CONTEXT },
		{ "stream", CUPTI_ACTIVITY_KIND_STREAM },
	};

	if (!strcmp(variant, "after-context"))
		gpu_open();
	conf_trace(no_kinds);
	if (!strcmp(variant, "after-init"))
		MUST(cuInit(0));
	for (size_t i = 0; i < 3; i++)
		code(kinds[i].key, cupti.ActivityEnableAndDump(kinds[i].kind));
	conf_settle();
	fact("devices-at-once", "%s",
	     yes(conf_count(CUPTI_ACTIVITY_KIND_DEVICE) > 0));
	if (strcmp(variant, "after-context"))
		gpu_open();
	else
		gpu_empty(NULL);
	conf_settle();
	fact("buffers", "%u", conf_buffer_count);
	conf_print_records("", 0, UINT64_MAX);
}

static void kernel_names(const char *variant)
{
	const char *first = NULL;
	bool equal = true, own_tid = true;

	(void)variant;
	conf_trace(two_kinds);
	gpu_open();
	conf_settle();
	conf_forget();
	for (int i = 0; i < 10; i++)
		gpu_empty(i & 1 ? gpu.plain : NULL);
	conf_settle();
	for (unsigned int i = 0; i < conf_record_count; i++) {
		const struct conf_record *r = &conf_records[i];

		if (r->kind == CUPTI_ACTIVITY_KIND_DRIVER)
			own_tid = own_tid && r->tid == (unsigned int)conf_tid();
		else if (!first)
			first = r->name;
		else
			equal = equal && r->name == first;
	}
	fact("same-pointer", "%s", yes(first && equal));
	fact("tid-is-gettid", "%s", yes(own_tid));
}

#define CODES(n, f, v) { "codes." n, f, v, "codes" }

const struct conf_experiment conf_codes[] = {
	CODES("version", version, ""), CODES("names", names, ""),
	CODES("before-init", before_init, ""),
	CODES("attributes", attributes, "before-init"),
	CODES("attributes-after-init", attributes, "after-init"),
	CODES("enable-unregistered", enable_unregistered, ""),
	CODES("enable-unregistered-init", enable_unregistered, "i"),
	CODES("in-order", in_order, ""), CODES("in-order-init", in_order, "i"),
	CODES("external", external, ""), CODES("ids", ids, ""),
	CODES("dump-before-init", dump, "before-init"),
	CODES("dump-after-init", dump, "after-init"),
	CODES("dump-after-context", dump, "after-context"),
	CODES("kernel-names", kernel_names, ""),
	{ NULL, NULL, NULL, NULL },
};
