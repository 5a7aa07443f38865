/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_API_CALLS_H
#define GPUTRACE_COLLECTOR_API_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Which CUDA calls are recorded (GPUTRACE_API), by callback id.
 *
 * A deny-list: calls that only ask (which device? is this capturing?) are 16
 * of 17 calls of an eager PyTorch program.  Whatever is not on it is
 * recorded, so that a launch function of a later CUDA version has its arrow.
 */
#define API_CBID_MAX 2048       /* 13.0 has 500 runtime, 750 driver ids */

/* Finds the callback ids of the denied names with cuptiGetCallbackName.
 * all: nothing is denied.  Context: attach, once. */
void api_calls_init(bool all);

/* Context: any, after api_calls_init(). */
bool api_is_denied(bool is_runtime, uint32_t cbid);

/* Calls `visit` for each denied id.  Context: attach. */
void api_each_denied(bool is_runtime, void (*visit)(uint32_t cbid));

/* Calls `visit` for each id of a call that the list names, as above.
 * Context: attach. */
void api_each_named(bool is_runtime, const char *const *list, size_t nr,
		    void (*visit)(bool is_runtime, uint32_t cbid));

#endif
