/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TEST_FUZZ_CUPTI_H
#define GPUTRACE_TEST_FUZZ_CUPTI_H

/*
 * Stands for CUPTI: the sizes of its records, version by version (those of the
 * simulated one), the walk over a buffer, records made from the input.
 */
#include "test/fuzz/fuzz.h"
#include "test/sim/cupti_layout.c"

#include "collector/activity.h"
#include "collector/activity_buffer.h"
#include "collector/cupti_advice.h"
#include "collector/cupti_api.h"

uint64_t sim_cupti_version(void)
{
	return 130001;
}

static const uint32_t fuzz_versions[] = {
	18, 19, 20, 21, 22, 23, 24, 26, 130000, 130100, 0, UINT32_MAX,
};
static uint32_t fuzz_version;

static inline void take_version(struct input *in)
{
	fuzz_version = fuzz_versions[take(in, 1) % (sizeof(fuzz_versions) /
						    sizeof(*fuzz_versions))];
	activity_set_version(fuzz_version);
}

/* Where a kind's members stand: times, correlation, the pointer to a text. */
struct members {
	uint8_t start, end, correlation, text;
};

static inline struct members members_of(uint32_t kind)
{
	static const struct members table[SIM_KINDS] = {
		[ACTIVITY_KERNEL] = { 16, 24, 92, 104 },
		[ACTIVITY_CONCURRENT_KERNEL] = { 16, 24, 92, 104 },
		[ACTIVITY_MEMCPY] = { 16, 24, 44, 0 },
		[ACTIVITY_MEMCPY2] = { 16, 24, 60, 0 },
		[ACTIVITY_MEMSET] = { 16, 24, 44, 0 },
		[ACTIVITY_GRAPH_TRACE] = { 8, 16, 4, 0 },
		[ACTIVITY_RUNTIME] = { 8, 16, 32, 0 },
		[ACTIVITY_DRIVER] = { 8, 16, 32, 0 },
		[ACTIVITY_INTERNAL_LAUNCH] = { 8, 16, 32, 0 },
		[ACTIVITY_SYNC] = { 8, 16, 24, 0 },
		[ACTIVITY_CUDA_EVENT] = { 0, 0, 4, 0 },
		[ACTIVITY_OVERHEAD] = { 24, 32, 0, 0 },
		[ACTIVITY_JIT] = { 16, 24, 32, 0 },
		[ACTIVITY_MEMORY2] = { 32, 0, 12, 0 },
		[ACTIVITY_MEMORY_POOL] = { 56, 0, 12, 0 },
		[ACTIVITY_UNIFIED_MEMORY] = { 16, 24, 0, 0 },
		[ACTIVITY_MEM_DECOMPRESS] = { 48, 56, 24, 0 },
		[ACTIVITY_DEVICE] = { 0, 0, 0, 136 },
	};

	return kind < SIM_KINDS ? table[kind] : (struct members){ 0 };
}

static inline size_t fuzz_record_size(uint32_t kind)
{
	size_t i;

	/* 13.1 added the priority; the layouts here are those of 13.0. */
	if (fuzz_version >= 130100 && (kind == ACTIVITY_KERNEL ||
				       kind == ACTIVITY_CONCURRENT_KERNEL))
		return sizeof(CUpti_ActivityKernel10) + 8;
	for (i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
		if (layouts[i].kind == kind &&
		    fuzz_version >= layouts[i].since)
			return layouts[i].size;
	/* Those that the simulated one never writes. */
	return kind == ACTIVITY_UNIFIED_MEMORY ?
		sizeof(CUpti_ActivityUnifiedMemoryCounter3) :
		kind == ACTIVITY_MEM_DECOMPRESS ?
		sizeof(CUpti_ActivityMemDecompress) :
		kind == ACTIVITY_INTERNAL_LAUNCH ?
		sizeof(CUpti_ActivityAPI) : 24;
}

static inline uint64_t get_u64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/* One bit of `flags` each: what random bytes would never hit. */
enum { NEAR_TIMES = 1, FEW_CORRELATIONS = 2, HAS_TEXT = 4 };

/* Fills `record` (fuzz_record_size() bytes) with the next of the input. */
static inline void take_record(struct input *in, uint32_t kind, uint8_t *record,
			       unsigned int flags, uint64_t t_ns,
			       const char *text)
{
	struct members at = members_of(kind);
	size_t size = fuzz_record_size(kind), len = take(in, 1);
	const uint8_t *from;
	uint64_t time;
	uint32_t id;

	memset(record, 0, size);
	memcpy(record, &kind, sizeof(kind));
	len = len < size - 4 ? len : size - 4;
	from = take_bytes(in, &len);
	memcpy(record + 4, from, len);
	if (at.text) {
		if (!(flags & HAS_TEXT))
			text = NULL;
		memcpy(record + at.text, &text, sizeof(text));
	}
	if (flags & NEAR_TIMES && at.start) {
		time = t_ns + (get_u64(record + at.start) & 0xFFFFFF);
		memcpy(record + at.start, &time, sizeof(time));
		if (at.end)
			time += get_u64(record + at.end) & 0xFFFFF;
		if (at.end)
			memcpy(record + at.end, &time, sizeof(time));
	}
	if (flags & FEW_CORRELATIONS && at.correlation) {
		memcpy(&id, record + at.correlation, sizeof(id));
		id &= 15;
		memcpy(record + at.correlation, &id, sizeof(id));
	}
}

/* As CUPTI walks, by the sizes of the version that filled the buffer. */
static CUptiResult fuzz_next(uint8_t *buffer, size_t valid,
			     CUpti_Activity **record)
{
	uint8_t *at = (uint8_t *)*record;

	at = at ? at + fuzz_record_size(*(uint32_t *)(void *)at) : buffer;
	if (at == buffer + valid)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	if (at + 8 > buffer + valid ||
	    at + fuzz_record_size(*(uint32_t *)(void *)at) > buffer + valid)
		return CUPTI_ERROR_INVALID_KIND;
	*record = (CUpti_Activity *)(void *)at;
	return CUPTI_SUCCESS;
}

static CUptiResult fuzz_call_name(CUpti_CallbackDomain domain, uint32_t id,
				  const char **name)
{
	static const char *const names[] = {
		"cudaLaunchKernel_v7000", "cuMemcpyHtoD_v2", "a \"call\"\n",
		"\xff", "", "_v7000",
	};

	(void)domain;
	if (id % 8 > 5)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*name = names[id % 8];
	return CUPTI_SUCCESS;
}

const struct cupti_api *cupti_api(void)
{
	static struct cupti_api api = {
		.ActivityGetNextRecord = fuzz_next,
		.GetCallbackName = fuzz_call_name,
	};

	return &api;
}

/* The rest of cupti_api.c that the library asks for. */
bool cupti_stream_id(void *stream, uint32_t *id)
{
	*id = (uint32_t)(uintptr_t)stream;
	return true;
}

bool cupti_context_id(void *context, uint32_t *id)
{
	return cupti_stream_id(context, id);
}

/* A line on stderr, and CUPTI's own opinion of the GPU. */
void cupti_advice_device(uint32_t major, uint32_t minor)
{
	(void)major;
	(void)minor;
}

#endif
