/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_ACTIVITY_H
#define GPUTRACE_COLLECTOR_ACTIVITY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * CUPTI's activities as the writer sees them: whole completed buffers
 * (activity_buffer.h), walked with CUPTI's own cuptiActivityGetNextRecord,
 * each activity decoded from its layout (by offset, gated on the CUPTI
 * version) into one of the structures below.  All times are ns of clock.h; a
 * time that CUPTI did not know is 0.
 */

/* CUPTI's numbers (CUpti_ActivityKind); the table in activity.c decodes. */
enum activity_kind {
	ACTIVITY_MEMCPY = 1,
	ACTIVITY_MEMSET = 2,
	ACTIVITY_KERNEL = 3,
	ACTIVITY_DRIVER = 4,
	ACTIVITY_RUNTIME = 5,
	ACTIVITY_DEVICE = 8,
	ACTIVITY_CONTEXT = 9,
	ACTIVITY_CONCURRENT_KERNEL = 10,
	ACTIVITY_OVERHEAD = 17,
	ACTIVITY_MEMCPY2 = 22,
	ACTIVITY_UNIFIED_MEMORY = 25,
	ACTIVITY_CUDA_EVENT = 36,
	ACTIVITY_STREAM = 37,
	ACTIVITY_SYNC = 38,
	ACTIVITY_INTERNAL_LAUNCH = 48,
	ACTIVITY_MEMORY2 = 49,
	ACTIVITY_MEMORY_POOL = 50,
	ACTIVITY_GRAPH_TRACE = 51,
	ACTIVITY_JIT = 52,
	ACTIVITY_MEM_DECOMPRESS = 54,
};

/* The head of all GPU work: kernels, copies, sets, graphs. */
struct gpu_op {
	uint64_t start_ns, end_ns;
	uint32_t device, context, stream, correlation;
	uint32_t graph_id;          /* 0: not in a graph */
	uint64_t graph_node_id;
	uint32_t channel;
	uint8_t channel_type;       /* 1 compute, 2 copy, 3 decompression */
};

struct kernel {
	struct gpu_op op;
	const char *name;           /* mangled; CUPTI's, alive while attached */
	uint64_t queued_ns, submitted_ns;
	int32_t grid[3], block[3];
	uint32_t static_smem, dynamic_smem, smem_executed;
	uint32_t local_per_thread;
	uint64_t local_total;
	uint16_t registers;
	uint8_t launch_type;        /* 0 regular, 1, 2 cooperative */
	uint8_t is_device_launched;
	uint32_t cluster[3];        /* 0: no clusters */
	uint32_t cluster_scheduling;
	uint32_t max_cluster, max_active_clusters;
	uint8_t cache_requested, cache_executed;
	int32_t priority;           /* INT32_MIN: not known (before 13.1) */
};

struct copy {
	struct gpu_op op;
	uint64_t bytes, count;      /* count: 1 but for batched copies */
	uint8_t copy_kind;          /* 1 HtoD 2 DtoH ... 8 DtoD 10 PtoP */
	uint8_t src_kind, dst_kind; /* 1 pageable 2 pinned 3 device ... */
	uint8_t is_async;
	bool is_peer;
	uint32_t src_device, src_context, dst_device, dst_context;
};

struct set {
	struct gpu_op op;
	uint64_t bytes;
	uint32_t value;
	uint16_t memory_kind;
	uint8_t is_async;
};

struct graph_launch {
	struct gpu_op op;           /* graph_id is the graph */
	uint32_t end_device, end_context;
};

struct api_call {
	uint64_t start_ns, end_ns;
	uint32_t cbid, pid, tid, correlation;
	int32_t result;
	bool is_runtime;
};

enum sync_type {
	SYNC_EVENT = 1, SYNC_STREAM_WAIT = 2, SYNC_STREAM = 3, SYNC_CONTEXT = 4,
};

