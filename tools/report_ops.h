/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_REPORT_OPS_H
#define GPUTRACE_TOOLS_REPORT_OPS_H

#include <stddef.h>
#include <stdint.h>

/*
 * The framework's operators by name, as PyTorch's key_averages() has them:
 * cpu_op slices, and on their threads the program's ranges and CUDA calls too,
 * which take their part of the CPU time.
 */
struct report_ops {
	size_t nr;              /* that are selected, first in the list */
	int64_t self_cpu_ns, self_gpu_ns;       /* in all */
};

struct report;
/* After selection; sorts the operators. */
void report_ops(struct report *r);

#endif
