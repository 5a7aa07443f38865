/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_NCCL_PLUGIN_H
#define GPUTRACE_INJECT_NCCL_PLUGIN_H

/*
 * Lets NCCL load this library as its profiler plug-in: NCCL_PROFILER_PLUGIN,
 * which it reads when it makes the first communicator, is set to this file.
 *
 * Not where it is set already, to whatever, or is in a file that NCCL would
 * read it from: what the user chose stays.  Set when the process calls cuInit,
 * which is before any communicator: shells and wrappers have no such variable,
 * and what the program itself has set by then counts.
 *
 * Context: attach, where the settings want it.
 */
void nccl_plugin_arm(void);

#endif
