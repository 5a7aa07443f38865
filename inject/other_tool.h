/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_OTHER_TOOL_H
#define GPUTRACE_INJECT_OTHER_TOOL_H

/*
 * Somebody else's library in CUDA_INJECTION64_PATH, NVTX_INJECTION64_PATH or
 * NCCL_PROFILER_PLUGIN: the driver, NVTX and NCCL have room for one.  It was
 * put there on purpose and stays; what the user misses is said.
 */

/* The library that the variable named when we were loaded, or NULL if it was
 * not set or is this one.  Context: attach, and calls as rare. */
const char *other_tool(const char *variable);

#endif
