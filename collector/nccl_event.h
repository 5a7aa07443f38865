/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_NCCL_EVENT_H
#define GPUTRACE_COLLECTOR_NCCL_EVENT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What NCCL itself says of its work, through its profiler plug-in interface:
 * the algorithm and the protocol that it chose, and calls that no wrapper saw
 * (a program that has the functions from dlsym() of the library's handle).
 *
 *   inject/interpose_nccl_profiler.c   what NCCL looks up and calls
 *       -> collector/nccl_event.c      a slice of the source `nccl`
 *
 * NCCL tells of a task (a collective, a send, a receive) when the kernel that
 * holds it has been launched, on the thread that launched it: the slice lies
 * in the wrapper's, where there is one, and is as short as the telling.  Tasks
 * of one kernel have the same number, `plan`.  Of the replay of a CUDA graph
 * it tells, if at all, on a thread of the driver.
 *
 * NCCL asks a mask of its own whether to tell anything.  It is 0 while no
 * window with `nccl` is open.
 */
struct nccl_event {
	/* NCCL's words, or NULL: "AllReduce", "ncclFloat32", "RING", "LL". */
	const char *func, *type, *algorithm, *protocol;
	uint64_t count;
	uint64_t sequence;      /* in the communicator, by function; else 0 */
	uint64_t comm_hash;     /* 0: as nccl_event_comm() was told */
	uint64_t plan;          /* 0: none */
	int root;               /* or the peer; -1: none */
	int rank;               /* the caller's, where `comm` is not known */
	uint32_t channels;      /* 0: not told */
};

/* From a communicator's beginning to its end, which is NCCL's init() to
 * finalize().  `mask` is NCCL's own, in its data, and is written from now on as
 * windows open and close; its library stays loaded.  Where it is in no library
 * it is written once, for good.  Returns what the communicator's events are
 * given with, or NULL: nothing of it is known.
 * Context: NCCL's init, on a thread of the program; takes the loader's lock. */
void *nccl_event_comm(int *mask, uint64_t hash, const char *name, int ranks,
		      int rank);
void nccl_event_comm_end(void *comm);

/* The number of the next plan.  Context of both: any thread; no lock, no
 * memory, no system call, but for a thread's first record. */
uint64_t nccl_event_plan(void);
void nccl_event(const void *comm, const struct nccl_event *event);

/* A window of which `nccl` is part is open, is over.  Context: the source's
 * open, close and forget. */
void nccl_event_open(void);
void nccl_event_close(void);

/* NCCL has been told to load this library: calls are seen without wrappers,
 * too.  Context: attach, before the source is armed. */
void nccl_event_expect(void);
bool nccl_event_is_expected(void);

#endif
