// SPDX-License-Identifier: MIT
/*
 * The simulated GPU: what libcuda.so.1 (cuda_*.c) and libcupti.so.13
 * (cupti_*.c) of this folder tell each other.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. The whole future of an operation
 * is known when it is submitted (sim_op.start and .end), so nothing here
 * depends on when a thread wakes up: waiting calls sleep until a computed end.
 *
 * Faults and sizes are chosen by environment variables, see sim_env.h.
 */
#ifndef GPUTRACE_TEST_SIM_SIM_H
#define GPUTRACE_TEST_SIM_SIM_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_EXPORT __attribute__((visibility("default")))

enum sim_op_kind {
	SIM_OP_KERNEL,
	SIM_OP_COPY,
	SIM_OP_SET,
	SIM_OP_GRAPH,		/* the whole launch */
	SIM_OP_HOST,
};

/* One API call, on the stack of the thread that makes it. */
struct sim_call {
	struct sim_call *outer;
	unsigned int domain;		/* CUpti_CallbackDomain */
	unsigned int cbid;
	unsigned int correlation;	/* 0: nobody listens */
	uint64_t start;			/* in CUPTI's clock */
	uint64_t user_value;		/* correlationData of callbacks */
	const char *symbol;		/* the kernel, if there is one */
	CUcontext context;
	unsigned int held;		/* records to append at the end */
	bool observed;
};

/* Something that the GPU does; submitted in call `correlation`. */
struct sim_op {
	enum sim_op_kind kind;
	uint64_t start, end;
	unsigned int device, context, stream;
	unsigned int correlation;
	uint64_t graph_node;
	unsigned int graph;
	const char *name;		/* kernel; lives as long as its module */
	unsigned int grid[3], block[3], cluster[3];
	unsigned int registers, static_smem, dynamic_smem, local;
	unsigned int launch_type;
	unsigned int copy_kind, src_kind, dst_kind;	/* CUPTI's numbers */
	unsigned int src_device, dst_device, src_context, dst_context;
	unsigned int channel;		/* 1 compute, 2 copy engine */
	uint64_t bytes;
	uint32_t value;
	bool async;
};

enum sim_sync_type {
	SIM_SYNC_EVENT = 1,
	SIM_SYNC_WAIT_EVENT = 2,
	SIM_SYNC_STREAM = 3,
	SIM_SYNC_CONTEXT = 4,
};

struct sim_sync {
	enum sim_sync_type type;
	unsigned int context, stream, event;
	uint64_t sync_id;
	uint64_t start, end;		/* monotonic */
	int result;
};

struct sim_event_record {
	unsigned int context, stream, event, device;
	uint64_t sync_id, time;
};

struct sim_memory {
	unsigned int operation;		/* 1 allocation, 2 release */
	unsigned int kind;		/* CUPTI's memory kind */
	uint64_t address, bytes;
	unsigned int context, stream, device;
	bool async;
	uint64_t pool;			/* 0: none */
	bool pool_operation;		/* created 1, destroyed 2, trimmed 3 */
};

/* Work that the driver does for itself; monotonic times. */
struct sim_load {
	bool compiled;			/* PTX to machine code, else a load */
	bool cached;			/* compiled before, found in the cache */
	unsigned int device;
	uint64_t start, end;
};

struct sim_stream_row {
	CUcontext context;
	CUstream stream;
	unsigned int context_id, stream_id;
	int priority;
	unsigned int flags;
};

struct sim_context_row {
	CUcontext context;
	unsigned int id, device, null_stream;
};

/* Ids of CUPTI_CBID_RESOURCE_* are used as they are. */
struct sim_resource {
	unsigned int cbid;
	const struct sim_stream_row *stream;
	const struct sim_context_row *context;
};

/* CUPTI's side; called on the thread that makes the call, without locks. */
struct sim_hooks {
	void (*enter)(struct sim_call *call);
	void (*leave)(struct sim_call *call, unsigned int result);
	void (*op)(const struct sim_op *op);
	void (*sync)(const struct sim_sync *sync);
	void (*event)(const struct sim_event_record *event);
	void (*memory)(const struct sim_memory *memory);
	void (*load)(const struct sim_load *load);
	void (*resource)(const struct sim_resource *resource);
	void (*graph_launch)(unsigned int exec_serial);
};

/* NULL takes them away. The table must stay valid for ever. */
SIM_EXPORT void sim_set_hooks(const struct sim_hooks *hooks);

/* Two copies of CUPTI in a process: the first to be used has the driver for
 * ever, also after its cuptiFinalize; false for the other (H200, 13.0.1). */
SIM_EXPORT bool sim_claim(const struct sim_hooks *hooks);

/*
 * Begin and end of an API call. sim_enter gives CUDA's error when the driver
 * cannot be used (not initialised, or the process is past its exit handler).
 */
SIM_EXPORT CUresult sim_enter(struct sim_call *call, unsigned int domain,
			      unsigned int cbid);
SIM_EXPORT CUresult sim_leave(struct sim_call *call, CUresult result);
SIM_EXPORT struct sim_call *sim_current_call(void);

SIM_EXPORT uint64_t sim_now(void);
SIM_EXPORT void sim_wait_until(uint64_t when);
SIM_EXPORT bool sim_is_initialized(void);
SIM_EXPORT bool sim_is_dead(void);
SIM_EXPORT unsigned int sim_device_count(void);
SIM_EXPORT int sim_device_attribute(unsigned int device,
				    CUdevice_attribute id);
SIM_EXPORT CUuuid sim_device_uuid(unsigned int device);
SIM_EXPORT uint64_t sim_device_memory(void);

/* Ids as CUPTI shows them; 0 if the object is unknown. */
SIM_EXPORT unsigned int sim_context_id(CUcontext context);
SIM_EXPORT unsigned int sim_stream_id(CUcontext context, CUstream stream,
				      bool per_thread);
SIM_EXPORT unsigned int sim_context_device(CUcontext context);
SIM_EXPORT unsigned int sim_graph_id(CUgraph graph);
SIM_EXPORT unsigned int sim_exec_id(CUgraphExec exec);
SIM_EXPORT uint64_t sim_node_id(CUgraphNode node);
SIM_EXPORT unsigned int sim_exec_count(void);	/* instantiated so far */

/* Objects that exist, the n-th; false behind the last. */
SIM_EXPORT bool sim_get_context(unsigned int n, struct sim_context_row *out);
SIM_EXPORT bool sim_get_stream(unsigned int n, struct sim_stream_row *out);

/* The lock that lazy loading holds while it waits for running work. */
SIM_EXPORT void sim_load_lock(void);
SIM_EXPORT void sim_load_unlock(void);

#endif
