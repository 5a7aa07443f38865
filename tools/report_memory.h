/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_REPORT_MEMORY_H
#define GPUTRACE_TOOLS_REPORT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/json.h"

/* Part of report.h: the use of memory, bytes. */
struct report;

struct memory_event {           /* an allocation, or a free: bytes < 0 */
	int64_t at, bytes, total, reserved;     /* -1: not said */
	uint32_t pool;
	bool is_failure;        /* an allocation that there was no room for */
};

struct pool {                   /* memory of a process on a device */
	int64_t type, device;   /* as PyTorch: type 0 is the CPU, 1 CUDA */
	uint32_t process;
	uint64_t nr_allocations, nr_frees, nr_failures;
	int64_t allocated, freed, peak, reserved_peak;
};

/* Keeps an instant "[memory]", or "[OutOfMemory]", of a process at a time. */
void report_memory_add(struct report *r, const struct json_value *args,
		       uint32_t process, int64_t at, bool is_failure);

/* Sums of each pool, at last.  Context: report_finish(). */
struct report_select;
void report_memory(struct report *r, const struct report_select *select);

#endif
