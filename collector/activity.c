/* SPDX-License-Identifier: MIT */
#include "collector/activity.h"
#include "collector/activity_buffer.h"

#include <string.h>

#include "collector/api_calls.h"
#include "collector/client_clock.h"
#include "collector/cupti_advice.h"
#include "collector/cupti_api.h"
#include "collector/loss.h"
#include "collector/pool.h"

/*
 * CUPTI's records are read by offset: the library always fills its own newest
 * structure, fields keep their places from 11.8 to 13.x, and new ones are
 * appended.  Offsets are those of the CUPTI 13.0.85 headers (test/unit checks
 * them against the structures); fields that a version lacks are gated on
 * cuptiGetVersion().
 */
#define CUPTI_12_0 19u
#define CUPTI_12_2 20u
#define CUPTI_12_4 22u
#define CUPTI_12_5 23u
#define CUPTI_12_8 26u
#define CUPTI_13_0 130000u
#define CUPTI_13_1 130100u

static uint32_t version = CUPTI_13_0;

void activity_set_version(uint32_t cupti_version)
{
	version = cupti_version;
}

static uint8_t u8(const void *raw, size_t offset)
{
	return *((const uint8_t *)raw + offset);
}

static uint16_t u16(const void *raw, size_t offset)
{
	uint16_t value;

	memcpy(&value, (const uint8_t *)raw + offset, sizeof value);
	return value;
}

static uint32_t u32(const void *raw, size_t offset)
{
	uint32_t value;

	memcpy(&value, (const uint8_t *)raw + offset, sizeof value);
	return value;
}

static uint64_t u64(const void *raw, size_t offset)
{
	uint64_t value;

	memcpy(&value, (const uint8_t *)raw + offset, sizeof value);
	return value;
}

static uint64_t ns(const void *raw, size_t offset)
{
	uint32_t clock = client_clock_number() ? pool_clock_of(raw) : 0;

	return client_clock_to_ns(clock, u64(raw, offset));
}

static const char *text(const void *raw, size_t offset)
{
	const char *value;

	memcpy(&value, (const uint8_t *)raw + offset, sizeof value);
	return value ? value : "";
}

/* In all versions from 11.8 on. */
enum { KERNEL_GRAPH_ID = 156 };

static void decode_kernel(const void *raw, struct activity *out)
{
	struct kernel *k = &out->kernel;

	*k = (struct kernel){
		.op = { .start_ns = ns(raw, 16), .end_ns = ns(raw, 24),
			.device = u32(raw, 40), .context = u32(raw, 44),
			.stream = u32(raw, 48), .correlation = u32(raw, 92),
			.graph_node_id = u64(raw, 144),
			.graph_id = activity_kernel_graph_id(raw),
			.channel = u32(raw, 168),
			.channel_type = (uint8_t)u32(raw, 172) },
		.cache_requested = u8(raw, 4) & 15,
		.cache_executed = u8(raw, 4) >> 4,
		.registers = u16(raw, 6),
		.grid = { (int32_t)u32(raw, 52), (int32_t)u32(raw, 56),
			  (int32_t)u32(raw, 60) },
		.block = { (int32_t)u32(raw, 64), (int32_t)u32(raw, 68),
			   (int32_t)u32(raw, 72) },
		.static_smem = u32(raw, 76), .dynamic_smem = u32(raw, 80),
		.local_per_thread = u32(raw, 84),
		.name = text(raw, 104),
		.queued_ns = ns(raw, 120), .submitted_ns = ns(raw, 128),
		.launch_type = u8(raw, 136), .smem_executed = u32(raw, 140),
		.cluster = { u32(raw, 176), u32(raw, 180), u32(raw, 184) },
		.cluster_scheduling = u32(raw, 188),
		.local_total = u64(raw, 192),
		.priority = INT32_MIN,
	};
	if (version >= CUPTI_12_0) {
		k->max_cluster = u32(raw, 200);
		k->max_active_clusters = u32(raw, 204);
	}
	if (version >= CUPTI_13_0)
		k->is_device_launched = u8(raw, 208);
	if (version >= CUPTI_13_1)
		k->priority = (int32_t)u32(raw, 216);
}

