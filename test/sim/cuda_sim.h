// SPDX-License-Identifier: MIT
/*
 * Inside the simulated driver: its objects, one lock, and the timeline.
 *
 * Every object is protected by sim_lock(). Nobody waits for the GPU, calls a
 * hook or runs a host function while holding it. Handles that programs hold
 * are pointers to these structures.
 */
#ifndef GPUTRACE_TEST_SIM_CUDA_SIM_H
#define GPUTRACE_TEST_SIM_CUDA_SIM_H

#include "test/sim/sim.h"
#include "test/sim/sim_env.h"

#include <cupti_driver_cbid.h>

#define SIM_MAX_DEVICES 72
#define SIM_SLOTS 32		/* kernels that run at the same time */
#define SIM_QUEUE 1024		/* launches that a stream holds */
#define SIM_MAX_PARAMETERS 64

struct sim_timeline {
	uint64_t slot[SIM_SLOTS];	/* when it is free again */
	uint64_t engine[3];		/* HtoD, DtoH, DtoD */
};

struct CUctx_st {
	struct CUctx_st *next;
	unsigned int id, device, flags, null_id, per_thread_count;
	unsigned int next_stream, next_event;
	bool primary;
	unsigned int references;
	struct CUstream_st *streams;	/* the null stream is the last */
	struct CUstream_st *null_stream;
};

struct CUstream_st {
	struct CUstream_st *next;
	CUcontext context;
	unsigned int id, flags;
	int priority;
	uint64_t tail;			/* end of what was submitted so far */
	uint64_t queue[SIM_QUEUE];	/* ends of the last launches */
	unsigned int queued;
	int hosts_left;			/* host functions not yet run */
	CUgraph capture;
	CUgraphNode *capture_last;
	unsigned int capture_last_count;
	bool capture_origin;
};

struct CUevent_st {
	CUcontext context;
	unsigned int id, flags;
	uint64_t time, sync_id;		/* when it completes; 0: not recorded */
	unsigned int stream;
	CUgraph capture;
	CUgraphNode *capture_last;
	unsigned int capture_last_count;
};

struct CUfunc_st {
	struct CUfunc_st *next;
	struct CUmod_st *module;
	char *name;
	const char *shown;		/* the name in records */
	bool timed;			/* the first parameter is its length */
	bool loaded;
	unsigned int parameter_count;
	size_t parameter_offset[SIM_MAX_PARAMETERS];
	size_t parameter_size[SIM_MAX_PARAMETERS];
	unsigned int static_smem;
	int max_dynamic_smem;
};

struct CUarray_st {
	size_t width, height;		/* bytes of a row, rows */
	unsigned char *memory;
};

struct CUmod_st {
	struct CUfunc_st *functions;
	unsigned int function_count;
	bool lazy;
};

struct CUgraphNode_st {
	CUgraph graph;
	CUgraphNodeType type;
	uint64_t id;
	struct sim_op op;		/* what it does, times aside */
	uint64_t duration;
	CUgraphNode *needs;
	unsigned int need_count;
	unsigned int branch;		/* 0: the launch stream */
	uint64_t end;			/* in the launch being computed */
	bool followed;
	CUhostFn host;
	void *host_argument;
};

struct CUgraph_st {
	unsigned int id, node_count, branches;
	CUgraphNode *nodes;		/* in the order of their creation */
};

#define SIM_MAX_BRANCHES 32

struct CUgraphExec_st {
	unsigned int id, serial;
	CUgraph graph;			/* a private copy */
	unsigned int branch_stream[SIM_MAX_BRANCHES];
};

struct CUmemPoolHandle_st {
	unsigned int device;
	struct CUmemPoolHandle_st *next;
	uint64_t threshold, used, reserved;
};

#define SIM_DRIVER 1			/* CUPTI_CB_DOMAIN_DRIVER_API */

/* A public function: enter, do, leave. */
#define SIM_API(fn, parameters, expression)                                    \
	SIM_EXPORT CUresult CUDAAPI fn parameters                              \
	{                                                                      \
		struct sim_call call_;                                         \
		CUresult r_ = sim_enter(&call_, SIM_DRIVER,                    \
					CUPTI_DRIVER_TRACE_CBID_##fn);         \
		int forced_ = sim_env_error(#fn);                              \
									       \
		if (!r_)                                                       \
			r_ = forced_ ? (CUresult)forced_ : (expression);       \
		return sim_leave(&call_, r_);                                  \
	}

void sim_lock(void);
void sim_unlock(void);
const struct sim_hooks *sim_hooks(void);
void sim_burn(uint64_t ns);		/* CPU time */

/* cuda_context.c */
CUcontext sim_context(void);		/* the current one or NULL */
void sim_set_context(CUcontext c);
CUcontext sim_context_list(void);
bool sim_context_is_valid(CUcontext c);

/* cuda_stream.c. sim_stream resolves 0, 1 and 2; NULL if it is unknown. */
CUstream sim_stream(CUstream s);
CUstream sim_stream_new(CUcontext c, unsigned int flags, int priority);
void sim_stream_announce(unsigned int cbid, CUstream s);
void sim_stream_describe(CUstream s, struct sim_stream_row *out);

/*
 * cuda_time.c: sets op->start and op->end behind everything that it has to
 * wait for, and moves the stream's tail. Caller holds the lock; afterwards,
 * without it, sim_throttle waits while the stream's queue is too long.
 */
void sim_schedule(CUstream s, struct sim_op *op, uint64_t duration);
uint64_t sim_place(unsigned int device, const struct sim_op *op,
		   uint64_t earliest, uint64_t duration);
uint64_t sim_ready(CUstream s);		/* when a new operation could start */
void sim_throttle(CUstream s);
uint64_t sim_context_tail(CUcontext c);
void sim_wait_stream(CUstream s);
void sim_wait_context(CUcontext c);

/* cuda_launch.c: fills op; 0 or CUDA's error. */
CUresult sim_kernel_op(const CUlaunchConfig *config, CUfunction f,
		       void **parameters, void **extra, struct sim_op *op,
		       uint64_t *duration);
/* Submits, or captures when the stream does so. Takes the lock itself. */
CUresult sim_submit(CUstream s, struct sim_op *op, uint64_t duration);
CUresult sim_submit_host(CUstream s, CUhostFn f, void *data);
/* Submits without looking at captures; hooks are told. */
void sim_submit_now(CUstream s, struct sim_op *op, uint64_t duration);
void sim_load_function(CUfunction f);

/* cuda_graph.c */
CUgraphNode sim_graph_add(CUgraph g, CUgraphNodeType type,
			  const struct sim_op *op, uint64_t duration,
			  const CUgraphNode *needs, unsigned int count);
CUgraphNode sim_capture_add(CUstream s, CUgraphNodeType type,
			    const struct sim_op *op, uint64_t duration);

/* Inside a capture: an event is recorded, a stream waits for it. */
CUresult sim_capture_event(CUstream s, CUevent e);
CUresult sim_capture_join(CUstream s, CUevent e);

/* cuda_memory.c: CUPTI's memory kind of an address: 1, 2, 3 or 5. */
unsigned int sim_memory_kind(const void *address);
/* A copy whose bytes are moved already; waits if the real one would. */
CUresult sim_submit_copy(CUstream s, struct sim_op *op);
void sim_pools_trim(void);		/* what a synchronisation gives back */
void sim_host_function_later(CUstream s, CUhostFn f, void *data,
			     uint64_t when);

#endif
