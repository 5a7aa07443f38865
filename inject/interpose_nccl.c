/* SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/nccl_call.h"
#include "inject/interpose_library.h"

/*
 * NCCL: collectives, the groups that launch them, and the life of
 * communicators, which tells who is which rank.
 */
#define NOT_SUPPORTED 5         /* ncclInvalidUsage: it has no other */

/* ---- Collectives ---- */

#define NCCL(function, parameters, arguments, id, count, op, root) \
	LIBRARY_CALL(LIBRARY_NCCL, nccl_libraries, NOT_SUPPORTED, function, \
		     parameters, arguments, \
		     nccl_begin(symbol, caller, NCCL_##id, count, type, op, \
				root, comm))

NCCL(ncclAllReduce,
     (const void *in, void *out, size_t count, int type, int op, void *comm,
      void *stream),
     (in, out, count, type, op, comm, stream),
     ALL_REDUCE, count, op, NCCL_NO_ROOT)
NCCL(ncclReduce,
     (const void *in, void *out, size_t count, int type, int op, int root,
      void *comm, void *stream),
     (in, out, count, type, op, root, comm, stream),
     REDUCE, count, op, root)
NCCL(ncclReduceScatter,
     (const void *in, void *out, size_t count, int type, int op, void *comm,
      void *stream),
     (in, out, count, type, op, comm, stream),
     REDUCE_SCATTER, count, op, NCCL_NO_ROOT)
NCCL(ncclAllGather,
     (const void *in, void *out, size_t count, int type, void *comm,
      void *stream),
     (in, out, count, type, comm, stream),
     ALL_GATHER, count, NCCL_NO_OP, NCCL_NO_ROOT)
NCCL(ncclAlltoAll,
     (const void *in, void *out, size_t count, int type, void *comm,
      void *stream),
     (in, out, count, type, comm, stream),
     ALL_TO_ALL, count, NCCL_NO_OP, NCCL_NO_ROOT)

#define ROOTED(function, id) \
	NCCL(function, \
	     (const void *in, void *out, size_t count, int type, int root, \
	      void *comm, void *stream), \
	     (in, out, count, type, root, comm, stream), \
	     id, count, NCCL_NO_OP, root)
ROOTED(ncclBroadcast, BROADCAST)
ROOTED(ncclGather, GATHER)
ROOTED(ncclScatter, SCATTER)

/* One buffer. */
#define SINGLE(function, id) \
	NCCL(function, \
	     (void *buffer, size_t count, int type, int root, void *comm, \
	      void *stream), \
	     (buffer, count, type, root, comm, stream), \
	     id, count, NCCL_NO_OP, root)
SINGLE(ncclBcast, BROADCAST)
SINGLE(ncclSend, SEND)
SINGLE(ncclRecv, RECV)

/* What was asked for since the start is launched at the end. */
#define GROUP(function) \
	LIBRARY_CALL(LIBRARY_NCCL, nccl_libraries, NOT_SUPPORTED, function, \
		     (void), (), \
		     library_call_begin(LIBRARY_NCCL, symbol, NULL))
GROUP(ncclGroupStart)
GROUP(ncclGroupEnd)

/* ---- Communicators ---- */

/* As LIBRARY_CALL; `before` and `after` also while nothing is recorded, or a
 * rank would stay known by the address of another communicator. */
#define LIFE(function, parameters, arguments, comm, ranks, rank, before, \
	     after)							\
	LIBRARY_WRAPPER(nccl_libraries, NOT_SUPPORTED, function, parameters, \
		int level = -1, result;					\
									\
		if (library_is_recorded(LIBRARY_NCCL))			\
			level = nccl_begin_comm(symbol, comm, ranks,	\
						rank);			\
		before;							\
		result = call arguments;				\
		after;							\
		library_call_end(LIBRARY_NCCL, level);			\
		return result;						\
	)

struct unique_id {
	char bytes[128];
};

/* ncclSuccess, or ncclInProgress: it is there already. */
static bool is_there(int result, void *const *comm)
{
	return (result == 0 || result == 7) && comm;
}

static void note_new(int result, void *const *comm, int ranks, int rank)
{
	if (is_there(result, comm))
		nccl_comm_is(*comm, ranks, rank);
}

static void note_all(int result, void *const *comms, int ranks)
{
	for (int i = 0; comms && i < ranks; i++)
		note_new(result, &comms[i], ranks, i);
}

/* Its ranks are asked for when it is first used. */
static void note_unknown(int result, void *const *comm)
{
	if (is_there(result, comm))
		nccl_comm_forget(*comm);
}

#define NOTHING (void)0

LIFE(ncclCommInitRank,
     (void **comm, int ranks, struct unique_id id, int rank),
     (comm, ranks, id, rank), NULL, ranks, rank, NOTHING,
     note_new(result, comm, ranks, rank))
LIFE(ncclCommInitRankConfig,
     (void **comm, int ranks, struct unique_id id, int rank, void *config),
     (comm, ranks, id, rank, config), NULL, ranks, rank, NOTHING,
     note_new(result, comm, ranks, rank))
LIFE(ncclCommInitRankScalable,
     (void **comm, int ranks, int rank, int nr_ids, struct unique_id *ids,
      void *config),
     (comm, ranks, rank, nr_ids, ids, config), NULL, ranks, rank, NOTHING,
     note_new(result, comm, ranks, rank))
LIFE(ncclCommInitAll, (void **comms, int ranks, const int *devices),
     (comms, ranks, devices), NULL, ranks, -1, NOTHING,
     note_all(result, comms, ranks))
LIFE(ncclCommSplit,
     (void *comm, int color, int key, void **child, void *config),
     (comm, color, key, child, config), comm, 0, 0, NOTHING,
     note_unknown(result, child))
LIFE(ncclCommShrink,
     (void *comm, int *without, int nr_without, void **child, void *config,
      int flags),
     (comm, without, nr_without, child, config, flags), comm, 0, 0, NOTHING,
     note_unknown(result, child))
LIFE(ncclCommFinalize, (void *comm), (comm), comm, 0, 0, NOTHING, NOTHING)
LIFE(ncclCommDestroy, (void *comm), (comm), comm, 0, 0,
     nccl_comm_forget(comm), NOTHING)
LIFE(ncclCommAbort, (void *comm), (comm), comm, 0, 0,
     nccl_comm_forget(comm), NOTHING)