static void decode_memcpy(const void *raw, struct activity *out)
{
	out->copy = (struct copy){
		.op = { .start_ns = ns(raw, 16), .end_ns = ns(raw, 24),
			.device = u32(raw, 32), .context = u32(raw, 36),
			.stream = u32(raw, 40), .correlation = u32(raw, 44),
			.graph_node_id = u64(raw, 64),
			.graph_id = u32(raw, 72), .channel = u32(raw, 76),
			.channel_type = (uint8_t)u32(raw, 80) },
		.copy_kind = u8(raw, 4), .src_kind = u8(raw, 5),
		.dst_kind = u8(raw, 6), .is_async = u8(raw, 7) & 1,
		.bytes = u64(raw, 8),
		.count = version >= CUPTI_12_8 ? u64(raw, 88) : 1,
	};
}

static void decode_memcpy2(const void *raw, struct activity *out)
{
	out->copy = (struct copy){
		.op = { .start_ns = ns(raw, 16), .end_ns = ns(raw, 24),
			.device = u32(raw, 32), .context = u32(raw, 36),
			.stream = u32(raw, 40), .correlation = u32(raw, 60),
			.graph_node_id = u64(raw, 72),
			.graph_id = u32(raw, 80), .channel = u32(raw, 84),
			.channel_type = (uint8_t)u32(raw, 88) },
		.copy_kind = u8(raw, 4), .src_kind = u8(raw, 5),
		.dst_kind = u8(raw, 6), .is_async = u8(raw, 7) & 1,
		.bytes = u64(raw, 8), .count = 1, .is_peer = true,
		.src_device = u32(raw, 44), .src_context = u32(raw, 48),
		.dst_device = u32(raw, 52), .dst_context = u32(raw, 56),
	};
}

static void decode_memset(const void *raw, struct activity *out)
{
	out->set = (struct set){
		.op = { .start_ns = ns(raw, 16), .end_ns = ns(raw, 24),
			.device = u32(raw, 32), .context = u32(raw, 36),
			.stream = u32(raw, 40), .correlation = u32(raw, 44),
			.graph_node_id = u64(raw, 64),
			.graph_id = u32(raw, 72), .channel = u32(raw, 76),
			.channel_type = (uint8_t)u32(raw, 80) },
		.value = u32(raw, 4), .bytes = u64(raw, 8),
		.is_async = u16(raw, 48) & 1, .memory_kind = u16(raw, 50),
	};
}

static void decode_graph(const void *raw, struct activity *out)
{
	out->graph = (struct graph_launch){
		.op = { .correlation = u32(raw, 4), .start_ns = ns(raw, 8),
			.end_ns = ns(raw, 16), .device = u32(raw, 24),
			.graph_id = u32(raw, 28), .context = u32(raw, 32),
			.stream = u32(raw, 36) },
		.end_device = u32(raw, 24), .end_context = u32(raw, 32),
	};
	if (version > CUPTI_12_2) {
		out->graph.end_device = u32(raw, 48);
		out->graph.end_context = u32(raw, 52);
	}
}

static void decode_api(const void *raw, struct activity *out)
{
	out->api = (struct api_call){
		.cbid = u32(raw, 4), .start_ns = ns(raw, 8),
		.end_ns = ns(raw, 16), .pid = u32(raw, 24),
		.tid = u32(raw, 28), .correlation = u32(raw, 32),
		.result = (int32_t)u32(raw, 36),
		.is_runtime = activity_kind(raw) == ACTIVITY_RUNTIME,
	};
}

static void decode_sync(const void *raw, struct activity *out)
{
	out->sync = (struct sync){
		.type = u32(raw, 4), .start_ns = ns(raw, 8),
		.end_ns = ns(raw, 16), .correlation = u32(raw, 24),
		.context = u32(raw, 28), .stream = u32(raw, 32),
		.event_id = u32(raw, 36),
	};
	if (version >= CUPTI_12_8) {
		out->sync.event_sync_id = u64(raw, 40);
		out->sync.result = (int32_t)u32(raw, 48);
	}
}

static void decode_event(const void *raw, struct activity *out)
{
	out->event = (struct cuda_event){
		.correlation = u32(raw, 4), .context = u32(raw, 8),
		.stream = u32(raw, 12), .event_id = u32(raw, 16),
		.event_sync_id = version >= CUPTI_12_8 ? u64(raw, 48) : 0,
	};
}

