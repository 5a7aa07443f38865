/* SPDX-License-Identifier: MIT */
/*
 * Decoding by offset against the structures of CUPTI's own headers: each
 * field is set through the header's structure and must come out under our
 * name.  An older version's shorter record must not be read past its end.
 */
#include "collector/activity.h"

#include <cupti.h>
#include <string.h>

#include "test/check.h"

static struct activity out;

#define DECODE(record) \
	do { \
		memset(&out, 0x55, sizeof out); \
		CHECK(activity_decode(&(record), &out)); \
	} while (0)

static void test_kernel(void)
{
	CUpti_ActivityKernel10 r = {
		.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
		.registersPerThread = 77, .start = 1001, .end = 2002,
		.deviceId = 3, .contextId = 4, .streamId = 5,
		.gridX = 6, .gridY = 7, .gridZ = 8,
		.blockX = 9, .blockY = 10, .blockZ = 11,
		.staticSharedMemory = 12, .dynamicSharedMemory = 13,
		.localMemoryPerThread = 14, .correlationId = 15,
		.name = "_Z4spinv", .queued = 16, .submitted = 17,
		.launchType = 1, .sharedMemoryExecuted = 18,
		.graphNodeId = 19, .graphId = 20, .channelID = 21,
		.channelType = CUPTI_CHANNEL_TYPE_COMPUTE,
		.clusterX = 22, .clusterY = 23, .clusterZ = 24,
		.clusterSchedulingPolicy = 25, .localMemoryTotal_v2 = 26,
		.maxPotentialClusterSize = 27, .maxActiveClusters = 28,
		.isDeviceLaunched = 1,
	};
	const struct kernel *k = &out.kernel;

	activity_set_version(130001);
	DECODE(r);
	CHECK_EQ(out.kind, ACTIVITY_CONCURRENT_KERNEL);
	CHECK_EQ(k->registers, 77);
	CHECK_EQ(k->op.start_ns, 1001);
	CHECK_EQ(k->op.end_ns, 2002);
	CHECK_EQ(k->op.device, 3);
	CHECK_EQ(k->op.context, 4);
	CHECK_EQ(k->op.stream, 5);
	CHECK(k->grid[0] == 6 && k->grid[1] == 7 && k->grid[2] == 8);
	CHECK(k->block[0] == 9 && k->block[1] == 10 && k->block[2] == 11);
	CHECK(k->static_smem == 12 && k->dynamic_smem == 13);
	CHECK_EQ(k->local_per_thread, 14);
	CHECK_EQ(k->op.correlation, 15);
	CHECK(!strcmp(k->name, "_Z4spinv"));
	CHECK(k->queued_ns == 16 && k->submitted_ns == 17);
	CHECK(k->launch_type == 1 && k->smem_executed == 18);
	CHECK(k->op.graph_node_id == 19 && k->op.graph_id == 20);
	CHECK(k->op.channel == 21 && k->op.channel_type == 1);
	CHECK(k->cluster[0] == 22 && k->cluster[1] == 23 &&
	      k->cluster[2] == 24 && k->cluster_scheduling == 25);
	CHECK_EQ(k->local_total, 26);
	CHECK(k->max_cluster == 27 && k->max_active_clusters == 28);
	CHECK_EQ(k->is_device_launched, 1);
	CHECK_EQ(k->priority, INT32_MIN);       /* since 13.1 */
}

/* A record of 11.8 has 200 bytes: what follows is not ours to read. */
static void test_kernel_118(void)
{
	uint8_t record[256];

	memset(record, 0xee, sizeof record);
	*(uint32_t *)record = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
	memset(record + 104, 0, 8);
	activity_set_version(18);
	DECODE(record);
	CHECK_EQ(out.kernel.max_cluster, 0);
	CHECK_EQ(out.kernel.max_active_clusters, 0);
	CHECK_EQ(out.kernel.is_device_launched, 0);
	CHECK(!strcmp(out.kernel.name, ""));
	activity_set_version(130001);
}

