// SPDX-License-Identifier: MIT
/* The activity API: what is on, and the functions that turn it on and off. */
#include "test/sim/cupti_sim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_CBID CUPTI_DRIVER_TRACE_CBID_SIZE
#define PUSH_DEPTH 64

static atomic_bool kinds[SIM_KINDS];
static atomic_uchar api_on[2][MAX_CBID];
static atomic_bool all_syncs = true, event_times, latency_times;
static atomic_int thread_id_type;
static atomic_uint graph_trace_since, disables;
static atomic_bool destroyed;
static __thread uint64_t pushed[CUPTI_EXTERNAL_CORRELATION_KIND_SIZE][PUSH_DEPTH];
static __thread unsigned int depth[CUPTI_EXTERNAL_CORRELATION_KIND_SIZE];

static void at_exit(void)
{
	atomic_store(&destroyed, true);
}

__attribute__((constructor)) static void loaded(void)
{
	atexit(at_exit);
}

uint64_t sim_cupti_version(void)
{
	return sim_env_number("SIM_CUPTI_VERSION", 130001);
}

CUptiResult sim_refusal(const char *function)
{
	if (getenv("SIM_SUBSCRIBER") || !sim_claim(&sim_cupti_hooks))
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	/* The version's number was CUDA's own only from 13.0 on. */
	if (sim_cupti_version() / 10000 >
	    sim_env_number("SIM_DRIVER_VERSION", 13000) / 1000)
		return CUPTI_ERROR_NOT_INITIALIZED;
	return (CUptiResult)sim_env_error(function);
}

bool sim_kind_is_on(unsigned int kind)
{
	return kind < SIM_KINDS && atomic_load(&kinds[kind]);
}

bool sim_api_is_on(unsigned int domain, unsigned int cbid)
{
	return domain - 1 < 2 && cbid < MAX_CBID &&
	       atomic_load(&api_on[domain - 1][cbid]);
}

bool sim_all_syncs(void)
{
	return atomic_load(&all_syncs);
}

bool sim_event_times(void)
{
	return atomic_load(&event_times);
}

bool sim_latency_times(void)
{
	return atomic_load(&latency_times);
}

unsigned int sim_graph_trace_since(void)
{
	return atomic_load(&graph_trace_since);
}

unsigned int sim_thread_id(void)
{
	if (atomic_load(&thread_id_type) == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM)
		return (unsigned int)gettid();
	return (unsigned int)(uintptr_t)pthread_self();
}

void sim_attach(void)
{
	sim_cupti_clock_check();
	sim_set_hooks(&sim_cupti_hooks);
}

static void set_api(unsigned int kind, bool on)
{
	unsigned int row = kind == CUPTI_ACTIVITY_KIND_RUNTIME;

	if (kind == CUPTI_ACTIVITY_KIND_DRIVER ||
	    kind == CUPTI_ACTIVITY_KIND_RUNTIME)
		for (unsigned int i = 0; i < MAX_CBID; i++)
			atomic_store(&api_on[row][i], on);
}

