/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_SERIES_H
#define GPUTRACE_TOOLS_SERIES_H

#include <stdint.h>
#include <stdio.h>

#include "tools/model.h"

/*
 * What a page draws and no table has, as one JSON object:
 *
 *  start_ns, bin_ns, bins      the time of the whole trace in equal bins, the
 *                              last one may be shorter; times are those of the
 *                              first file
 *  files[]                     path, rank, shift_ns (a time here less that in
 *                              the file), step_source, step and steps[] with
 *                              ts_ns (as in the file) and dur_ns
 *  gpus[]                      file, device, busy_ns[] of each bin (the union
 *                              over streams), gaps
 *  launch_delays               and `inside`: operations that began before
 *                              their call returned
 *  ranges[]                    the NVTX ranges as a tree, see below
 *
 * A histogram is {count[], total_ns[]}: entry i is of the times from 2^i ns up
 * to, not with, 2^(i+1) ns.  A gap is the time between two stretches of work
 * of a GPU, over its streams.  A launch delay is from the end of a call to the
 * start of the first operation that it launched.
 */
enum { SERIES_BINS = 200, SERIES_POWERS = 63 };

struct series_histogram {
	uint64_t count[SERIES_POWERS];
	int64_t total_ns[SERIES_POWERS];
};

void series_count(struct series_histogram *h, int64_t ns);

/* Returns 0 or -ENOMEM; whether it could be written, the stream knows. */
int series_print(const struct model *m, FILE *to);

/*
 * ,"ranges":[{parent, name, count, total_ns, gpu_ns}...],"ranges_left_out":n
 *
 * Ranges of one name inside the same ones are one entry, over all threads.
 * parent: the index of an earlier entry, or -1.  gpu_ns: the summed durations
 * of the operations that were launched inside.  Left out are ranges that lie
 * deeper than SERIES_DEPTH, and those of new names when there are
 * SERIES_NODES entries.
 */
enum { SERIES_DEPTH = 64, SERIES_NODES = 5000 };
int series_print_ranges(const struct model *m, FILE *to);

#endif
