/* SPDX-License-Identifier: MIT */
/*
 * An NCCL whose ranks are all one process and which moves nothing: it keeps
 * groups as the real one does (what is asked for inside is launched at the
 * end, on the same thread), and counts how often it was asked who is who.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/library_gpu.h"

struct ncclComm {
	int ranks, rank;
};

struct unique_id {
	char bytes[128];
};

static _Atomic long questions;
static __thread int depth, waiting;

LIBRARY_EXPORT long ncclSimQuestions(void)
{
	return questions;
}

static int make(struct ncclComm **comm, int ranks, int rank)
{
	*comm = malloc(sizeof(**comm));
	if (!*comm)
		return 2;
	**comm = (struct ncclComm){ ranks, rank };
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

static int end_of_call(void)
{
	if (depth)
		return 0;
	library_launch(KERNEL_ALL_REDUCE, NULL, waiting);
	waiting = 0;
	return 0;
}

static int work(struct ncclComm *comm)
{
	if (!comm)
		return 4;       /* ncclInvalidArgument */
	waiting++;
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
	return work(comm);
}

LIBRARY_EXPORT int ncclReduceScatter(const void *in, void *out, size_t count,
	int type, int op, struct ncclComm *comm, void *stream)
{
	return work(comm);
}

LIBRARY_EXPORT int ncclAllGather(const void *in, void *out, size_t count,
	int type, struct ncclComm *comm, void *stream)
{
	return work(comm);
}

LIBRARY_EXPORT int ncclBroadcast(const void *in, void *out, size_t count,
	int type, int root, struct ncclComm *comm, void *stream)
{
	return work(comm);
}

LIBRARY_EXPORT int ncclSend(const void *buffer, size_t count, int type,
	int peer, struct ncclComm *comm, void *stream)
{
	return work(comm);
}

LIBRARY_EXPORT int ncclRecv(void *buffer, size_t count, int type, int peer,
	struct ncclComm *comm, void *stream)
{
	return work(comm);
}
