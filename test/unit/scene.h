/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TEST_SCENE_H
#define GPUTRACE_TEST_SCENE_H

/*
 * Scenes for the writer: activities in CUPTI's own layout (13.0: offsets from
 * cupti_activity.h, not from our decoder), put into buffers of the pool; and
 * NVTX records in the ring of a thread.  CUPTI's walk over a buffer is played
 * here, by the sizes of the structures.
 */
#include <cupti.h>
#include <stdint.h>
#include <string.h>

#include "collector/activity.h"
#include "collector/clock.h"
#include "collector/cupti_api.h"
#include "collector/pool.h"
#include "collector/record.h"
#include "collector/ring.h"
#include "collector/thread.h"
#include "collector/window.h"

static size_t scene_record_size(uint32_t kind)
{
	switch (kind) {
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		return sizeof(CUpti_ActivityKernel10);
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		return sizeof(CUpti_ActivityMemcpy6);
	case CUPTI_ACTIVITY_KIND_MEMSET:
		return sizeof(CUpti_ActivityMemset4);
	case CUPTI_ACTIVITY_KIND_RUNTIME:
	case CUPTI_ACTIVITY_KIND_DRIVER:
		return sizeof(CUpti_ActivityAPI);
	case CUPTI_ACTIVITY_KIND_DEVICE:
		return sizeof(CUpti_ActivityDevice5);
	case CUPTI_ACTIVITY_KIND_CONTEXT:
		return sizeof(CUpti_ActivityContext3);
	case CUPTI_ACTIVITY_KIND_STREAM:
		return sizeof(CUpti_ActivityStream);
	case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
		return sizeof(CUpti_ActivitySynchronization2);
	case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
		return sizeof(CUpti_ActivityCudaEvent2);
	case CUPTI_ACTIVITY_KIND_OVERHEAD:
		return sizeof(CUpti_ActivityOverhead3);
	case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
		return sizeof(CUpti_ActivityGraphTrace2);
	case CUPTI_ACTIVITY_KIND_MEMORY2:
		return sizeof(CUpti_ActivityMemory4);
	case CUPTI_ACTIVITY_KIND_JIT:
		return sizeof(CUpti_ActivityJit2);
	default:
		return 0;
	}
}

static CUptiResult scene_next(uint8_t *buffer, size_t valid,
			      CUpti_Activity **record)
{
	uint8_t *at = (uint8_t *)*record;

	at = at ? at + scene_record_size(*(uint32_t *)(void *)at) : buffer;
	if (at >= buffer + valid)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = (CUpti_Activity *)(void *)at;
	return CUPTI_SUCCESS;
}

static CUptiResult scene_name(CUpti_CallbackDomain domain, uint32_t id,
			      const char **name)
{
	(void)domain;
	*name = id == CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000 ?
		"cudaLaunchKernel_v7000" :
		id == CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020 ?
		"cudaMemcpyAsync_v3020" :
		id == CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000 ?
		"cudaGraphLaunch_v10000" :
		id == CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020 ?
		"cudaEventRecord_v3020" :
		id == CUPTI_RUNTIME_TRACE_CBID_cudaGraphInstantiate_v12000 ?
		"cudaGraphInstantiate_v12000" :
		id == CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags ?
		"cuGraphInstantiateWithFlags" :
		id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel ?
		"cuLaunchKernel" : "cudaStreamSynchronize_v3020";
	return CUPTI_SUCCESS;
}

/* Stands for CUPTI in this program. */
const struct cupti_api *cupti_api(void)
{
	static struct cupti_api api = {
		.ActivityGetNextRecord = scene_next,
		.GetCallbackName = scene_name,
	};

	return &api;
}

/* The rest of cupti_api.c that the library asks for. */
bool cupti_stream_id(void *stream, uint32_t *id)
{
	(void)stream;
	*id = 0;
	return false;
}

bool cupti_context_id(void *context, uint32_t *id)
{
	return cupti_stream_id(context, id);
}

/* No advice: there is no CUPTI to ask about a GPU. */
void cupti_advice_device(uint32_t major, uint32_t minor)
{
	(void)major;
	(void)minor;
}

static struct {
	uint8_t *data;
	size_t used;
	uint64_t t_ns;          /* the scene's zero */
} scene;

static void scene_flush(void)
{
	if (scene.data)
		pool_complete(scene.data, scene.used);
	scene.data = NULL;
	scene.used = 0;
}

static void *scene_room(uint32_t kind)
{
	size_t size = scene_record_size(kind);
	void *at;

	if (scene.data && scene.used + size > POOL_BUFFER_SIZE)
		scene_flush();
	if (!scene.data)
		scene.data = pool_take(0, &(size_t){0});
	at = scene.data + scene.used;
	scene.used += size;
	memset(at, 0, size);
	*(uint32_t *)at = kind;
	return at;
}

