/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TEST_SIM_LIBRARY_NCCL_H
#define GPUTRACE_TEST_SIM_LIBRARY_NCCL_H

#include <stddef.h>

/*
 * The simulated NCCL's side of the profiler plug-in interface: what NCCL calls
 * in which order (its src/plugin/profiler.cc and enqueue.cc), for each version
 * of the interface.  Environment of the simulator:
 *
 *   SIM_NCCL=N         the newest version that this NCCL knows: 1 to 7, or 9,
 *                      of which nothing is known but that it is newer; 0: an
 *                      NCCL before 2.23; 5 where it is not set
 *   SIM_NCCL_THREAD=1  it launches, and tells, on a thread of its own, as
 *                      communicators that do not block do
 *
 * What it says that it chose is told by the count alone (nccl_choice()), so
 * that a test can compute it.
 */
enum nccl_func { BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE,
	SEND_RECV, SEND, RECV };

struct ncclComm {
	int ranks, rank;
	void *context;          /* the plug-in's */
};

struct nccl_task {
	struct ncclComm *comm;
	enum nccl_func func;
	size_t count;
	int type, root;
	/* As long as it is told. */
	int mask;
	void *api, *handle;
};

/* On the thread of the program. */
void nccl_tell_comm(struct ncclComm *comm);
void nccl_tell_comm_end(struct ncclComm *comm);
void nccl_tell_call(struct nccl_task *task);
/* On the thread that has launched it, all of one communicator. */
void nccl_tell_plan(struct nccl_task *tasks, int nr, struct ncclComm *comm);
void nccl_tell_group_end(void);

#endif
