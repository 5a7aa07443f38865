/* SPDX-License-Identifier: MIT */
/*
 * An NCCL whose ranks are all one process and which moves nothing: it keeps
 * groups as the real one does (what is asked for inside is launched at the
 * end, on the same thread), tells a profiler plug-in of it (library_nccl.h),
 * and counts how often it was asked who is who.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "test/sim/library_gpu.h"
#include "test/sim/library_nccl.h"

enum { MOST = 64 };             /* in a group */

struct unique_id {
	char bytes[128];
};

static _Atomic long questions;
static _Atomic pid_t owner;
static __thread int depth, waiting, nr_tasks;
static __thread struct nccl_task tasks[MOST];

LIBRARY_EXPORT long ncclSimQuestions(void)
{
	return questions;
}

static int make(struct ncclComm **comm, int ranks, int rank)
{
	*comm = malloc(sizeof(**comm));
	if (!*comm)
		return 2;
	**comm = (struct ncclComm){ ranks, rank, NULL };
	library_launch(KERNEL_ALL_REDUCE, NULL, 0);     /* the device */
	atomic_store(&owner, getpid());
	nccl_tell_comm(*comm);
	return 0;
}

LIBRARY_EXPORT int ncclCommInitAll(struct ncclComm **comms, int ranks,
	const int *devices)
{
	int i, result = 0;

	for (i = 0; i < ranks && !result; i++)
		result = make(&comms[i], ranks, i);
	return result;
}

LIBRARY_EXPORT int ncclCommInitRank(struct ncclComm **comm, int ranks,
	struct unique_id id, int rank)
{
	/* By value: the first and the last byte have come through. */
	if (id.bytes[0] != 1 || id.bytes[127] != 127)
		return 4;
	return make(comm, ranks, rank);
}

LIBRARY_EXPORT int ncclCommSplit(struct ncclComm *comm, int color, int key,
	struct ncclComm **child, void *config)
{
	return make(child, comm->ranks / 2, comm->rank / 2);
}

LIBRARY_EXPORT int ncclCommDestroy(struct ncclComm *comm)
{
	nccl_tell_comm_end(comm);
	free(comm);
	return 0;
}

LIBRARY_EXPORT int ncclCommCount(struct ncclComm *comm, int *count)
{
	questions++;
	*count = comm->ranks;
	return 0;
}

LIBRARY_EXPORT int ncclCommUserRank(struct ncclComm *comm, int *rank)
{
	questions++;
	*rank = comm->rank;
	return 0;
}

/* What the launching thread is handed. */
struct launch {
	struct nccl_task *tasks;
	int nr, nr_kernels;
};

/* The child of a fork has no GPU; what it tells all the same is told. */
static void launch_kernels(int nr)
{
	if (getpid() == atomic_load(&owner))
		library_launch(KERNEL_ALL_REDUCE, NULL, nr);
}

static int count_of(const struct nccl_task *tasks, int nr,
		    const struct ncclComm *comm)
{
	int i, of_it = 0;

	for (i = 0; i < nr; i++)
		of_it += tasks[i].comm == comm;
	return of_it;
}

/* A plan for each communicator, told when its kernels are on their way, before
 * those of the next. */
static void *launch(void *argument)
{
	struct launch *l = argument;
	int i, nr;

	for (i = 0; i < l->nr; i++) {
		if (count_of(l->tasks, i, l->tasks[i].comm))
			continue;
		nr = count_of(l->tasks, l->nr, l->tasks[i].comm);
		launch_kernels(nr);
		l->nr_kernels -= nr;
		nccl_tell_plan(l->tasks, l->nr, l->tasks[i].comm);
	}
	launch_kernels(l->nr_kernels);
	return NULL;
}

static int end_of_call(void)
{
	struct launch all = { tasks, nr_tasks, waiting };
	pthread_t thread;

	if (depth)
		return 0;
	if (!getenv("SIM_NCCL_THREAD"))
		launch(&all);
	else if (!pthread_create(&thread, NULL, launch, &all))
		pthread_join(thread, NULL);
	nccl_tell_group_end();
	waiting = nr_tasks = 0;
	return 0;
}

static int work(enum nccl_func func, size_t count, int type, int root,
		struct ncclComm *comm)
{
	if (!comm)
		return 4;       /* ncclInvalidArgument */
	waiting++;
	if (nr_tasks < MOST) {
		tasks[nr_tasks] = (struct nccl_task){ comm, func, count, type,
						      root, 0, NULL, NULL };
		nccl_tell_call(&tasks[nr_tasks++]);
	}
	return end_of_call();
}

LIBRARY_EXPORT int ncclGroupStart(void)
{
	depth++;
	return 0;
}

LIBRARY_EXPORT int ncclGroupEnd(void)
{
	depth--;
	return end_of_call();
}

LIBRARY_EXPORT int ncclAllReduce(const void *in, void *out, size_t count,
	int type, int op, struct ncclComm *comm, void *stream)
{
	return work(ALL_REDUCE, count, type, 0, comm);
}

LIBRARY_EXPORT int ncclReduceScatter(const void *in, void *out, size_t count,
	int type, int op, struct ncclComm *comm, void *stream)
{
	return work(REDUCE_SCATTER, count, type, 0, comm);
}

LIBRARY_EXPORT int ncclAllGather(const void *in, void *out, size_t count,
	int type, struct ncclComm *comm, void *stream)
{
	return work(ALL_GATHER, count, type, 0, comm);
}

LIBRARY_EXPORT int ncclBroadcast(const void *in, void *out, size_t count,
	int type, int root, struct ncclComm *comm, void *stream)
{
	return work(BROADCAST, count, type, root, comm);
}

LIBRARY_EXPORT int ncclSend(const void *buffer, size_t count, int type,
	int peer, struct ncclComm *comm, void *stream)
{
	return work(SEND, count, type, peer, comm);
}

LIBRARY_EXPORT int ncclRecv(void *buffer, size_t count, int type, int peer,
	struct ncclComm *comm, void *stream)
{
	return work(RECV, count, type, peer, comm);
}
