// SPDX-License-Identifier: MIT
/*
 * The simulator's environment variables. They are read when they are
 * first needed. Numbers are decimal.
 *
 * Sizes and speeds
 *   SIM_DEVICES=N          devices, default 1, at most 72
 *   SIM_DRIVER_VERSION=N   cuDriverGetVersion, default 13000
 *   SIM_CAPABILITY=N       compute capability of the devices, 90 for 9.0
 *   SIM_KERNEL_NS=N        length of a kernel whose first parameter is not a
 *                          u64 named `..._ns`; default 5000
 *   SIM_LAUNCH_NS=N        CPU time of a launch, default 1500
 *   SIM_LATENCY_NS=N       from submission to start, default 3000
 *   SIM_CUPTI_VERSION=N    cuptiGetVersion, default 130001; 18 (11.8), 22
 *                          (12.4), 26 (12.8) ... have that version's records
 *                          (cupti_layout.c), attributes and functions; of a
 *                          newer major CUDA than the driver it gives 15
 *
 * Faults
 *   SIM_ERROR=NAME=CODE[@N][,...]   that call (cuda or cupti) gives CODE,
 *                          from its N-th call on (default 1)
 *   SIM_SUBSCRIBER=NAME    a subscriber is there already: every CUPTI call
 *                          that needs the process gives 39, subscribe_v2 NAME
 *   SIM_KEEP_OPEN=N        the record of the N-th kernel (from 1) never
 *                          completes
 *   SIM_TIMES=HOW@N        each N-th kernel record has wrong times: HOW is
 *                          zero (both 0), reversed (end < start), sentinel
 *                          (both 2^63), ones (end 2^64 - 1), early (1 h ago)
 *   SIM_API_TIMES=HOW@N    the same for the records of calls
 *   SIM_CLOCK_PPM=N        the device's clock is so much faster (negative:
 *                          slower) than the CPU's
 *   SIM_CLOCK_JUMP_MS=N    and jumps by so much, a second after the first work
 *   SIM_LATE_MS=N          a completed buffer is handed over N ms late
 *   SIM_FLUSH_MS=N         each flush takes N ms more, as behind a lock of the
 *                          driver
 *   SIM_DISK_MS=N          each pwrite() of the process takes N ms more
 *   SIM_NAME_BYTES=N       kernel names are stretched to N bytes
 *   SIM_NAME_RAW=1         kernel names hold every byte from 1 to 255
 *   SIM_NAME_HEX=1         a kernel `hex_...` is called by the bytes that
 *                          follow as hex digits
 *   SIM_SILENT_AFTER=N     after the N-th cuptiActivityDisable of a kernel
 *                          kind no record is written any more
 *   SIM_NO_KERNELS=N       from the N-th kernel on (from 1) no kernel has a
 *                          record
 *   SIM_KEEP_BUFFERS=N     each N-th buffer never comes back
 *   SIM_DROP=N             each N-th record is dropped and counted
 *
 * A NULL buffer crashes the process when SIM_CUPTI_VERSION is below 27, as
 * the real one did.
 */
#ifndef GPUTRACE_TEST_SIM_SIM_ENV_H
#define GPUTRACE_TEST_SIM_SIM_ENV_H

#include <stdbool.h>
#include <stdint.h>

/* The number in variable `name`, or `fallback`. */
__attribute__((visibility("default")))
uint64_t sim_env_number(const char *name, uint64_t fallback);

/* SIM_ERROR: the code for this call of `name`, 0 if none. Thread-safe. */
__attribute__((visibility("default")))
int sim_env_error(const char *name);

#endif
