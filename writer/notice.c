/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "writer/trace.h"

/*
 * What the watchdog (collector/watch.h) is told of each activity.
 */
enum call_kind { CALL_UNKNOWN, CALL_OTHER, CALL_KERNEL, CALL_GRAPH,
		 CALL_CAPTURE, CALL_INSTANCE };

static enum call_kind find_call_kind(bool is_runtime, uint32_t cbid)
{
	const char *name = activity_api_name(is_runtime, cbid);

	if (strstr(name, "BeginCapture") || strstr(name, "EndCapture"))
		return CALL_CAPTURE;
	if (strstr(name, "GraphInstantiate"))
		return CALL_INSTANCE;
	if (strstr(name, "GraphLaunch"))
		return CALL_GRAPH;
	return strstr(name, "Launch") && strstr(name, "Kernel") ? CALL_KERNEL :
		CALL_OTHER;
}

static enum call_kind call_kind(struct trace *trace, bool is_runtime,
				uint32_t cbid)
{
	uint8_t *known;

	if (cbid >= NOTICE_CBID_MAX)
		return CALL_OTHER;
	known = &trace->call_kinds[is_runtime][cbid];
	if (*known == CALL_UNKNOWN)
		*known = (uint8_t)find_call_kind(is_runtime, cbid);
	return (enum call_kind)*known;
}

static void notice_call(struct trace *trace, const void *raw)
{
	struct watch_counts *counts = &trace->noticed;
	struct activity activity;
	const struct api_call *call = &activity.api;
	enum call_kind kind;

	if (!activity_decode(raw, &activity))
		return;
	kind = call_kind(trace, activity.kind == ACTIVITY_RUNTIME, call->cbid);
	/* A capture that was spoilt ends with a failure. */
	if (kind == CALL_CAPTURE)
		counts->captures++;
	if (call->result)
		return;
	counts->launches += kind == CALL_KERNEL;
	counts->graphs += kind == CALL_GRAPH;
	counts->instances += kind == CALL_INSTANCE;
}

static void notice_kernel(struct trace *trace, const void *raw, bool is_forced)
{
	struct watch_counts *counts = &trace->noticed;
	uint64_t start_ns = activity_gpu_start_ns(raw);
	uint64_t end_ns = activity_gpu_end_ns(raw);

	counts->kernels++;
	counts->plain += counts->instances && !activity_kernel_graph_id(raw);
	if (!start_ns || !end_ns)
		counts->no_time += !is_forced;
	else
		counts->reversed += end_ns < start_ns;
}

void notice_activity(struct trace *trace, const void *raw, bool is_forced)
{
	enum activity_kind kind = activity_kind(raw);

	trace->noticed.activities++;
	trace->noticed.work += activity_is_gpu_work(kind);
	if (kind == ACTIVITY_KERNEL || kind == ACTIVITY_CONCURRENT_KERNEL)
		notice_kernel(trace, raw, is_forced);
	else if (kind == ACTIVITY_RUNTIME || kind == ACTIVITY_DRIVER)
		notice_call(trace, raw);
}