static void decode_device(const void *raw, struct activity *out)
{
	out->device = (struct device){
		.memory_bandwidth = u64(raw, 8), .memory_size = u64(raw, 16),
		.l2_size = u32(raw, 28), .warp_size = u32(raw, 32),
		.core_clock_khz = u32(raw, 36), .copy_engines = u32(raw, 40),
		.nr_sm = u32(raw, 44), .max_warps_per_sm = u32(raw, 52),
		.max_blocks_per_sm = u32(raw, 56),
		.smem_per_sm = u32(raw, 60), .regs_per_sm = u32(raw, 64),
		.regs_per_block = u32(raw, 68),
		.smem_per_block = u32(raw, 72),
		.threads_per_block = u32(raw, 76),
		.cc_major = u32(raw, 104), .cc_minor = u32(raw, 108),
		.id = u32(raw, 112), .name = text(raw, 136),
		.is_mig = u8(raw, 145),
	};
	memcpy(out->device.uuid, (const uint8_t *)raw + 120,
	       sizeof out->device.uuid);
	cupti_advice_device(out->device.cc_major, out->device.cc_minor);
}

static void decode_context(const void *raw, struct activity *out)
{
	out->context = (struct context){
		.id = u32(raw, 4), .device = u32(raw, 8),
		.api_kind = u16(raw, 12), .null_stream = u16(raw, 14),
	};
	if (version >= CUPTI_12_4) {
		out->context.parent = u32(raw, 16);
		out->context.is_green = u8(raw, 20);
	}
	if (version >= CUPTI_12_5)
		out->context.nr_sm = u16(raw, 22);
}

static void decode_stream(const void *raw, struct activity *out)
{
	out->stream = (struct stream){
		.context = u32(raw, 4), .id = u32(raw, 8),
		.priority = u32(raw, 12), .flag = u32(raw, 16),
		.correlation = u32(raw, 20),
	};
}

/* objectId is {process, thread} where the object is one of the two. */
static void decode_overhead(const void *raw, struct activity *out)
{
	out->overhead = (struct overhead){
		.kind = u32(raw, 4), .object_kind = u32(raw, 8),
		.pid = u32(raw, 12), .tid = u32(raw, 16),
		.start_ns = ns(raw, 24), .end_ns = ns(raw, 32),
		.correlation = version > CUPTI_12_2 ? u32(raw, 40) : 0,
	};
}

static void decode_jit(const void *raw, struct activity *out)
{
	out->jit = (struct jit){
		.entry_type = u32(raw, 4), .operation = u32(raw, 8),
		.device = u32(raw, 12), .start_ns = ns(raw, 16),
		.end_ns = ns(raw, 24), .correlation = u32(raw, 32),
		.cache_size = u64(raw, 48),
	};
	if (version >= CUPTI_12_4) {
		out->jit.pid = u32(raw, 64);
		out->jit.tid = u32(raw, 68);
	}
}

static void decode_memory(const void *raw, struct activity *out)
{
	out->memory = (struct memory_op){
		.operation = u32(raw, 4), .memory_kind = u32(raw, 8),
		.correlation = u32(raw, 12), .address = u64(raw, 16),
		.bytes = u64(raw, 24), .t_ns = ns(raw, 32),
		.device = u32(raw, 52), .context = u32(raw, 56),
		.stream = u32(raw, 60), .pool_type = u32(raw, 80),
		.pool_address = u64(raw, 88), .pool_size = u64(raw, 104),
		.pool_used = u64(raw, 112),
	};
}

static void decode_pool(const void *raw, struct activity *out)
{
	out->pool = (struct pool_op){
		.operation = u32(raw, 4), .pool_type = u32(raw, 8),
		.correlation = u32(raw, 12), .device = u32(raw, 20),
		.address = u64(raw, 32), .size = u64(raw, 40),
		.t_ns = ns(raw, 56), .used = u64(raw, 64),
	};
}

static void decode_unified(const void *raw, struct activity *out)
{
	out->unified = (struct unified_memory){
		.counter = u32(raw, 4), .value = u64(raw, 8),
		.start_ns = ns(raw, 16), .end_ns = ns(raw, 24),
		.address = u64(raw, 32), .src = u32(raw, 40),
		.dst = u32(raw, 44), .stream = u32(raw, 48),
		.pid = u32(raw, 52), .flags = u32(raw, 56),
	};
}

