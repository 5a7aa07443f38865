/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_ARM_H
#define GPUTRACE_INJECT_ARM_H

/*
 * The variables by which the driver, NVTX and NCCL find us.
 */
#define ARM_CUDA "CUDA_INJECTION64_PATH"
#define ARM_NVTX "NVTX_INJECTION64_PATH"
#define ARM_NCCL "NCCL_PROFILER_PLUGIN"

/* The path of this library, without links, or NULL: not to be had.  Looked up
 * by the first call.  Context: constructor. */
const char *arm_path(void);

/*
 * Sets the variable to that path unless it is set; nothing where arm_path()
 * has not been called, or had none.
 *
 * In a late load, or in cuInit, other threads may be reading the environment.
 * setenv() would move the array that they read and free the old one (33 crashes
 * in 100 loads beside 4 threads that call getenv(), glibc 2.36); this puts a
 * copy with one more entry in its place and frees nothing.  The one thing that
 * can be lost is a setenv() of another thread in that very microsecond.
 * Context: constructor, attach, or our own thread in a late load, even where
 * somebody has the loader's lock.
 */
void arm(const char *variable);

#endif
