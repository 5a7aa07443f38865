/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_SOURCE_H
#define GPUTRACE_COLLECTOR_SOURCE_H

#include <stdint.h>
#include <string.h>

#include "collector/record.h"

struct source_options {
	uint64_t osrt_min_ns;   /* GPUTRACE_OSRT_MIN */
	uint64_t stack_min_ns;  /* GPUTRACE_STACK_MIN */
	uint32_t sample_hz;     /* GPUTRACE_SAMPLE_HZ */
	uint32_t torch_shapes;  /* GPUTRACE_TORCH_SHAPES */
	uint32_t torch_modules; /* GPUTRACE_TORCH_MODULES */
	uint32_t torch_memory;  /* GPUTRACE_TORCH_MEMORY */
};

/*
 * A source of records beside CUPTI and NVTX: what one file in this folder
 * provides, and one row of the table in inject/sources.c joins.
 *
 *   arm --> open --> close --> open ...      forget: in the child of a fork
 *
 * Any may be NULL.  All are called with no lock of the program's held.
 */
struct source {
	const char *name;       /* as in GPUTRACE_TRACE */
	/* Before the first window of which it is part.  0, or -errno after
	 * one line of log that says what is not to be had and what to do: then
	 * it is never opened.  Context: as open(), once. */
	int (*arm)(const struct source_options *options);
	/* A window of which it is part is open; is over.  Between the two the
	 * source records; outside it costs no more than a look at a flag.
	 * Context: any thread, the program's own where a mark of it opens
	 * the window: what takes long is for a thread of ours. */
	void (*open)(void);
	void (*close)(void);
	/* Context: atfork child: no thread, no lock, no memory. */
	void (*forget)(void);
};

/* Writes one slice, counter or instant into the calling thread's ring; dropped
 * and counted where that is full.  The text is cut at RECORD_TEXT_MAX.
 * Context: any thread; signal-safe where the thread has a state already and
 * was not interrupted inside the ring (see thread.h). */
void source_slice(const struct slice_kind *kind, uint32_t tid,
		  uint64_t start_ns, uint64_t end_ns, const uint64_t *values,
		  uint32_t nr_values, const char *text, uint32_t text_len);
void source_count(const struct slice_kind *kind, uint32_t device,
		  uint64_t t_ns, const uint64_t *values, uint32_t nr_values);
void source_instant(const struct slice_kind *kind, uint32_t device,
		    uint64_t t_ns, const uint64_t *values, uint32_t nr_values);

/* A VALUE_DOUBLE as one of `values`. */
static inline uint64_t source_double(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

/*
 * Slices of a thread that may hold launches (operators, library calls) are
 * ranges of a domain that has a category (struct nvtx_domain): they nest with
 * the thread's calls, and kernels are followed back to them.  `args` is what
 * the writer puts into the slice's arguments as it is: members of a JSON
 * object without the braces ("\"m\":4,\"n\":8"), or NULL.
 * Each push has its pop on the same thread, whatever happened between.  Both
 * return the level, or -1: not recorded, nothing is open.  Context: any thread;
 * in a signal handler only where the thread has a state already.
 */
int source_range_push(struct nvtx_domain *domain, const char *name,
		      uint32_t name_len, const char *args, uint32_t args_len);
int source_range_pop(struct nvtx_domain *domain);

#endif