static void decode_decompress(const void *raw, struct activity *out)
{
	out->decompress = (struct decompress){
		.op = { .device = u32(raw, 4), .context = u32(raw, 8),
			.stream = u32(raw, 12), .channel = u32(raw, 16),
			.channel_type = (uint8_t)u32(raw, 20),
			.correlation = u32(raw, 24),
			.start_ns = ns(raw, 48), .end_ns = ns(raw, 56) },
		.operations = u32(raw, 28), .bytes = u64(raw, 32),
	};
}

/* Offset of gpu_op.start_ns for GPU work, 0 for the rest. */
static const struct kind {
	void (*decode)(const void *raw, struct activity *out);
	uint8_t gpu_start;
} kinds[] = {
	[ACTIVITY_MEMCPY] = { decode_memcpy, 16 },
	[ACTIVITY_MEMSET] = { decode_memset, 16 },
	[ACTIVITY_KERNEL] = { decode_kernel, 16 },
	[ACTIVITY_CONCURRENT_KERNEL] = { decode_kernel, 16 },
	[ACTIVITY_MEMCPY2] = { decode_memcpy2, 16 },
	[ACTIVITY_GRAPH_TRACE] = { decode_graph, 8 },
	[ACTIVITY_MEM_DECOMPRESS] = { decode_decompress, 48 },
	[ACTIVITY_DRIVER] = { decode_api, 0 },
	[ACTIVITY_RUNTIME] = { decode_api, 0 },
	[ACTIVITY_INTERNAL_LAUNCH] = { decode_api, 0 },
	[ACTIVITY_SYNC] = { decode_sync, 0 },
	[ACTIVITY_CUDA_EVENT] = { decode_event, 0 },
	[ACTIVITY_DEVICE] = { decode_device, 0 },
	[ACTIVITY_CONTEXT] = { decode_context, 0 },
	[ACTIVITY_STREAM] = { decode_stream, 0 },
	[ACTIVITY_OVERHEAD] = { decode_overhead, 0 },
	[ACTIVITY_JIT] = { decode_jit, 0 },
	[ACTIVITY_MEMORY2] = { decode_memory, 0 },
	[ACTIVITY_MEMORY_POOL] = { decode_pool, 0 },
	[ACTIVITY_UNIFIED_MEMORY] = { decode_unified, 0 },
};

#define NR_KINDS (sizeof kinds / sizeof *kinds)

bool activity_decode(const void *raw, struct activity *out)
{
	uint32_t kind = activity_kind(raw);

	if (kind >= NR_KINDS || !kinds[kind].decode)
		return false;
	out->kind = kind;
	kinds[kind].decode(raw, out);
	return true;
}

bool activity_is_gpu_work(enum activity_kind kind)
{
	return kind < NR_KINDS && kinds[kind].gpu_start;
}

uint64_t activity_gpu_start_ns(const void *raw)
{
	uint32_t kind = activity_kind(raw);

	return activity_is_gpu_work(kind) ?
		ns(raw, kinds[kind].gpu_start) : 0;
}

uint32_t activity_kernel_graph_id(const void *raw)
{
	return u32(raw, KERNEL_GRAPH_ID);
}

/* Both stand side by side in all of them. */
uint64_t activity_gpu_end_ns(const void *raw)
{
	uint32_t kind = activity_kind(raw);

	return activity_is_gpu_work(kind) ?
		ns(raw, kinds[kind].gpu_start + 8) : 0;
}

/* API records that the deny-list names are passed over here where CUPTI
 * cannot leave them out (before 12.5). */
static bool is_wanted(const void *raw)
{
	uint32_t kind = activity_kind(raw);

	return (kind != ACTIVITY_RUNTIME && kind != ACTIVITY_DRIVER) ||
		!api_is_denied(kind == ACTIVITY_RUNTIME, u32(raw, 4));
}

const void *activity_next(struct activity_buffer *buffer, const void *raw)
{
	CUpti_Activity *record = (void *)raw;
	CUptiResult result;

	do {
		result = cupti_api()->ActivityGetNextRecord(buffer->data,
							buffer->valid, &record);
		if (result == CUPTI_ERROR_MAX_LIMIT_REACHED)
			return NULL;
		if (result != CUPTI_SUCCESS) {
			loss_add(LOSS_INVALID, 1);
			return NULL;
		}
	} while (!is_wanted(record));
	return record;
}
