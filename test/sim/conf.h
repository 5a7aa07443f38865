// SPDX-License-Identifier: MIT
/*
 * The conformance program: one observer of CUPTI, run on the real GPU and on
 * the simulated one. It prints `key: value` lines without raw times, so that
 * the two outputs can be compared by diff. Lines that begin with # are context.
 *
 * Every experiment runs in a forked child with a time limit; the child's
 * death is a fact as well. Only conf_*.c and conformance.c include this.
 */
#ifndef GPUTRACE_TEST_SIM_CONF_H
#define GPUTRACE_TEST_SIM_CONF_H

#include <cuda.h>
#include <cupti.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONF_CUPTI_LIST(F)                                                     \
	F(GetVersion) F(GetTimestamp) F(GetResultString)                       \
	F(ActivityEnable) F(ActivityDisable) F(ActivityEnableAndDump)          \
	F(ActivityEnableContext)                                               \
	F(ActivityRegisterCallbacks) F(ActivityGetNextRecord)                  \
	F(ActivityFlushAll) F(ActivityFlushPeriod)                             \
	F(ActivityGetNumDroppedRecords)                                        \
	F(ActivitySetAttribute) F(ActivityGetAttribute)                        \
	F(ActivityRegisterTimestampCallback)                                   \
	F(ActivityEnableDriverApi) F(ActivityEnableRuntimeApi)                 \
	F(ActivityEnableAllSyncRecords) F(ActivityEnableLatencyTimestamps)     \
	F(ActivityEnableCudaEventDeviceTimestamps)                             \
	F(ActivityEnableLaunchAttributes)                                      \
	F(ActivityPushExternalCorrelationId)                                   \
	F(ActivityPopExternalCorrelationId)                                    \
	F(SetThreadIdType) F(GetThreadIdType) F(GetCallbackName)               \
	F(Subscribe) F(Subscribe_v2) F(Unsubscribe)                            \
	F(EnableCallback) F(EnableDomain) F(Finalize)                          \
	F(GetContextId) F(GetStreamIdEx) F(GetStreamId) F(GetDeviceId)         \
	F(GetGraphId) F(GetGraphExecId) F(GetGraphNodeId)

struct conf_cupti {
#define F(n) __typeof__(&cupti##n) n;
	CONF_CUPTI_LIST(F)
#undef F
};

struct conf_record {
	unsigned int kind, cbid, corr, ctx, stream, device, type, ret, tid;
	unsigned int graph, channel, event, src, dst, flags, buffer, copy;
	uint64_t node, start, end, completed, bytes, queued, submitted, sync_id;
	int grid[3], block[3];
	unsigned int cluster[3], launch_type, dynamic_smem, gpu_corr, priority;
	const char *name;
};

struct conf_buffer {
	uint8_t *memory;
	size_t size, valid;
	int requested_on, completed_on;		/* thread ids */
	bool zeroed;				/* behind the valid part */
};

struct conf_gpu {
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction spin, empty;
	CUstream plain, high;
	CUevent event[2];
	CUdeviceptr memory[2];
	void *pinned;
	char pageable[4096];
	CUgraph graph;
	CUgraphExec exec;
};

#define CONF_RECORDS (1 << 17)
#define CONF_BUFFERS 8192

extern struct conf_cupti cupti;
extern struct conf_gpu gpu;
extern struct conf_record conf_records[CONF_RECORDS];
extern struct conf_buffer conf_buffers[CONF_BUFFERS];
extern unsigned int conf_record_count, conf_buffer_count, conf_completed;
extern size_t conf_buffer_size, conf_buffer_limit;
extern bool conf_refuse;
extern const char *conf_name;		/* the experiment that runs */
extern const char conf_ptx[];

/* One fact, under the name of the running experiment. */
void fact(const char *key, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
const char *yes(bool b);
void must(const char *what, int code);	/* ends the experiment on failure */
#define MUST(call) must(#call, (int)(call))

int conf_load_cupti(void);
const char *conf_cupti_path(void);
uint64_t conf_clock(void);		/* the timestamp callback */
int conf_tid(void);
double conf_seconds(void);
const char *conf_thread(int tid);	/* main, worker, ... */
void conf_name_thread(const char *name);

/* Registers clock, callbacks and thread ids; enables kinds up to a 0. */
void conf_trace(const int *kinds);
int conf_set_attribute(int attribute, uint64_t value, size_t size);
void conf_set_per_thread(int on);
void conf_settle(void);		/* flush until nothing more comes */
void conf_forget(void);		/* empties the record list */
unsigned int conf_count(unsigned int kind);
unsigned int conf_count_ended(unsigned int kind);	/* with an end time */
unsigned int conf_count_completed(void);		/* buffers */
unsigned int conf_count_outstanding(void);
unsigned int conf_count_buffers(const char *requested_on);
const char *conf_kind(unsigned int kind);
const char *conf_cbid(unsigned int kind, unsigned int cbid);
void conf_print_records(const char *prefix, uint64_t from, uint64_t to);

void gpu_open(void);			/* context, module, two launches */
void gpu_context(void);			/* cuInit and a current context */
void gpu_spin(CUstream s, uint64_t ns);
void gpu_empty(CUstream s);
void gpu_build_graph(void);		/* kernel, copy, set, kernel */

struct conf_experiment {
	const char *name;
	void (*run)(const char *variant);
	const char *variant;
	const char *group;
};

extern const struct conf_experiment conf_ops[], conf_codes[], conf_flush[],
	conf_threads[], conf_callbacks[], conf_exits[];

#endif
