/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_REPORT_STACKS_H
#define GPUTRACE_TOOLS_REPORT_STACKS_H

#include <stddef.h>
#include <stdint.h>

#include "tools/trace.h"
#include "tools/vec.h"

/* Part of report.h: samples of threads, as the source stacks has them: slices
 * that nest, each with how many samples it was seen in. */
struct report;
struct report_view;

struct sample {
	int64_t start, end, nr;
	uint32_t lane, name, order;
};

struct sampled {                /* a function */
	int64_t self, total;    /* samples: innermost; anywhere in the stack */
	uint32_t name;
	uint32_t depth;         /* of it in the present stack */
};

struct report_stacks {
	struct sample *sample;
	struct sampled *function;
	size_t nr_samples, cap_samples, nr_functions, cap_functions;
	struct pairs by_name;
	struct stack_path {     /* collapsed: "thread;main;work" and samples */
		uint32_t text;
		int64_t nr;
	} *path;
	size_t nr_paths, cap_paths;
	struct pairs by_text;
};

void report_stacks_add(struct report *r, const struct trace_event *ev,
		       uint32_t name, int64_t start, int64_t end);
void report_stacks_fini(struct report_stacks *stacks);

/* A step of report_finish(). */
void report_stacks(struct report *r);

/* The stacks as lines for flame graphs.  0, or -1: they could not be
 * written. */
int report_print_collapsed(struct report_view *view, struct report *r);

#endif