/* Kinds that 13.0 has given up: legacy profiler, source level. */
static bool is_legacy(unsigned int kind)
{
	static const unsigned int list[] = {
		CUPTI_ACTIVITY_KIND_EVENT, CUPTI_ACTIVITY_KIND_METRIC,
		CUPTI_ACTIVITY_KIND_SOURCE_LOCATOR,
		CUPTI_ACTIVITY_KIND_GLOBAL_ACCESS, CUPTI_ACTIVITY_KIND_BRANCH,
		CUPTI_ACTIVITY_KIND_EVENT_INSTANCE,
		CUPTI_ACTIVITY_KIND_METRIC_INSTANCE,
		CUPTI_ACTIVITY_KIND_INSTRUCTION_EXECUTION,
		CUPTI_ACTIVITY_KIND_SHARED_ACCESS,
		CUPTI_ACTIVITY_KIND_PC_SAMPLING,
		CUPTI_ACTIVITY_KIND_PC_SAMPLING_RECORD_INFO,
		CUPTI_ACTIVITY_KIND_INSTRUCTION_CORRELATION,
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		if (list[i] == kind)
			return true;
	return false;
}

/* By the headers of 11.8 and 12.4, of 12.8, and of 13.0. */
static unsigned int newest_kind(void)
{
	uint64_t version = sim_cupti_version();

	return version < 26 ? 52 : version < 130000 ? 54 : 55;
}

static CUptiResult check_kind(unsigned int kind)
{
	unsigned int other = kind == CUPTI_ACTIVITY_KIND_KERNEL ?
		CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL :
		CUPTI_ACTIVITY_KIND_KERNEL;

	if (is_legacy(kind))
		return CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED;
	if (!kind || (kind > newest_kind() && kind < SIM_KINDS))
		return CUPTI_ERROR_NOT_COMPATIBLE;
	if ((kind == CUPTI_ACTIVITY_KIND_KERNEL ||
	     kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) &&
	    sim_kind_is_on(other))
		return CUPTI_ERROR_NOT_COMPATIBLE;
	return CUPTI_SUCCESS;
}

/* SIM_SILENT_AFTER: no kind comes on again. */
static bool is_silent(void)
{
	uint64_t after = sim_env_number("SIM_SILENT_AFTER", 0);

	return after && atomic_load(&disables) >= after;
}

static CUptiResult enable(const char *function, CUpti_ActivityKind kind)
{
	CUptiResult r = sim_refusal(function);

	if (!r)
		r = check_kind(kind);
	if (r)
		return r;
	sim_attach();
	if (kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE && !sim_kind_is_on(kind))
		atomic_store(&graph_trace_since, sim_exec_count());
	if ((unsigned int)kind < SIM_KINDS && !is_silent()) {
		atomic_store(&kinds[kind], true);
		set_api(kind, true);
	}
	return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind)
{
	return enable(__func__, kind);
}

SIM_EXPORT CUptiResult CUPTIAPI
cuptiActivityEnableAndDump(CUpti_ActivityKind kind)
{
	CUptiResult r = enable(__func__, kind);

	if (!r && !is_silent())
		sim_dump(kind);
	return r;
}

SIM_EXPORT CUptiResult CUPTIAPI
cuptiActivityEnableContext(CUcontext context, CUpti_ActivityKind kind)
{
	return context ? enable(__func__, kind) :
		CUPTI_ERROR_INVALID_PARAMETER;
}

SIM_EXPORT CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind)
{
	CUptiResult r = sim_refusal(__func__);

	if (r)
		return r;
	/* an H200 crashes here once CUPTI's own destructors have run */
	if (atomic_load(&destroyed))
		raise(SIGSEGV);
	if ((unsigned int)kind >= SIM_KINDS)
		return CUPTI_SUCCESS;
	if (kind == CUPTI_ACTIVITY_KIND_KERNEL ||
	    kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
		atomic_fetch_add(&disables, 1);
	atomic_store(&kinds[kind], false);
	set_api(kind, false);
	return CUPTI_SUCCESS;
}

static CUptiResult enable_id(unsigned int row, unsigned int count,
			     CUpti_CallbackId cbid, uint8_t on)
{
	if (cbid >= count)
		return CUPTI_ERROR_INVALID_PARAMETER;
	sim_attach();
	atomic_store(&api_on[row][cbid], on != 0);
	return CUPTI_SUCCESS;
}

SIM_SINCE(23, cuptiActivityEnableDriverApi, (CUpti_CallbackId cbid, uint8_t on))
{
	CUptiResult r = sim_refusal("cuptiActivityEnableDriverApi");

	return r ? r : enable_id(0, CUPTI_DRIVER_TRACE_CBID_SIZE, cbid, on);
}

SIM_SINCE(23, cuptiActivityEnableRuntimeApi,
	  (CUpti_CallbackId cbid, uint8_t on))
{
	CUptiResult r = sim_refusal("cuptiActivityEnableRuntimeApi");

	return r ? r : enable_id(1, CUPTI_RUNTIME_TRACE_CBID_SIZE, cbid, on);
}

SIM_EXPORT CUptiResult CUPTIAPI
cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
			       CUpti_BuffersCallbackCompleteFunc complete)
{
	CUptiResult r = sim_refusal(__func__);

	if (r)
		return r;
	if (!request || !complete)
		return CUPTI_ERROR_INVALID_PARAMETER;
	sim_buffers_register(request, complete);
	return CUPTI_SUCCESS;
}

