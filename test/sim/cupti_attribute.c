// SPDX-License-Identifier: MIT
/* Activity attributes, with the defaults of 13.0. */
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

#define COUNT (sizeof(attributes) / sizeof(attributes[0]))

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
	if (!size || !out || (size_t)id >= COUNT)
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
	if (!size || !in || (size_t)id >= COUNT)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (*size < attributes[id].size)
		return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
	memcpy(&value, in, attributes[id].size);
	atomic_store(&attributes[id].value, value);
	return CUPTI_SUCCESS;
}
