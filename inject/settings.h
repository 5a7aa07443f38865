/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_SETTINGS_H
#define GPUTRACE_INJECT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What GPUTRACE_TRACE may name, for people; in two lines of a help text. */
#define SOURCE_WORDS(gap) \
	"cuda, nvtx, memory, uvm, osrt," gap \
	"cpu, nvml, stacks, cublas, cudnn, nccl, torch"

/*
 * The one list of settings: environment variables of the library, options of
 * `gputrace record`, and the manual's section ENVIRONMENT.
 *
 *   X(ID, variable, option, kind, default, help)
 *
 * kind: what setting_check() accepts.  A default of "" means: not set.  help:
 * lines of 50 columns at most.
 */
#define SETTINGS(X) \
	X(OUT, "GPUTRACE_OUT", "out", TEXT, "gputrace-%h-%p.json", \
	  "file to write; %p pid, %h host, %r rank,\n" \
	  "%n program, %t start time, %w window") \
	X(TRACE, "GPUTRACE_TRACE", "trace", SOURCES, "cuda,nvtx", \
	  "what to record: " SOURCE_WORDS("\n")) \
	X(API, "GPUTRACE_API", "api", API, "essential", \
	  "API calls to record: essential, all, none") \
	X(GRAPH, "GPUTRACE_GRAPH", "graph", GRAPH, "node", \
	  "CUDA graphs: node (each kernel) or graph (one\nslice a launch)") \
	X(START, "GPUTRACE_START", "start", START, "now", \
	  "now, off, profiler-api, nvtx:NAME[@DOMAIN] (while\n" \
	  "such a range is open), delay:TIME") \
	X(DURATION, "GPUTRACE_DURATION", "duration", DURATION, "", \
	  "end of a window, from its start") \
	X(SCHEDULE, "GPUTRACE_SCHEDULE", "schedule", SCHEDULE, "", \
	  "steps: wait=1,warmup=1,active=3[,repeat=1]") \
	X(STEP, "GPUTRACE_STEP", "step", NAME, "", \
	  "name of the NVTX range that is a step") \
	X(BUFFER, "GPUTRACE_BUFFER", "buffer", SIZE, "256M", \
	  "bound of the memory that the library holds") \
	X(RECORDER, "GPUTRACE_RECORDER", "recorder", DURATION, "", \
	  "keep the last TIME in memory, write on demand") \
	X(DUMP_ON, "GPUTRACE_DUMP_ON", "dump-on", MARK, "", \
	  "nvtx:NAME[@DOMAIN]: this mark writes it") \
	X(CONTROL, "GPUTRACE_CONTROL", "control", CONTROL, "on", \
	  "socket for gputrace start, stop, ...: on, off") \
	X(SIGNAL, "GPUTRACE_SIGNAL", "signal", SIGNAL, "", \
	  "USR2, RTMIN+3 ...: starts and stops a window") \
	X(DUMP_SIGNAL, "GPUTRACE_DUMP_SIGNAL", "dump-signal", SIGNAL, "", \
	  "likewise: writes the flight recorder") \
	X(FLUSH, "GPUTRACE_FLUSH", "flush", DURATION, "1s", \
	  "time between two writes") \
	X(MAX_SIZE, "GPUTRACE_MAX_SIZE", "max-size", SIZE, "1G", \
	  "bound of one file") \
	X(ON_FULL, "GPUTRACE_ON_FULL", "on-full", ON_FULL, "rotate", \
	  "at that bound: rotate or stop") \
	X(KEEP, "GPUTRACE_KEEP", "keep", COUNT, "4", \
	  "rotated files that stay") \
	X(NAMES, "GPUTRACE_NAMES", "names", NAMES, "short", \
	  "kernel names: short, full, mangled") \
	X(OSRT_MIN, "GPUTRACE_OSRT_MIN", "osrt-min", DURATION, "1us", \
	  "osrt: shortest blocking call that is recorded") \
	X(STACK_MIN, "GPUTRACE_STACK_MIN", "stack-min", DURATION, "80us", \
	  "stacks: shortest wait that has its stack taken") \
	X(SAMPLE_HZ, "GPUTRACE_SAMPLE_HZ", "sample-hz", COUNT, "99", \
	  "stacks: samples in a second of CPU time") \
	X(TORCH_SHAPES, "GPUTRACE_TORCH_SHAPES", "torch-shapes", CONTROL, \
	  "off", "torch: shapes of operators' inputs: on, off") \
	X(TORCH_MODULES, "GPUTRACE_TORCH_MODULES", "torch-modules", CONTROL, \
	  "on", "torch: modules around operators: on, off") \
	X(TORCH_MEMORY, "GPUTRACE_TORCH_MEMORY", "torch-memory", CONTROL, \
	  "on", "torch: the caching allocator's events: on, off") \
	X(NCCL_PLUGIN, "GPUTRACE_NCCL_PLUGIN", "nccl-plugin", CONTROL, "on", \
	  "nccl: what NCCL says itself, too: on, off") \
	X(NVTX_DOMAINS, "GPUTRACE_NVTX_DOMAINS", "nvtx-domains", GLOBS, "", \
	  "record only these NVTX domains (globs,\ncomma-separated)") \
	X(KERNELS, "GPUTRACE_KERNELS", "kernels", GLOBS, "", \
	  "record only kernels with these names (globs,\ncomma-separated)") \
	X(ARGV, "GPUTRACE_ARGV", "argv", ARGV, "masked", \
	  "command line in the file: masked (secrets), off") \
	X(CUPTI, "GPUTRACE_CUPTI", "cupti", TEXT, "", \
	  "path of the libcupti to use") \
	X(LOG, "GPUTRACE_LOG", "log", LOG, "warn", \
	  "quiet, warn, info, debug; LEVEL:FILE: to a file")