/* The rest that later versions appended, likewise. */
static void test_others_118(void)
{
	uint8_t record[256];
	uint32_t *kind = (uint32_t *)record;

	for (unsigned int i = 0; i < sizeof record; i++)
		record[i] = (uint8_t)i;
	activity_set_version(18);
	*kind = CUPTI_ACTIVITY_KIND_MEMCPY;
	DECODE(record);
	CHECK_EQ(out.copy.count, 1);
	*kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
	DECODE(record);
	CHECK_EQ(out.graph.end_device, out.graph.op.device);
	CHECK_EQ(out.graph.end_context, out.graph.op.context);
	*kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
	DECODE(record);
	CHECK(!out.sync.event_sync_id && !out.sync.result);
	*kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
	DECODE(record);
	CHECK_EQ(out.event.event_sync_id, 0);
	*kind = CUPTI_ACTIVITY_KIND_CONTEXT;
	DECODE(record);
	CHECK(!out.context.parent && !out.context.is_green &&
	      !out.context.nr_sm);
	*kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
	DECODE(record);
	CHECK_EQ(out.overhead.correlation, 0);
	*kind = CUPTI_ACTIVITY_KIND_JIT;
	DECODE(record);
	CHECK(!out.jit.pid && !out.jit.tid);
	/* 12.4: half of these are there */
	activity_set_version(22);
	*kind = CUPTI_ACTIVITY_KIND_CONTEXT;
	DECODE(record);
	CHECK(out.context.parent && out.context.is_green &&
	      !out.context.nr_sm);
	*kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
	DECODE(record);
	CHECK(!out.sync.event_sync_id && !out.sync.result);
	activity_set_version(130001);
}

static void test_copies(void)
{
	CUpti_ActivityMemcpy6 r = {
		.kind = CUPTI_ACTIVITY_KIND_MEMCPY, .copyKind = 1,
		.srcKind = 2, .dstKind = 3, .flags = 1, .bytes = 4,
		.start = 5, .end = 6, .deviceId = 7, .contextId = 8,
		.streamId = 9, .correlationId = 10, .graphNodeId = 11,
		.graphId = 12, .channelID = 13, .channelType = 2,
		.copyCount = 14,
	};
	CUpti_ActivityMemcpyPtoP4 p = {
		.kind = CUPTI_ACTIVITY_KIND_MEMCPY2, .copyKind = 10,
		.bytes = 1, .start = 2, .end = 3, .deviceId = 4,
		.contextId = 5, .streamId = 6, .srcDeviceId = 7,
		.srcContextId = 8, .dstDeviceId = 9, .dstContextId = 10,
		.correlationId = 11, .graphNodeId = 12, .graphId = 13,
	};
	const struct copy *c = &out.copy;

	DECODE(r);
	CHECK(c->copy_kind == 1 && c->src_kind == 2 && c->dst_kind == 3);
	CHECK(c->is_async && c->bytes == 4 && c->op.start_ns == 5 &&
	      c->op.end_ns == 6 && c->op.device == 7 && c->op.context == 8 &&
	      c->op.stream == 9 && c->op.correlation == 10);
	CHECK(c->op.graph_node_id == 11 && c->op.graph_id == 12 &&
	      c->op.channel == 13 && c->op.channel_type == 2 &&
	      c->count == 14 && !c->is_peer);
	DECODE(p);
	CHECK(c->is_peer && c->bytes == 1 && c->op.start_ns == 2 &&
	      c->op.end_ns == 3 && c->op.device == 4 && c->op.context == 5 &&
	      c->op.stream == 6 && c->src_device == 7 &&
	      c->src_context == 8 && c->dst_device == 9 &&
	      c->dst_context == 10 && c->op.correlation == 11 &&
	      c->op.graph_node_id == 12 && c->op.graph_id == 13);
}

static void test_sets_and_graphs(void)
{
	CUpti_ActivityMemset4 s = {
		.kind = CUPTI_ACTIVITY_KIND_MEMSET, .value = 1, .bytes = 2,
		.start = 3, .end = 4, .deviceId = 5, .contextId = 6,
		.streamId = 7, .correlationId = 8, .flags = 1,
		.memoryKind = 3, .graphNodeId = 9, .graphId = 10,
	};
	CUpti_ActivityGraphTrace2 g = {
		.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE, .correlationId = 1,
		.start = 2, .end = 3, .deviceId = 4, .graphId = 5,
		.contextId = 6, .streamId = 7, .endDeviceId = 8,
		.endContextId = 9,
	};

	DECODE(s);
	CHECK(out.set.value == 1 && out.set.bytes == 2 &&
	      out.set.op.start_ns == 3 && out.set.op.end_ns == 4 &&
	      out.set.op.device == 5 && out.set.op.context == 6 &&
	      out.set.op.stream == 7 && out.set.op.correlation == 8 &&
	      out.set.is_async && out.set.memory_kind == 3 &&
	      out.set.op.graph_node_id == 9 && out.set.op.graph_id == 10);
	DECODE(g);
	CHECK(out.graph.op.correlation == 1 && out.graph.op.start_ns == 2 &&
	      out.graph.op.end_ns == 3 && out.graph.op.device == 4 &&
	      out.graph.op.graph_id == 5 && out.graph.op.context == 6 &&
	      out.graph.op.stream == 7 && out.graph.end_device == 8 &&
	      out.graph.end_context == 9);
}

