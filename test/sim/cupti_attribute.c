// SPDX-License-Identifier: MIT
/* Activity attributes, with the defaults of the version. */
#include "test/sim/cupti_sim.h"

#include <stdatomic.h>
#include <string.h>

struct attribute {
	size_t size;
	atomic_uint_fast64_t value;
};

static struct attribute attributes[] = {
	[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE] = { 8, 3200000 },
	[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_CDP] = { 8, 8 << 20 },
	[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT] = { 8, 250 },
	[CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_SIZE] = { 8, 25000 },
	[CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_LIMIT] = { 8, 250 },
	[CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER] = { 1, 0 },
	[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE] = { 8, 3 },
	[CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_PRE_ALLOCATE_VALUE] = { 8, 3 },
	[CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED] = { 1, 0 },
	[CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER] = { 1, 1 },
	[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_DEVICE_GRAPHS] = { 8, 16 << 20 },
};

/* 11.8 ends before the buffers of threads (12.3), 12.8 behind them. */
static size_t count(void)
{
	uint64_t version = sim_cupti_version();

	if (version < 21)
		return CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER;
	if (version < 27)
		return CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_DEVICE_GRAPHS;
	return sizeof(attributes) / sizeof(attributes[0]);
}

/* The default was 0 in 12.4, 1 in 13.0; between them nobody looked. */
__attribute__((constructor)) static void set_defaults(void)
{
	if (sim_cupti_version() < 130000)
		attributes[CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER]
			.value = 0;
}

bool sim_attribute_per_thread(void)
{
	return atomic_load(&attributes[
		CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER].value);
}

bool sim_attribute_zeroed(void)
{
	return atomic_load(&attributes[
		CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER].value);
}

SIM_EXPORT CUptiResult CUPTIAPI
cuptiActivityGetAttribute(CUpti_ActivityAttribute id, size_t *size, void *out)
{
	CUptiResult r = sim_refusal(__func__);
	uint64_t value;

	if (r)
		return r;
	if (!size || !out || (size_t)id >= count())
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (*size < attributes[id].size)
		return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
	*size = attributes[id].size;
	value = atomic_load(&attributes[id].value);
	memcpy(out, &value, *size);
	return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult CUPTIAPI
cuptiActivitySetAttribute(CUpti_ActivityAttribute id, size_t *size, void *in)
{
	CUptiResult r = sim_refusal(__func__);
	uint64_t value = 0;

	if (r)
		return r;
	if (!size || !in || (size_t)id >= count())
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (*size < attributes[id].size)
		return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
	memcpy(&value, in, attributes[id].size);
	atomic_store(&attributes[id].value, value);
	return CUPTI_SUCCESS;
}
