/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_SETTINGS_H
#define GPUTRACE_INJECT_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

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
	  "what to record: cuda, nvtx, memory, uvm") \
	X(API, "GPUTRACE_API", "api", API, "essential", \
	  "API calls to record: essential, all, none") \
	X(GRAPH, "GPUTRACE_GRAPH", "graph", GRAPH, "node", \
	  "CUDA graphs: node (each kernel) or graph (one\nslice a launch)") \
	X(START, "GPUTRACE_START", "start", START, "now", \
	  "now, off, or profiler-api (cudaProfilerStart/Stop)") \
	X(BUFFER, "GPUTRACE_BUFFER", "buffer", SIZE, "256M", \
	  "bound of the memory that the library holds") \
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
	KIND_TEXT, KIND_GLOBS, KIND_SIZE, KIND_DURATION, KIND_COUNT,
	KIND_SOURCES, KIND_API, KIND_GRAPH, KIND_START,
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

extern const struct setting settings_table[];
extern const size_t settings_nr;

/* 0, or -EINVAL with the reason in `why` ("not a size: 12Q").  No memory, no
 * locale.  Context: any. */
int setting_check(const struct setting *setting, const char *value, char *why,
		  size_t why_size);

/* The value as a number: bytes, nanoseconds, or a count; the place in the
 * list of words for kinds that have one; a bit set for SOURCES.  The value
 * must have passed setting_check(). */
uint64_t setting_number(const struct setting *setting, const char *value);

/* Words of the kinds that are one of a list, in this order. */
enum { API_ESSENTIAL, API_ALL, API_NONE };
enum { GRAPH_NODE, GRAPH_GRAPH };
enum { START_NOW, START_OFF, START_PROFILER_API };
enum { FULL_ROTATE, FULL_STOP };
enum { NAME_SHORT, NAME_FULL, NAME_MANGLED };
enum { ARGV_MASKED, ARGV_OFF };
enum { LEVEL_QUIET, LEVEL_WARN, LEVEL_INFO, LEVEL_DEBUG };
enum {
	SOURCE_CUDA = 1 << 0, SOURCE_NVTX = 1 << 1, SOURCE_MEMORY = 1 << 2,
	SOURCE_UVM = 1 << 3,
};

#endif