static void test_calls(void)
{
	CUpti_ActivityAPI a = {
		.kind = CUPTI_ACTIVITY_KIND_RUNTIME, .cbid = 1, .start = 2,
		.end = 3, .processId = 4, .threadId = 5, .correlationId = 6,
		.returnValue = 7,
	};
	CUpti_ActivitySynchronization2 s = {
		.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, .type = 2,
		.start = 3, .end = 4, .correlationId = 5, .contextId = 6,
		.streamId = 7, .cudaEventId = 8, .cudaEventSyncId = 9,
		.returnValue = 10,
	};
	CUpti_ActivityCudaEvent2 e = {
		.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT, .correlationId = 1,
		.contextId = 2, .streamId = 3, .eventId = 4,
		.cudaEventSyncId = 5,
	};

	DECODE(a);
	CHECK(out.api.is_runtime && out.api.cbid == 1 &&
	      out.api.start_ns == 2 && out.api.end_ns == 3 &&
	      out.api.pid == 4 && out.api.tid == 5 &&
	      out.api.correlation == 6 && out.api.result == 7);
	DECODE(s);
	CHECK(out.sync.type == 2 && out.sync.start_ns == 3 &&
	      out.sync.end_ns == 4 && out.sync.correlation == 5 &&
	      out.sync.context == 6 && out.sync.stream == 7 &&
	      out.sync.event_id == 8 && out.sync.event_sync_id == 9 &&
	      out.sync.result == 10);
	DECODE(e);
	CHECK(out.event.correlation == 1 && out.event.context == 2 &&
	      out.event.stream == 3 && out.event.event_id == 4 &&
	      out.event.event_sync_id == 5);
}

static void test_objects(void)
{
	CUpti_ActivityDevice5 d = {
		.kind = CUPTI_ACTIVITY_KIND_DEVICE,
		.globalMemoryBandwidth = 1, .globalMemorySize = 2,
		.l2CacheSize = 3, .numThreadsPerWarp = 32,
		.coreClockRate = 4, .numMemcpyEngines = 5,
		.numMultiprocessors = 6, .maxWarpsPerMultiprocessor = 7,
		.maxBlocksPerMultiprocessor = 8,
		.maxSharedMemoryPerMultiprocessor = 9,
		.maxRegistersPerMultiprocessor = 10,
		.maxRegistersPerBlock = 11, .maxSharedMemoryPerBlock = 12,
		.maxThreadsPerBlock = 13, .computeCapabilityMajor = 9,
		.computeCapabilityMinor = 1, .id = 14, .name = "GPU",
		.isMigEnabled = 1,
	};
	CUpti_ActivityContext3 c = {
		.kind = CUPTI_ACTIVITY_KIND_CONTEXT, .contextId = 1,
		.deviceId = 2, .computeApiKind = 1, .nullStreamId = 7,
		.parentContextId = 3, .isGreenContext = 1,
		.numMultiprocessors = 66,
	};
	CUpti_ActivityStream s = {
		.kind = CUPTI_ACTIVITY_KIND_STREAM, .contextId = 1,
		.streamId = 2, .priority = (uint32_t)-5,
		.flag = CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING,
		.correlationId = 3,
	};

	d.uuid.bytes[0] = 0x42;
	d.uuid.bytes[15] = 0x43;
	DECODE(d);
	CHECK(out.device.memory_bandwidth == 1 &&
	      out.device.memory_size == 2 && out.device.l2_size == 3 &&
	      out.device.warp_size == 32 && out.device.core_clock_khz == 4 &&
	      out.device.copy_engines == 5 && out.device.nr_sm == 6 &&
	      out.device.max_warps_per_sm == 7 &&
	      out.device.max_blocks_per_sm == 8 &&
	      out.device.smem_per_sm == 9 && out.device.regs_per_sm == 10);
	CHECK(out.device.regs_per_block == 11 &&
	      out.device.smem_per_block == 12 &&
	      out.device.threads_per_block == 13 &&
	      out.device.cc_major == 9 && out.device.cc_minor == 1 &&
	      out.device.id == 14 && !strcmp(out.device.name, "GPU") &&
	      out.device.is_mig && out.device.uuid[0] == 0x42 &&
	      out.device.uuid[15] == 0x43);
	DECODE(c);
	CHECK(out.context.id == 1 && out.context.device == 2 &&
	      out.context.api_kind == 1 && out.context.null_stream == 7 &&
	      out.context.parent == 3 && out.context.is_green &&
	      out.context.nr_sm == 66);
	DECODE(s);
	CHECK(out.stream.context == 1 && out.stream.id == 2 &&
	      (int32_t)out.stream.priority == -5 && out.stream.flag == 2 &&
	      out.stream.correlation == 3);
}

