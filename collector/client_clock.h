/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CLIENT_CLOCK_H
#define GPUTRACE_COLLECTOR_CLIENT_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * CUPTI has one clock for all clients, and changing it more often than need
 * be damages the first times of each session (pytorch/pytorch#192021).  So
 * once another client has given CUPTI its own (PyTorch: the CPU's counter),
 * CUPTI keeps that, and the times of our activities are converted:
 *
 *   pairs (client's clock, ours), made before activities are read, and lines
 *   between them
 *
 * A time within some years of ours is in ours already: activities from before
 * the change, and clients that count as we do.
 */

/* The clock that CUPTI was given.  Context: the client's thread. */
void client_clock_set(uint64_t (*now)(void));
bool client_clock_is_set(void);
bool client_clock_is(uint64_t (*now)(void));

/* One more pair.  Context: any thread but the program's hot path. */
void client_clock_sample(void);

/* As CUPTI says it -> ns of clock.h; 0 stays 0.  Context: writer thread. */
uint64_t client_clock_to_ns(uint64_t time);

#endif
