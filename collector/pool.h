/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_POOL_H
#define GPUTRACE_COLLECTOR_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/activity_buffer.h"

/*
 * The memory that CUPTI fills with activities.
 *
 *   pool_take()  ->  CUPTI  ->  pool_complete()  ->  activity_take()
 *    free list     (outside)      done list           writer thread
 *        ^------------ activity_recycle() <---------------'
 *
 * The buffers are parts of one mapping, always zeroed when they are free, so
 * that CUPTI need not clear them in the program's thread.  Both lists are
 * lock-free.  When no buffer is free, CUPTI gets a spare one whose contents
 * are thrown away and counted: refusing it a buffer crashes CUPTI before
 * version 12.9.
 */

/*
 * 256 KiB: about 1,000 kernels with their launches.  A thread's first buffer
 * has 16 KiB: CUPTI keeps one for each thread, and programs that start a
 * thread for each request would soon hold all of the large ones.  (CUPTI
 * takes buffers of 1 KiB: test/sim/facts.txt.)  What is in spare ones is
 * thrown away.
 */
#define POOL_BUFFER_SIZE (256u << 10)
#define POOL_SMALL_SIZE (16u << 10)
#define POOL_SPARE_SIZE (4u << 10)

/* Maps `bytes` of buffers.  0 or -ENOMEM.  Context: attach, once. */
int pool_init(uint64_t bytes);

/* A buffer for CUPTI, small or large, and its size.  NULL when even the spare
 * ones are out.  Context: application thread inside CUPTI; no lock. */
uint8_t *pool_take(int is_small, size_t *size);

/* One of ours.  Context: any thread. */
bool pool_owns(const uint8_t *data);

/* The clock (client_clock.h) of an activity in one of ours; 0 elsewhere. */
uint32_t pool_clock_of(const void *raw);

/* CUPTI is done with it.  Context: any thread. */
void pool_complete(uint8_t *data, uint64_t valid);

/* Buffers that CUPTI holds. */
uint32_t pool_outstanding(void);

/* Since when it holds the one that it has held longest; UINT64_MAX for none.
 * Context: flush thread. */
uint64_t pool_oldest_ns(void);

/* Buffers that CUPTI has held since before that time will not come back: they
 * are counted as lost and no longer as outstanding, until they come after
 * all.  Context: flush thread. */
void pool_give_up(uint64_t before_ns);
uint32_t pool_lost(void);

/* How many there are, but for the spare ones. */
uint32_t pool_buffers(void);

/* The share of buffers in use, in percent. */
uint32_t pool_use(void);

/* A forced flush begins or has ended: what comes between, and in the second
 * after, is marked (activity_buffer.is_forced).  Context: flush thread. */
void pool_forcing(bool is_forcing);

/* True: completed buffers are recycled unread, to measure what CUPTI costs
 * without us (cupti_options.floor). */
void pool_discard(int discard);

#endif