enum setting_id {
#define X(id, variable, option, kind, fallback, help) SETTING_##id,
	SETTINGS(X)
#undef X
	SETTING_NR
};

enum setting_kind {
	KIND_TEXT, KIND_GLOBS, KIND_NAME, KIND_MARK, KIND_SCHEDULE,
	KIND_SIZE, KIND_DURATION, KIND_COUNT, KIND_SIGNAL,
	KIND_SOURCES, KIND_API, KIND_GRAPH, KIND_START, KIND_CONTROL,
	KIND_ON_FULL, KIND_NAMES, KIND_ARGV, KIND_LOG,
};

struct setting {
	const char *name;       /* "GPUTRACE_OUT" */
	const char *option;     /* "out": --out of gputrace record */
	enum setting_kind kind;
	const char *fallback;   /* text of the default */
	const char *help;
};

/* Bounds of names with wildcards: all together, and each. */
#define SETTING_GLOBS_MAX 1023
#define SETTING_GLOB_MAX 255

/* Of the name of a range or mark, and of its domain. */
#define SETTING_NAME_MAX 255

extern const struct setting settings_table[];
extern const size_t settings_nr;

/* 0, or -EINVAL with the reason in `why` ("not a size: 12Q").  No memory, no
 * locale.  Context: any. */
int setting_check(const struct setting *setting, const char *value, char *why,
		  size_t why_size);

/* The value as a number: bytes, nanoseconds, a count, or a signal; the place in
 * the list of words for kinds that have one; a bit set for SOURCES; 0 for what
 * is not set, and for texts.  The value must have passed setting_check(). */
uint64_t setting_number(const struct setting *setting, const char *value);

/* "nvtx:NAME@DOMAIN" of MARK and START, and "delay:5s": what stands behind the
 * colon.  Names may hold an @; the last one begins the domain (NULL: any). */
struct setting_mark {
	const char *name, *domain;
	size_t name_len, domain_len;
};
void setting_mark(const char *value, struct setting_mark *mark);
uint64_t setting_delay_ns(const char *value);

/* Steps of each stretch; repeat 0: for ever.  False: no schedule. */
struct setting_schedule {
	uint32_t wait, warmup, active, repeat;
};
bool setting_schedule(const char *value, struct setting_schedule *schedule);

/* Words of the kinds that are one of a list, in this order. */
enum { API_ESSENTIAL, API_ALL, API_NONE };
enum { GRAPH_NODE, GRAPH_GRAPH };
enum {
	START_NOW, START_OFF, START_PROFILER_API, START_NVTX, START_DELAY,
};
enum { CONTROL_ON, CONTROL_OFF };
enum { FULL_ROTATE, FULL_STOP };
enum { NAME_SHORT, NAME_FULL, NAME_MANGLED };
enum { ARGV_MASKED, ARGV_OFF };
enum { LEVEL_QUIET, LEVEL_WARN, LEVEL_INFO, LEVEL_DEBUG };
enum {
	SOURCE_CUDA = 1 << 0, SOURCE_NVTX = 1 << 1, SOURCE_MEMORY = 1 << 2,
	SOURCE_UVM = 1 << 3, SOURCE_OSRT = 1 << 4, SOURCE_CPU = 1 << 5,
	SOURCE_NVML = 1 << 6, SOURCE_STACKS = 1 << 7, SOURCE_CUBLAS = 1 << 8,
	SOURCE_CUDNN = 1 << 9, SOURCE_NCCL = 1 << 10, SOURCE_TORCH = 1 << 11,
};

#endif
