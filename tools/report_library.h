/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_REPORT_LIBRARY_H
#define GPUTRACE_TOOLS_REPORT_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/trace.h"
#include "tools/vec.h"

/*
 * Part of report.h: calls of libraries, and how fast the GPU did what they
 * asked for.
 *
 *      slices, as the file has them
 *          -> units: the outermost call that says its work; in NCCL's groups
 *             all that stands between the start and the end
 *          -> each kernel to the unit that its launch lies in
 *          -> rows by name and shape
 *
 * A unit without kernels (refused; captured into a graph) counts nowhere.
 *
 * A task is what NCCL says itself, when it has launched it: inside a unit it
 * tells the unit's algorithm.  Outside of all, where no wrapper saw the call,
 * the tasks of one plan are a unit, to which NCCL's kernels belong that the
 * thread has launched since its last unit.
 */
enum library_kind { LIBRARY_WORK, LIBRARY_COLLECTIVE, LIBRARY_GROUP_START,
	LIBRARY_GROUP_END, LIBRARY_TASK };

struct library_slice {
	int64_t start, end;
	double amount;          /* FLOP; bytes */
	double bus;             /* bytes on the bus, by nccl-tests' factor */
	int64_t plan;           /* 0: none */
	uint32_t lane, name, shape, algorithm;
	uint32_t comm;          /* of NCCL's own range; INTERN_NONE: a call */
	uint16_t channels;      /* 0: not told */
	uint8_t kind;
};

struct library_unit {
	int64_t start, end, busy_ns, first_ns, last_ns;
	double amount, bus;
	uint64_t devices;       /* bits: that have kernels of it */
	uint32_t lane, name, shape, algorithm;
	uint32_t nr_calls, nr_kernels;
	int64_t plan;           /* of tasks alone; else 0 */
	uint16_t channels;
	bool is_collective, is_told;    /* is_told: the algorithm, by a task */
};

struct report_library {
	struct library_slice *slice;
	struct library_unit *unit;
	size_t nr_slices, cap_slices, nr_units, cap_units;
	struct pairs ranks;     /* of communicators, as NCCL tells NVTX */
};

struct report;
/* Keeps a slice of cat cublas, cudnn or nccl, and a range of NCCL's own. */
void report_library_add(struct report *r, const struct trace_event *ev,
			uint32_t name, int64_t start, int64_t end);
/* After selection. */
void report_library(struct report *r);
void report_library_fini(struct report_library *library);

/* report_nccl.c: NCCL's own NVTX ranges.  Whether it is one; what it says, if
 * that is a collective; when all are read. */
bool report_nccl_is(const struct trace_event *ev);
bool report_nccl_read(struct report *r, const struct trace_event *ev,
		      struct library_slice *s);
void report_nccl_finish(struct report *r);
/* Bytes on the bus, 0: not known without the number of ranks. */
double report_nccl_bus(const char *name, int64_t ranks, double bytes);

#endif