/* Waits for the lock that lazy loading holds, as the real one does. */
SIM_EXPORT CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t flag)
{
	CUptiResult r = sim_refusal(__func__);

	if (r)
		return r;
	sim_load_lock();
	sim_load_unlock();
	sim_buffers_flush(flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	return CUPTI_SUCCESS;
}

/* Hands over full buffers only, which the worker does anyway. */
SIM_EXPORT CUptiResult CUPTIAPI cuptiActivityFlushPeriod(uint32_t time)
{
	(void)time;
	return sim_refusal(__func__);
}

SIM_EXPORT CUptiResult CUPTIAPI
cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream,
				  size_t *dropped)
{
	(void)context;
	(void)stream;
	if (!dropped)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*dropped = sim_dropped_take();
	return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult CUPTIAPI
cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid,
			   CUpti_Activity **record)
{
	uint8_t *at = buffer;
	size_t size;

	if (!buffer || !record)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (*record) {
		at = (uint8_t *)*record;
		size = sim_record_size((*record)->kind);
		if (!size)
			return CUPTI_ERROR_INVALID_KIND;
		at += size;
	}
	if (at + sizeof(CUpti_Activity) > buffer + valid)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	if (!sim_record_size(((CUpti_Activity *)at)->kind))
		return CUPTI_ERROR_INVALID_KIND;
	*record = (CUpti_Activity *)at;
	return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult CUPTIAPI
cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
				       uint64_t id)
{
	if (kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE ||
	    depth[kind] >= PUSH_DEPTH)
		return CUPTI_ERROR_INVALID_PARAMETER;
	pushed[kind][depth[kind]++] = id;
	return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult CUPTIAPI
cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
				      uint64_t *last)
{
	if (kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!depth[kind])
		return CUPTI_ERROR_QUEUE_EMPTY;
	depth[kind]--;
	if (last)
		*last = pushed[kind][depth[kind]];
	return CUPTI_SUCCESS;
}

unsigned int sim_push_count(unsigned int kind, uint64_t *top)
{
	if (depth[kind])
		*top = pushed[kind][depth[kind] - 1];
	return depth[kind];
}

SIM_EXPORT CUptiResult CUPTIAPI
cuptiSetThreadIdType(CUpti_ActivityThreadIdType type)
{
	if ((unsigned int)type > CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM)
		return CUPTI_ERROR_NOT_SUPPORTED;
	atomic_store(&thread_id_type, type);
	return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult CUPTIAPI
cuptiGetThreadIdType(CUpti_ActivityThreadIdType *type)
{
	if (!type)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*type = (CUpti_ActivityThreadIdType)atomic_load(&thread_id_type);
	return CUPTI_SUCCESS;
}

/*
 * Of versions: 12.5 for single ids is documented; for the rest, the first of
 * the libraries 11.8.87, 12.4.127, 12.8.90 and 13.0.85 that exports it.
 */
#define SWITCH(since, name, target)                                            \
	SIM_SINCE(since, name, (uint8_t on))                                   \
	{                                                                      \
		CUptiResult r = sim_refusal(#name);                            \
									       \
		if (!r)                                                        \
			atomic_store(&target, on != 0);                        \
		return r;                                                      \
	}

static atomic_bool ignored;

SWITCH(18, cuptiActivityEnableLatencyTimestamps, latency_times)
SWITCH(26, cuptiActivityEnableAllSyncRecords, all_syncs)
SWITCH(130000, cuptiActivityEnableCudaEventDeviceTimestamps, event_times)
SWITCH(18, cuptiActivityEnableLaunchAttributes, ignored)
SWITCH(22, cuptiActivityEnableDeviceGraph, ignored)
SWITCH(26, cuptiActivityEnableAllocationSource, ignored)

SIM_SINCE(26, cuptiActivityEnableHWTrace, (uint8_t on))
{
	(void)on;
	return CUPTI_ERROR_NOT_SUPPORTED;
}

/* There is no managed memory here: nothing is ever counted. */
SIM_EXPORT CUptiResult CUPTIAPI cuptiActivityConfigureUnifiedMemoryCounter(
	CUpti_ActivityUnifiedMemoryCounterConfig *config, uint32_t count)
{
	CUptiResult r = sim_refusal(__func__);

	return r ? r : config && count ? CUPTI_SUCCESS :
		CUPTI_ERROR_INVALID_PARAMETER;
}

SIM_EXPORT CUptiResult CUPTIAPI cuptiFinalize(void)
{
	CUptiResult r = sim_refusal(__func__);

	if (r)
		return r;
	sim_set_hooks(NULL);
	for (unsigned int i = 0; i < SIM_KINDS; i++)
		atomic_store(&kinds[i], false);
	set_api(CUPTI_ACTIVITY_KIND_DRIVER, false);
	set_api(CUPTI_ACTIVITY_KIND_RUNTIME, false);
	sim_callbacks_forget();
	sim_buffers_forget();
	return CUPTI_SUCCESS;
}