/* 0xFFFFFFFF in stream or event_id: does not apply. */
struct sync {
	uint64_t start_ns, end_ns;
	uint32_t type, correlation, context, stream, event_id;
	uint64_t event_sync_id;     /* 0: not known (before 12.8) */
	int32_t result;
};

struct cuda_event {
	uint32_t correlation, context, stream, event_id;
	uint64_t event_sync_id;     /* 0: not known (before 12.8) */
};

struct device {
	uint32_t id;
	const char *name;
	uint64_t memory_bandwidth;  /* kB/s */
	uint64_t memory_size;       /* bytes */
	uint32_t l2_size, warp_size, core_clock_khz, copy_engines;
	uint32_t nr_sm, max_warps_per_sm, max_blocks_per_sm;
	uint32_t smem_per_sm, regs_per_sm, regs_per_block, smem_per_block;
	uint32_t threads_per_block;
	uint32_t cc_major, cc_minor;
	uint8_t uuid[16];
	uint8_t is_mig;
};

struct context {
	uint32_t id, device, null_stream;
	uint16_t api_kind;          /* 1 CUDA, 2 CUDA under MPS */
	uint32_t parent;
	uint8_t is_green;
	uint16_t nr_sm;
};

struct stream {
	uint32_t id, context, flag, correlation;
	uint32_t priority;          /* lower is more urgent, as CUDA counts */
};

struct overhead {
	uint64_t start_ns, end_ns;
	uint32_t kind, object_kind, pid, tid, correlation;
};

struct jit {
	uint64_t start_ns, end_ns;
	uint32_t entry_type, operation, device, correlation, pid, tid;
	uint64_t cache_size;
};

struct memory_op {
	uint64_t t_ns, address, bytes;
	uint32_t operation;         /* 1 allocation, 2 release */
	uint32_t memory_kind, correlation, device, context, stream;
	uint32_t pool_type;         /* 0 no pool, 1 local, 2 imported */
	uint64_t pool_address, pool_size, pool_used;
};

struct pool_op {
	uint64_t t_ns, address, size, used;
	uint32_t operation, pool_type, device, correlation;
};

struct unified_memory {
	uint64_t start_ns, end_ns, value, address;
	uint32_t counter, src, dst, stream, pid, flags;
};

struct decompress {
	struct gpu_op op;
	uint32_t operations;
	uint64_t bytes;
};

/* One activity, decoded.  `kind` tells which member holds it. */
struct activity {
	enum activity_kind kind;
	union {
		struct gpu_op op;   /* the head of kernel, copy, set, graph,
				     * decompress */
		struct kernel kernel;
		struct copy copy;
		struct set set;
		struct graph_launch graph;
		struct api_call api;
		struct sync sync;
		struct cuda_event event;
		struct device device;
		struct context context;
		struct stream stream;
		struct overhead overhead;
		struct jit jit;
		struct memory_op memory;
		struct pool_op pool;
		struct unified_memory unified;
		struct decompress decompress;
	};
};

/* Decodes; false for a kind we do not know (counted by the caller).
 * The strings inside stay CUPTI's.  Context: writer thread. */
bool activity_decode(const void *raw, struct activity *out);

static inline enum activity_kind activity_kind(const void *raw)
{
	return *(const uint32_t *)raw;
}

/* True for kernels, copies, sets, whole graphs, decompressions. */
bool activity_is_gpu_work(enum activity_kind kind);

/* gpu_op.start_ns and end_ns of GPU work without decoding the rest. */
uint64_t activity_gpu_start_ns(const void *raw);
uint64_t activity_gpu_end_ns(const void *raw);

/* Of a kernel likewise; 0: not in a graph. */
uint32_t activity_kernel_graph_id(const void *raw);

/* CUPTI version (cuptiGetVersion) that gates the layouts.  Context: attach. */
void activity_set_version(uint32_t version);

/* "cudaLaunchKernel", without its _vNNNN; "cuda call 999" if not known.
 * The pointer stays valid.  Context: writer thread. */
const char *activity_api_name(bool is_runtime, uint32_t cbid);

#endif
