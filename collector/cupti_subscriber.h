/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CUPTI_SUBSCRIBER_H
#define GPUTRACE_COLLECTOR_CUPTI_SUBSCRIBER_H

#include <stdbool.h>

/*
 * CUPTI's one subscriber: ours sees cudaProfilerStart and Stop where they are
 * not interposed (a static cudart, dlsym), and tells of them.  Any
 * other client may have the place: cupti_give_way() (cupti.h).
 */

/* `call` is called on the program's thread.  0, or -errno (said in a line).
 * Context: attach. */
int cupti_subscribe(void (*call)(bool start));

void cupti_subscriber_in_child(void);   /* of a fork */

#endif
