// SPDX-License-Identifier: MIT
/*
 * Inside the simulated CUPTI.
 *
 * A record gets its final times when its work is submitted, since the
 * simulator knows the future; it counts as complete when that time has come.
 * Buffers belong to the launching thread (or to all, attribute 9 = 0) and are
 * handed back by the one worker thread, oldest first; unfinished work holds
 * back the later buffers of its own thread only.
 */
#ifndef GPUTRACE_TEST_SIM_CUPTI_SIM_H
#define GPUTRACE_TEST_SIM_CUPTI_SIM_H

#include "test/sim/sim.h"
#include "test/sim/sim_env.h"

#include <cupti.h>

#define SIM_KINDS 64

/*
 * A function that CUPTI has from `version` on: before, dlsym finds nothing,
 * since the resolver of its address answers NULL. The body follows.
 */
#define SIM_SINCE(version, name, parameters)                                   \
	static CUptiResult CUPTIAPI name##_is parameters;                      \
	__attribute__((used)) static __typeof__(&name) name##_find(void)       \
	{                                                                      \
		return sim_cupti_version() >= (version) ? name##_is : NULL;    \
	}                                                                      \
	SIM_EXPORT __attribute__((ifunc(#name "_find")))                       \
	CUptiResult CUPTIAPI name parameters;                                  \
	static CUptiResult CUPTIAPI name##_is parameters

/* What a record of the GPU needs until it is complete. */
struct sim_pending {
	size_t offset;
	uint64_t end;			/* monotonic */
};

struct sim_buffer {
	struct sim_buffer *next;	/* in the order of their requests */
	struct sim_buffer **slot;	/* where it is the active one, or NULL */
	int thread;			/* whose it is, 0: everybody's */
	uint8_t *memory;
	size_t size, used, limit, records;
	uint64_t end;			/* of the last record to complete */
	struct sim_pending *pending;
	size_t pending_count, pending_space;
};

/* cupti_buffer.c */
/* A copy of `record` goes into the thread's buffer; end 0: complete now. */
void sim_record_add(const void *record, uint64_t end);
void sim_buffers_flush(bool forced);
void sim_buffers_forget(void);		/* cuptiFinalize */
size_t sim_dropped_take(void);
void sim_buffers_register(CUpti_BuffersCallbackRequestFunc request,
			  CUpti_BuffersCallbackCompleteFunc complete);

/* cupti_activity.c */
bool sim_kind_is_on(unsigned int kind);
bool sim_api_is_on(unsigned int domain, unsigned int cbid);
bool sim_all_syncs(void);
bool sim_event_times(void);
bool sim_latency_times(void);
unsigned int sim_thread_id(void);
void sim_attach(void);			/* hooks in, once */
uint64_t sim_cupti_version(void);
/* 39 when SIM_SUBSCRIBER holds the process, an injected error, or 0. */
CUptiResult sim_refusal(const char *function);
unsigned int sim_graph_trace_since(void);	/* graphs made before it */
unsigned int sim_push_count(unsigned int kind, uint64_t *top);

/* cupti_attribute.c */
bool sim_attribute_per_thread(void);
bool sim_attribute_zeroed(void);

/* cupti_clock.c */
uint64_t sim_cupti_now(void);
uint64_t sim_cupti_time(uint64_t monotonic);
/* The same for work on the device, whose clock may be another. */
uint64_t sim_gpu_time(uint64_t monotonic);
void sim_cupti_clock_check(void);

/* cupti_record.c */
extern const struct sim_hooks sim_cupti_hooks;
/* Work of the tracing itself, or of the driver; monotonic times. */
CUpti_ActivityOverhead3 sim_overhead(unsigned int kind, uint64_t start,
				     uint64_t end);

/* cupti_layout.c: in the chosen version; 0 if the kind has no record. */
size_t sim_record_size(unsigned int kind);

/* cupti_object.c */
void sim_on_resource(const struct sim_resource *resource);
void sim_dump(unsigned int kind);	/* what exists already */

/* cupti_callback.c */
void sim_callback_api(struct sim_call *call, CUpti_ApiCallbackSite site,
		      unsigned int result);
void sim_callback_resource(const struct sim_resource *resource);
void sim_callback_sync(unsigned int cbid, const struct sim_sync *sync);
void sim_callbacks_forget(void);

/* cupti_names.c: NULL if there is none */
const char *sim_callback_name(unsigned int domain, unsigned int cbid);
unsigned int sim_callback_count(unsigned int domain);

#endif
