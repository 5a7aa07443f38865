/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_OCCUPANCY_H
#define GPUTRACE_WRITER_OCCUPANCY_H

#include <stdint.h>

#include "collector/activity.h"

/*
 * How many blocks of a kernel fit on a multiprocessor at once, by the rules of
 * CUDA's occupancy calculator (cuda_occupancy.h).  An estimate: it knows the
 * limits, not what else ran.  Context: writer thread.
 */
struct occupancy {
	uint32_t blocks;        /* per multiprocessor; 0: cannot run */
	uint32_t warps_per_block;
	uint32_t max_warps;     /* per multiprocessor; 0: device not known */
	const char *limit;      /* "WARPS", "REGS", "SMEM" or "BLOCKS" */
};

void occupancy_of(const struct device *device, const struct kernel *kernel,
		  struct occupancy *out);

#endif
