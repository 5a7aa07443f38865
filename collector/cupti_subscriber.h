/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CUPTI_SUBSCRIBER_H
#define GPUTRACE_COLLECTOR_CUPTI_SUBSCRIBER_H

#include <cupti.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * CUPTI's one subscriber: ours sees cudaProfilerStart and Stop where they are
 * not interposed (a static cudart, dlsym), and tells of them; and calls that
 * cupti_calls.c wants to see.  Any other client may have the place:
 * cupti_give_way() (cupti.h).
 */

/* `call` is called on the program's thread.  0, or -errno (said in a line).
 * Context: attach. */
int cupti_subscribe(void (*call)(bool start));

/* Both ends of the calls that are enabled.
 * Context: the program's thread, in CUPTI; errno is kept by the caller. */
typedef void (*cupti_call_fn)(const CUpti_CallbackData *data);
int cupti_subscribe_calls(cupti_call_fn call);

/* False: it cannot be seen.  Context: one thread at a time. */
bool cupti_subscriber_enable(bool is_runtime, uint32_t cbid, bool on);

void cupti_subscriber_in_child(void);   /* of a fork */

#endif
