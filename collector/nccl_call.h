/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_NCCL_CALL_H
#define GPUTRACE_COLLECTOR_NCCL_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "collector/library_call.h"

/*
 * What a call of NCCL says, by the names that Kineto and HTA use: "Collective
 * name", dtype, "In msg nelems", "Out msg nelems", "Group size", Rank; and op,
 * root or peer, comm (the communicator's address), and
 *
 *   bytes   of the larger of the two buffers, as nccl-tests count them: what
 *           the bus bandwidth is computed from.
 *
 * Numbers are NCCL's own (2.28, nccl.h).
 */
#define NCCL_COLLECTIVES(X) \
	/* its name, NCCL's own, and whose elements: `count` (ONE), `count` \
	 * for each rank (ALL), or there is no such buffer (NONE) */ \
	X(ALL_REDUCE, "allreduce", "AllReduce", ONE, ONE) \
	X(ALL_GATHER, "allgather", "AllGather", ONE, ALL) \
	X(REDUCE_SCATTER, "reduce_scatter", "ReduceScatter", ALL, ONE) \
	X(BROADCAST, "broadcast", "Broadcast", ONE, ONE) \
	X(REDUCE, "reduce", "Reduce", ONE, ONE) \
	X(ALL_TO_ALL, "all_to_all", "AlltoAll", ALL, ALL) \
	X(GATHER, "gather", "Gather", ONE, ALL) \
	X(SCATTER, "scatter", "Scatter", ALL, ONE) \
	X(SEND, "send", "Send", ONE, NONE) \
	X(RECV, "recv", "Recv", NONE, ONE)

enum nccl_collective {
#define X(id, name, said, in, out) NCCL_##id,
	NCCL_COLLECTIVES(X)
#undef X
	NCCL_NR_COLLECTIVES
};

#define NCCL_NO_OP (-1)         /* no reduction */
#define NCCL_NO_ROOT (-1)

/* Each returns the level for library_call_end().  `caller` as in
 * real_symbol_find(): the ranks of a communicator that is not known yet are
 * asked for there.  Context: any thread, not signal-safe. */
int nccl_begin(const struct real_symbol *symbol, const void *caller,
	       enum nccl_collective collective, size_t count, int type, int op,
	       int root, void *comm);
/* A call about a communicator (NULL: none yet) of that many ranks (0: not
 * known). */
int nccl_begin_comm(const struct real_symbol *symbol, const void *comm,
		    int ranks, int rank);

/* What NCCL says of a task, in its own words ("AllReduce", "ncclFloat32"); of a
 * function that it has and we do not know, the name alone.  ranks: 0, not
 * known.  Context: any thread, signal-safe. */
struct nccl_task {
	const char *func, *type;
	uint64_t count;
	uint32_t func_len, ranks, rank;
	int root;
};
void nccl_args_of_task(struct call_args *args, const struct nccl_task *task);

/* "ncclFloat32" of the number in an ncclDataType_t, or NULL.  Context: any,
 * signal-safe. */
const char *nccl_type_said(uint32_t type);

/* A communicator has come into being, as that rank of `ranks`; is no more, or
 * a new one whose ranks are not known.  Context: any thread. */
void nccl_comm_is(const void *comm, int ranks, int rank);
void nccl_comm_forget(const void *comm);

extern const char *const nccl_libraries[] __attribute__((visibility("hidden")));

#endif
