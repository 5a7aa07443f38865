/* SPDX-License-Identifier: MIT */
#include <stddef.h>

#include "tools/report_print.h"

/* The columns of every table of groups; JSON has the same keys in all. */
#define C(title, key, kind, use, what, set) \
	{ { title, key, CELL_##kind, COLUMN_##use }, CELL_OF_##what, SET_##set }

#define TIMES(count) \
	C("Time (%)", "share", SHARE, BOTH, SHARE, TIME), \
	C("Total Time (ns)", "total_ns", NS, BOTH, TOTAL, TIME), \
	C(count, "count", COUNT, BOTH, COUNT, TIME), \
	C("Avg (ns)", "avg_ns", NS, BOTH, AVG, TIME), \
	C("Med (ns)", "median_ns", NS, BOTH, MEDIAN, TIME), \
	C("Min (ns)", "min_ns", NS, BOTH, MIN, TIME), \
	C("Max (ns)", "max_ns", NS, BOTH, MAX, TIME), \
	C("StdDev (ns)", "stddev_ns", NS, BOTH, STDDEV, TIME)
#define SIZES(use) \
	C("Avg (MB)", "avg_bytes", BYTES, use, AVG, BYTES), \
	C("Med (MB)", "median_bytes", BYTES, use, MEDIAN, BYTES), \
	C("Min (MB)", "min_bytes", BYTES, use, MIN, BYTES), \
	C("Max (MB)", "max_bytes", BYTES, use, MAX, BYTES), \
	C("StdDev (MB)", "stddev_bytes", BYTES, use, STDDEV, BYTES)
/* As nsys calls them: T(otal), A(PI), Q(ueue), K(ernel). */
#define PART(letter, key, set) \
	C(letter "Avg (ns)", key "avg_ns", NS, BOTH, AVG, set), \
	C(letter "Med (ns)", key "median_ns", NS, BOTH, MEDIAN, set), \
	C(letter "Min (ns)", key "min_ns", NS, BOTH, MIN, set), \
	C(letter "Max (ns)", key "max_ns", NS, BOTH, MAX, set), \
	C(letter "StdDev (ns)", key "stddev_ns", NS, BOTH, STDDEV, set)
#define PLACE \
	C("Where", "where", TEXT, BOTH, PLACE, TIME)
#define NAME(title) \
	C(title, "name", TEXT, BOTH, NAME, TIME)
#define STYLE \
	C("Style", "style", TEXT, BOTH, SECOND, TIME)
#define THREAD \
	C("PID", "pid", TEXT, BOTH, PID, TIME), \
	C("TID", "tid", TEXT, BOTH, TID, TIME)

static const struct report_column kernel_columns[] = {
	TIMES("Instances"), PLACE, NAME("Name"),
};

static const struct report_column shape_columns[] = {
	TIMES("Instances"), PLACE,
	C("GridXYZ", "grid", TEXT, BOTH, GRID, TIME),
	C("BlockXYZ", "block", TEXT, BOTH, BLOCK, TIME), NAME("Name"),
};

static const struct report_column api_columns[] = {
	TIMES("Num Calls"), PLACE, NAME("Name"),
};

static const struct report_column copy_columns[] = {
	TIMES("Count"),
	C("", "total_bytes", BYTES, JSON, TOTAL, BYTES), SIZES(JSON),
	PLACE, NAME("Operation"),
};

static const struct report_column size_columns[] = {
	C("Total (MB)", "total_bytes", BYTES, TEXT, TOTAL, BYTES),
	C("Count", "count", COUNT, TEXT, COUNT, BYTES), SIZES(TEXT),
	PLACE, NAME("Operation"),
};

static const struct report_column range_columns[] = {
	TIMES("Instances"),
	C("Self Time (ns)", "self_ns", NS, BOTH, SELF, TIME), STYLE, PLACE, NAME("Range"),
};

static const struct report_column projected_columns[] = {
	C("Proj Time (%)", "share", SHARE, BOTH, SHARE, TIME),
	C("Total Proj Time (ns)", "total_ns", NS, BOTH, TOTAL, TIME),
	C("Range Instances", "count", COUNT, BOTH, COUNT, TIME),
	PART("Proj ", "", TIME),
	C("Total Range Time (ns)", "range_ns", NS, BOTH, RANGE_NS, TIME),
	C("Total GPU Ops", "gpu_ops", COUNT, BOTH, OPS, TIME),
	C("Avg GPU Ops", "avg_gpu_ops", MEAN, BOTH, AVG_OPS, TIME),
	C("Avg Range Lvl", "avg_level", MEAN, BOTH, AVG_LEVEL, TIME),
	C("Avg Num Child", "avg_children", MEAN, BOTH, AVG_CHILDREN, TIME),
	STYLE, PLACE, NAME("Range"),
};

static const struct report_column range_kernel_columns[] = {
	TIMES("Kern Inst"),
	C("NVTX Inst", "ranges", COUNT, BOTH, INSTANCES, TIME),
	THREAD, C("NVTX Range", "range", TEXT, BOTH, SECOND, TIME),
	NAME("Kernel Name"),
};

static const struct report_column launch_columns[] = {
	C("Total Time (ns)", "total_ns", NS, BOTH, TOTAL, TIME),
	C("Count", "count", COUNT, BOTH, COUNT, TIME),
	C("QCount", "queue_count", COUNT, BOTH, COUNT, QUEUE),
	PART("T", "", TIME), PART("A", "api_", API),
	PART("Q", "queue_", QUEUE), PART("K", "kernel_", KERNEL), THREAD,
	C("DevId", "device", COUNT, BOTH, DEVICE, TIME),
	C("API Name", "api", TEXT, BOTH, SECOND, TIME), NAME("Kernel Name"),
};

static const struct report_column graph_launch_columns[] = {
	TIMES("Launches"),
	C("API Time (ns)", "api_ns", NS, BOTH, RANGE_NS, TIME),
	C("GPU Ops", "gpu_ops", COUNT, BOTH, OPS, TIME), PLACE, NAME("Graph"),
};

/* Of PyTorch's key_averages().table(). */
static const struct report_column op_columns[] = {
	C("Self CPU (ns)", "self_cpu_ns", NS, BOTH, SELF, TIME),
	C("CPU total (ns)", "cpu_ns", NS, BOTH, TOTAL, TIME),
	C("CPU avg (ns)", "avg_cpu_ns", NS, BOTH, AVG, TIME),
	C("Self CUDA (ns)", "self_gpu_ns", NS, BOTH, RANGE_NS, TIME),
	C("CUDA total (ns)", "gpu_ns", NS, BOTH, TOTAL, GPU),
	C("CUDA avg (ns)", "avg_gpu_ns", NS, BOTH, AVG, GPU),
	C("# of Calls", "count", COUNT, BOTH, COUNT, TIME), PLACE,
	NAME("Name"),
};

#define TABLE(key, title, groups, columns, set, use) \
	{ key, title, offsetof(struct report, groups), columns, \
	  sizeof(columns) / sizeof(*(columns)), SET_##set, COLUMN_##use }

const struct report_table report_tables[] = {
	TABLE("kernels", "Kernels", kernels, kernel_columns, TIME, BOTH),
	TABLE("kernels_grid", "Kernels by grid and block", shapes,
	      shape_columns, TIME, BOTH),
	TABLE("api", "CUDA API calls", api, api_columns, TIME, BOTH),
	TABLE("launches", "Kernels from launch to end", launches,
	      launch_columns, TIME, BOTH),
	TABLE("copies", "Copies and sets by time", copies, copy_columns, TIME,
	      BOTH),
	TABLE("copy_sizes", "Copies and sets by size", copies, size_columns,
	      BYTES, TEXT),
	TABLE("nvtx", "NVTX ranges on the CPU", ranges, range_columns, TIME,
	      BOTH),
	TABLE("nvtx_gpu", "NVTX ranges projected on the GPU", projected,
	      projected_columns, TIME, BOTH),
	TABLE("nvtx_kernels", "Kernels in NVTX ranges", range_kernels,
	      range_kernel_columns, TIME, BOTH),
	TABLE("ops", "Operators", ops, op_columns, GPU, BOTH),
	TABLE("graphs", "CUDA graphs recorded as a whole", graphs,
	      kernel_columns, TIME, BOTH),
	TABLE("graph_launches", "CUDA graphs by launch", graph_launches,
	      graph_launch_columns, TIME, BOTH),
	TABLE("osrt", "Blocking calls of the C library", blocking,
	      api_columns, TIME, BOTH),
};

const size_t report_nr_tables = sizeof(report_tables) / sizeof(*report_tables);
