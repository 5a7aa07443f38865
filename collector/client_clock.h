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
 * A clock is known by its number: 0 is ours, and each buffer (pool.h) holds
 * times of one clock, since all are fetched before it changes.
 */

/* The clock that CUPTI was given.  Context: the client's thread. */
void client_clock_set(uint64_t (*now)(void));
bool client_clock_is(uint64_t (*now)(void));

/* The number of the one that CUPTI has now.  Context: any, signal-safe. */
uint32_t client_clock_number(void);

/* One more pair.  Context: any thread but the program's hot path. */
void client_clock_sample(void);

/* As CUPTI says it by that clock -> ns of clock.h; 0 stays 0, and is what
 * cannot be known.  Context: writer thread. */
uint64_t client_clock_to_ns(uint32_t number, uint64_t time);

#endif