static inline void scene_call(uint32_t kind, uint32_t cbid, uint32_t tid,
			      uint32_t correlation, uint64_t start_ns,
			      uint64_t end_ns)
{
	CUpti_ActivityAPI *api = scene_room(kind);

	api->cbid = cbid;
	api->start = scene.t_ns + start_ns;
	api->end = scene.t_ns + end_ns;
	api->threadId = tid;
	api->correlationId = correlation;
}

static inline void scene_launch(uint32_t tid, uint32_t correlation,
				uint64_t start_ns, uint64_t end_ns)
{
	scene_call(CUPTI_ACTIVITY_KIND_RUNTIME,
		   CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, tid,
		   correlation, start_ns, end_ns);
}

static inline CUpti_ActivityKernel10 *scene_kernel(const char *name,
						   uint32_t stream,
						   uint32_t correlation,
						   uint64_t start_ns,
						   uint64_t end_ns)
{
	CUpti_ActivityKernel10 *kernel;

	kernel = scene_room(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	kernel->name = name;
	kernel->start = scene.t_ns + start_ns;
	kernel->end = scene.t_ns + end_ns;
	kernel->deviceId = 0;
	kernel->contextId = 1;
	kernel->streamId = stream;
	kernel->correlationId = correlation;
	kernel->gridX = 64;
	kernel->gridY = kernel->gridZ = 1;
	kernel->blockX = 128;
	kernel->blockY = kernel->blockZ = 1;
	kernel->registersPerThread = 32;
	return kernel;
}

static inline CUpti_ActivityMemcpy6 *scene_copy(uint32_t stream,
						uint32_t correlation,
						uint64_t start_ns,
						uint64_t end_ns,
						uint64_t bytes)
{
	CUpti_ActivityMemcpy6 *copy = scene_room(CUPTI_ACTIVITY_KIND_MEMCPY);

	copy->copyKind = 1;
	copy->srcKind = 1;
	copy->dstKind = 3;
	copy->bytes = bytes;
	copy->start = scene.t_ns + start_ns;
	copy->end = scene.t_ns + end_ns;
	copy->contextId = 1;
	copy->streamId = stream;
	copy->correlationId = correlation;
	return copy;
}

/* An H200 as cudaGetDeviceProperties tells of it. */
static inline void scene_device(void)
{
	CUpti_ActivityDevice5 *device;
	CUpti_ActivityContext3 *context;

	device = scene_room(CUPTI_ACTIVITY_KIND_DEVICE);
	device->id = 0;
	device->name = "NVIDIA H200";
	device->globalMemorySize = UINT64_C(150109880320);
	device->numMultiprocessors = 132;
	device->numThreadsPerWarp = 32;
	device->maxWarpsPerMultiprocessor = 64;
	device->maxBlocksPerMultiprocessor = 32;
	device->maxSharedMemoryPerMultiprocessor = 233472;
	device->maxRegistersPerMultiprocessor = 65536;
	device->maxRegistersPerBlock = 65536;
	device->maxSharedMemoryPerBlock = 49152;
	device->maxThreadsPerBlock = 1024;
	device->computeCapabilityMajor = 9;
	context = scene_room(CUPTI_ACTIVITY_KIND_CONTEXT);
	context->contextId = 1;
	context->nullStreamId = 7;
}

/* ---- NVTX ---- */

static inline struct range_record *scene_range(uint32_t kind, uint64_t t_ns,
					       uint64_t id, const char *text)
{
	size_t len = text ? strlen(text) : 0;
	uint32_t size = (uint32_t)(sizeof(struct range_record) + len + 7) &
		~7u;
	struct range_record *record;

	record = ring_reserve(thread_ring(thread_self()), size);
	if (!record)
		return NULL;
	memset(record, 0, sizeof(*record));
	record->head.kind = (uint16_t)kind;
	record->head.size = (uint16_t)size;
	record->head.len = (uint32_t)len;
	record->head.t_ns = scene.t_ns + t_ns;
	record->id = id;
	if (len)
		memcpy(record->text, text, len);
	return record;
}

static inline void scene_commit(void)
{
	ring_commit(thread_ring(thread_self()));
}

static inline void scene_push(uint64_t t_ns, uint64_t level, const char *text)
{
	scene_range(RECORD_RANGE_PUSH, t_ns, level, text);
	scene_commit();
}

static inline void scene_pop(uint64_t t_ns, uint64_t level)
{
	scene_range(RECORD_RANGE_POP, t_ns, level, NULL);
	scene_commit();
}

/* ring.h's room for a thread, a window that is open, a pool. */
static inline void scene_begin(void)
{
	clock_init();
	thread_limit(64 << 20);
	pool_init(64 << 20);
	window_open();
	scene.t_ns = clock_now_ns();
}

#endif