static void test_overheads(void)
{
	CUpti_ActivityOverhead3 o = {
		.kind = CUPTI_ACTIVITY_KIND_OVERHEAD, .overheadKind = 1 << 16,
		.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD, .start = 1,
		.end = 2, .correlationId = 3,
	};
	CUpti_ActivityJit2 j = {
		.kind = CUPTI_ACTIVITY_KIND_JIT, .jitEntryType = 1,
		.jitOperationType = 2, .deviceId = 3, .start = 4, .end = 5,
		.correlationId = 6, .cacheSize = 7, .processId = 8,
		.threadId = 9,
	};

	o.objectId.pt.processId = 4;
	o.objectId.pt.threadId = 5;
	DECODE(o);
	CHECK(out.overhead.kind == 1 << 16 && out.overhead.object_kind == 2 &&
	      out.overhead.start_ns == 1 && out.overhead.end_ns == 2 &&
	      out.overhead.correlation == 3 && out.overhead.pid == 4 &&
	      out.overhead.tid == 5);
	DECODE(j);
	CHECK(out.jit.entry_type == 1 && out.jit.operation == 2 &&
	      out.jit.device == 3 && out.jit.start_ns == 4 &&
	      out.jit.end_ns == 5 && out.jit.correlation == 6 &&
	      out.jit.cache_size == 7 && out.jit.pid == 8 &&
	      out.jit.tid == 9);
}

static void test_memory(void)
{
	CUpti_ActivityMemory4 m = {
		.kind = CUPTI_ACTIVITY_KIND_MEMORY2, .memoryOperationType = 1,
		.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
		.correlationId = 2, .address = 3, .bytes = 4, .timestamp = 5,
		.deviceId = 6, .contextId = 7, .streamId = 8,
	};
	CUpti_ActivityMemoryPool3 p = {
		.kind = CUPTI_ACTIVITY_KIND_MEMORY_POOL,
		.memoryPoolOperationType = 1, .memoryPoolType = 2,
		.correlationId = 3, .deviceId = 4, .address = 5, .size = 6,
		.timestamp = 7, .utilizedSize = 8,
	};
	CUpti_ActivityUnifiedMemoryCounter3 u = {
		.kind = CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER,
		.counterKind = 1, .value = 2, .start = 3, .end = 4,
		.address = 5, .srcId = 6, .dstId = 7, .streamId = 8,
		.processId = 9, .flags = 10,
	};

	m.memoryPoolConfig.memoryPoolType = 1;
	m.memoryPoolConfig.address = 9;
	m.memoryPoolConfig.pool.size = 10;
	m.memoryPoolConfig.utilizedSize = 11;
	DECODE(m);
	CHECK(out.memory.operation == 1 && out.memory.memory_kind == 3 &&
	      out.memory.correlation == 2 && out.memory.address == 3 &&
	      out.memory.bytes == 4 && out.memory.t_ns == 5 &&
	      out.memory.device == 6 && out.memory.context == 7 &&
	      out.memory.stream == 8 && out.memory.pool_type == 1 &&
	      out.memory.pool_address == 9 && out.memory.pool_size == 10 &&
	      out.memory.pool_used == 11);
	DECODE(p);
	CHECK(out.pool.operation == 1 && out.pool.pool_type == 2 &&
	      out.pool.correlation == 3 && out.pool.device == 4 &&
	      out.pool.address == 5 && out.pool.size == 6 &&
	      out.pool.t_ns == 7 && out.pool.used == 8);
	DECODE(u);
	CHECK(out.unified.counter == 1 && out.unified.value == 2 &&
	      out.unified.start_ns == 3 && out.unified.end_ns == 4 &&
	      out.unified.address == 5 && out.unified.src == 6 &&
	      out.unified.dst == 7 && out.unified.stream == 8 &&
	      out.unified.pid == 9 && out.unified.flags == 10);
}

static void test_unknown(void)
{
	uint8_t record[64] = { 250 };

	CHECK(!activity_decode(record, &out));
	CHECK(!activity_is_gpu_work(250));
	CHECK(activity_is_gpu_work(ACTIVITY_MEMSET));
	CHECK(!activity_is_gpu_work(ACTIVITY_RUNTIME));
}

int main(void)
{
	test_kernel();
	test_kernel_118();
	test_others_118();
	test_copies();
	test_sets_and_graphs();
	test_calls();
	test_objects();
	test_overheads();
	test_memory();
	test_unknown();
	return check_result();
}
