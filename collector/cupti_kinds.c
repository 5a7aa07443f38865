/* SPDX-License-Identifier: MIT */
#include "collector/cupti_kinds.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "collector/api_calls.h"
#include "collector/cupti_advice.h"
#include "collector/cupti_api.h"
#include "collector/log.h"

enum wanted_by {
	BY_ALWAYS,
	BY_CUDA,        /* of GPUTRACE_TRACE */
	BY_API,         /* GPUTRACE_API is not none */
	BY_GRAPH_LEVEL, /* GPUTRACE_GRAPH=graph */
	BY_MEMORY,      /* of GPUTRACE_TRACE */
	BY_UVM,
	NR_WANTED_BY,
};

static const struct kind {
	CUpti_ActivityKind kind;
	const char *name;
	enum wanted_by by;
	bool required;
	bool dump;      /* objects that exist already are told, too */
} kinds[] = {
	{ CUPTI_ACTIVITY_KIND_DEVICE, "devices", BY_ALWAYS, false, true },
	{ CUPTI_ACTIVITY_KIND_CONTEXT, "contexts", BY_ALWAYS, false, true },
	{ CUPTI_ACTIVITY_KIND_STREAM, "streams", BY_ALWAYS, false, true },
	{ CUPTI_ACTIVITY_KIND_GRAPH_TRACE, "graphs", BY_GRAPH_LEVEL, false,
	  false },
	{ CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels", BY_CUDA, true,
	  false },
	{ CUPTI_ACTIVITY_KIND_MEMCPY, "copies", BY_CUDA, false, false },
	{ CUPTI_ACTIVITY_KIND_MEMCPY2, "peer copies", BY_CUDA, false,
	  false },
	{ CUPTI_ACTIVITY_KIND_MEMSET, "sets", BY_CUDA, false, false },
	{ CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "synchronisation", BY_CUDA,
	  false, false },
	{ CUPTI_ACTIVITY_KIND_CUDA_EVENT, "events", BY_CUDA, false, false },
	{ CUPTI_ACTIVITY_KIND_OVERHEAD, "overhead", BY_CUDA, false, false },
	{ CUPTI_ACTIVITY_KIND_JIT, "JIT", BY_CUDA, false, false },
	{ CUPTI_ACTIVITY_KIND_MEMORY2, "memory", BY_MEMORY, false, false },
	{ CUPTI_ACTIVITY_KIND_MEMORY_POOL, "memory pools", BY_MEMORY, false,
	  false },
	{ CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER, "unified memory",
	  BY_UVM, false, false },
	{ CUPTI_ACTIVITY_KIND_RUNTIME, "runtime calls", BY_API, false, false },
	{ CUPTI_ACTIVITY_KIND_DRIVER, "driver calls", BY_API, false, false },
};

#define NR_KINDS (sizeof kinds / sizeof *kinds)

static struct cupti_options options;
static bool selected[NR_WANTED_BY], graph_level_is_over;

static void disable_of(enum wanted_by by)
{
	for (size_t i = NR_KINDS; i-- > 0; )
		if (kinds[i].by == by)
			cupti_api()->ActivityDisable(kinds[i].kind);
}

int cupti_kinds_explain(CUptiResult result, const char *lost)
{
	char advice[1024];

	if (result == CUPTI_SUCCESS)
		return 0;
	cupti_advice(result, advice, sizeof advice);
	log_line(LOG_WARN, "not tracing: %s: %s (%d): %s", lost,
		 cupti_text(result), (int)result, advice);
	return -EPROTO;
}

void cupti_kinds_select(const struct cupti_options *given)
{
	options = *given;
	cupti_kinds_choose(NULL);
}

void cupti_kinds_choose(const struct cupti_choice *choice)
{
	struct cupti_choice all = { .cuda = true, .memory = options.memory,
				    .uvm = options.uvm };
	bool wanted[NR_WANTED_BY];

	if (!choice)
		choice = &all;
	wanted[BY_ALWAYS] = true;
	wanted[BY_CUDA] = choice->cuda;
	wanted[BY_API] = choice->cuda && !options.api_none;
	/* Enabled late it crashes the program at its next graph launch; the
	 * caller asks for it only inside cuInit. */
	wanted[BY_GRAPH_LEVEL] = options.graph_level && !graph_level_is_over;
	wanted[BY_MEMORY] = choice->memory;
	wanted[BY_UVM] = choice->uvm;
	/* Some may still be on, of a window that has just closed. */
	for (int i = 0; i < NR_WANTED_BY; i++)
		if (selected[i] && !wanted[i])
			disable_of((enum wanted_by)i);
	memcpy(selected, wanted, sizeof selected);
}

static void leave_out_runtime(uint32_t cbid)
{
	cupti_api()->ActivityEnableRuntimeApi(cbid, 0);
}

static void leave_out_driver(uint32_t cbid)
{
	cupti_api()->ActivityEnableDriverApi(cbid, 0);
}

/* After the kind is on: enabling the kind would turn the ids on again. */
static void leave_out_denied(void)
{
	if (cupti_api()->ActivityEnableRuntimeApi)
		api_each_denied(true, leave_out_runtime);
	if (cupti_api()->ActivityEnableDriverApi)
		api_each_denied(false, leave_out_driver);
	/* Polling with cudaEventQuery would flood the buffers. */
	if (cupti_api()->ActivityEnableAllSyncRecords)
		cupti_api()->ActivityEnableAllSyncRecords(0);
}

static CUptiResult configure_uvm(void)
{
	CUpti_ActivityUnifiedMemoryCounterConfig config[] = {
		{ .kind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD },
		{ .kind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH },
		{ .kind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT },
		{ .kind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT },
	};
	uint32_t nr = sizeof config / sizeof *config;

	for (uint32_t i = 0; i < nr; i++) {
		config[i].scope =
			CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_SINGLE_DEVICE;
		config[i].enable = 1;
	}
	if (!selected[BY_UVM] ||
	    !cupti_api()->ActivityConfigureUnifiedMemoryCounter)
		return CUPTI_SUCCESS;
	return cupti_api()->ActivityConfigureUnifiedMemoryCounter(config, nr);
}

/* "copies, sets": added at the end of what is missing already. */
static void add_missing(char *missing, size_t size, const char *name)
{
	size_t len = strlen(missing);

	snprintf(missing + len, size - len, "%s%s", len ? ", " : "", name);
}

/* A kind that this version of CUPTI does not have is no failure. */
static bool is_unknown(CUptiResult result)
{
	return result == CUPTI_ERROR_INVALID_KIND ||
		result == CUPTI_ERROR_NOT_COMPATIBLE ||
		result == CUPTI_ERROR_NOT_SUPPORTED;
}

int cupti_kinds_enable(void)
{
	const struct cupti_api *api = cupti_api();
	CUptiResult result, reason = configure_uvm();
	char missing[256] = "";         /* all names of the table fit */

	if (reason)
		add_missing(missing, sizeof missing, "counters of unified memory");
	for (size_t i = 0; i < NR_KINDS; i++) {
		if (!selected[kinds[i].by])
			continue;
		result = kinds[i].dump && api->ActivityEnableAndDump ?
			api->ActivityEnableAndDump(kinds[i].kind) :
			api->ActivityEnable(kinds[i].kind);
		if (result == CUPTI_SUCCESS)
			continue;
		if (kinds[i].required ||
		    result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
			cupti_kinds_disable();
			return cupti_kinds_explain(result, kinds[i].name);
		}
		log_line(LOG_INFO, "without %s: %s", kinds[i].name,
			 cupti_text(result));
		if (is_unknown(result))
			continue;
		add_missing(missing, sizeof missing, kinds[i].name);
		reason = result;
	}
	if (reason)
		log_line(LOG_WARN, "CUPTI refuses, so these are missing: %s: "
			 "%s (%d)", missing, cupti_text(reason), (int)reason);
	leave_out_denied();
	return 0;
}

void cupti_kinds_disable(void)
{
	for (size_t i = NR_KINDS; i-- > 0; )
		if (selected[kinds[i].by])
			cupti_api()->ActivityDisable(kinds[i].kind);
	/* Never on again: enabled late it crashes (see choose). */
	selected[BY_GRAPH_LEVEL] = false;
	graph_level_is_over = true;
}
