/* SPDX-License-Identifier: MIT */
#include <stddef.h>
#include <stdint.h>

#include "collector/nccl_call.h"
#include "collector/nccl_event.h"
#include "inject/interpose_library.h"

/*
 * NCCL's profiler plug-in: it opens the file that NCCL_PROFILER_PLUGIN names
 * (nccl_plugin.h) and takes the newest table of functions that both know.
 *
 *   2.23 v1   2.24 v2   2.26 v3   2.27 v4   2.28 v5   2.29 v6   2.32 v7
 *
 * A NCCL asks for no version newer than its own.  v5 and later begin alike:
 * what v6 and v7 have more stands behind what is read here.
 *
 * No event of ours has an end, so that none has a handle and NCCL has nothing
 * to hand back; but for the group, which is the tasks of one kernel: its
 * handle is a number, that NCCL gives with each task.  All functions return 0,
 * success: no fault of ours is NCCL's.
 */
enum { GROUP = 1 << 0, COLLECTIVE = 1 << 1, POINT_TO_POINT = 1 << 2 };

/* ---- Layouts ---- */

/* 2.23: numbers. */
struct collective_v1 {
	const char *comm_name;
	uint64_t comm_hash, sequence;
	uint8_t func;
	const void *from;
	void *to;
	size_t count;
	int root;
	uint8_t type;
	uint32_t op;
	size_t traffic;
	uint8_t channels, warps, algorithm, protocol;
	int is_collnet, is_nvls;
};

struct p2p_v1 {
	const char *comm_name;
	uint64_t comm_hash;
	uint8_t func;
	void *buffer;
	uint8_t type;
	size_t count;
	int peer;
};

/* 2.24: words. */
struct collective_v2 {
	const char *comm_name;
	uint64_t comm_hash, sequence;
	const char *func;
	const void *from;
	void *to;
	size_t count;
	int root;
	const char *type;
	size_t traffic;
	uint8_t channels, warps;
	const char *algorithm, *protocol;
};

struct p2p_v2 {
	const char *comm_name;
	uint64_t comm_hash;
	const char *func;
	void *buffer;
	const char *type;
	size_t count;
	int peer;
};

/* 2.26: without the traffic. */
struct collective_v3 {
	const char *comm_name;
	uint64_t comm_hash, sequence;
	const char *func;
	const void *from;
	void *to;
	size_t count;
	int root;
	const char *type;
	uint8_t channels, warps;
	const char *algorithm, *protocol;
};

/* 2.27: init() says which communicator; 2.28: the group stands behind. */
struct collective_v4 {
	uint64_t sequence;
	const char *func;
	const void *from;
	void *to;
	size_t count;
	int root;
	const char *type;
	uint8_t channels, warps;
	const char *algorithm, *protocol;
	void *group;            /* v5 */
};

struct p2p_v4 {
	const char *func;
	void *buffer;
	const char *type;
	size_t count;
	int peer;
	uint8_t channels;
	void *group;            /* v5 */
};

struct event_v1 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct collective_v1 collective_v1;
		struct collective_v2 collective_v2;
		struct collective_v3 collective_v3;
		struct collective_v4 collective_v4;
		struct p2p_v1 p2p_v1;
		struct p2p_v2 p2p_v2;
		struct p2p_v4 p2p_v4;
	} of;
};

struct event_v5 {
	uint64_t type;
	void *parent;
	int rank;
	union {
		struct collective_v4 collective;
		struct p2p_v4 p2p;
	} of;
};

#define AT(structure, member, offset) \
	_Static_assert(offsetof(struct structure, member) == (offset), \
		       "NCCL's layout: " #structure "." #member)
AT(event_v1, parent, 8);
AT(event_v1, rank, 16);
AT(event_v1, of, 24);
AT(event_v5, of, 24);
AT(collective_v1, count, 48);
AT(collective_v1, type, 60);
AT(collective_v1, traffic, 72);
AT(collective_v1, channels, 80);
AT(collective_v1, protocol, 83);
AT(p2p_v1, count, 40);
AT(p2p_v1, peer, 48);
AT(collective_v2, type, 64);
AT(collective_v2, channels, 80);
AT(collective_v2, protocol, 96);
AT(p2p_v2, count, 40);
AT(collective_v3, channels, 72);
AT(collective_v3, protocol, 88);
AT(collective_v4, count, 32);
AT(collective_v4, type, 48);
AT(collective_v4, channels, 56);
AT(collective_v4, protocol, 72);
AT(collective_v4, group, 80);
AT(p2p_v4, peer, 32);
AT(p2p_v4, channels, 36);
AT(p2p_v4, group, 40);

/* ---- What they say ---- */

/* By the numbers of 2.23. */
static const char *const functions[] = {
	"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce",
	"SendRecv", "Send", "Recv",
};
static const char *const algorithms[] = {
	"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE",
	"PAT",
};
static const char *const protocols[] = { "LL", "LL128", "SIMPLE" };

#define WORD(words, number) \
	((number) < sizeof(words) / sizeof *(words) ? (words)[number] : NULL)

/* Members that have one name in several layouts. */
#define SAID(of) \
	.count = (of)->count, .func = (of)->func, .type = (of)->type
#define COLLECTIVE_SAID(of) \
	SAID(of), .algorithm = (of)->algorithm, .protocol = (of)->protocol, \
	.channels = (of)->channels, .sequence = (of)->sequence, \
	.root = (of)->root
#define COMM_SAID(of) .comm_hash = (of)->comm_hash

#define FROM_GROUP(group) .plan = (uint64_t)(uintptr_t)(group)

static void *begin_group(void)
{
	return (void *)(uintptr_t)nccl_event_plan();
}

/* True where there is nothing more to do. */
static bool is_no_task(uint64_t type, void **handle)
{
	*handle = NULL;
	if (!library_is_recorded(LIBRARY_NCCL))
		return true;
	if (type == GROUP)
		*handle = begin_group();
	return type != COLLECTIVE && type != POINT_TO_POINT;
}

static int start_v1(void *comm, void **handle, const struct event_v1 *event)
{
	const struct collective_v1 *c = &event->of.collective_v1;
	const struct p2p_v1 *p = &event->of.p2p_v1;

	if (is_no_task(event->type, handle))
		return 0;
	if (event->type == COLLECTIVE)
		nccl_event(comm, &(struct nccl_event){
			.count = c->count, .func = WORD(functions, c->func),
			.type = nccl_type_said(c->type),
			.algorithm = WORD(algorithms, c->algorithm),
			.protocol = WORD(protocols, c->protocol),
			.channels = c->channels, .sequence = c->sequence,
			.root = c->root, .rank = event->rank, COMM_SAID(c),
			FROM_GROUP(event->parent) });
	else
		nccl_event(comm, &(struct nccl_event){
			.count = p->count, .func = WORD(functions, p->func),
			.type = nccl_type_said(p->type), .root = p->peer,
			.rank = event->rank, COMM_SAID(p),
			FROM_GROUP(event->parent) });
	return 0;
}

/* v2 and v3 have one for point to point. */
static void tell_p2p(void *comm, const struct event_v1 *event)
{
	const struct p2p_v2 *p = &event->of.p2p_v2;

	nccl_event(comm, &(struct nccl_event){
		SAID(p), COMM_SAID(p), .root = p->peer, .rank = event->rank,
		FROM_GROUP(event->parent) });
}

/* Of collectives they differ in where the words stand. */
#define START_OF_WORDS(version)						\
	static int start_v##version(void *comm, void **handle,		\
				    const struct event_v1 *event)	\
	{								\
		const struct collective_v##version *c =			\
			&event->of.collective_v##version;		\
									\
		if (is_no_task(event->type, handle))			\
			return 0;					\
		if (event->type == POINT_TO_POINT)			\
			tell_p2p(comm, event);				\
		else							\
			nccl_event(comm, &(struct nccl_event){		\
				COLLECTIVE_SAID(c), COMM_SAID(c),	\
				.rank = event->rank,			\
				FROM_GROUP(event->parent) });		\
		return 0;						\
	}
START_OF_WORDS(2)
START_OF_WORDS(3)

static void tell_collective_v4(void *comm, const struct collective_v4 *c,
			       const void *group, int rank)
{
	nccl_event(comm, &(struct nccl_event){
		COLLECTIVE_SAID(c), .rank = rank, FROM_GROUP(group) });
}

static void tell_p2p_v4(void *comm, const struct p2p_v4 *p, const void *group,
			int rank)
{
	nccl_event(comm, &(struct nccl_event){
		SAID(p), .channels = p->channels, .root = p->peer,
		.rank = rank, FROM_GROUP(group) });
}

static int start_v4(void *comm, void **handle, const struct event_v1 *event)
{
	if (is_no_task(event->type, handle))
		return 0;
	if (event->type == COLLECTIVE)
		tell_collective_v4(comm, &event->of.collective_v4,
				   event->parent, event->rank);
	else
		tell_p2p_v4(comm, &event->of.p2p_v4, event->parent,
			    event->rank);
	return 0;
}

/* The parent is the call, of which nothing is told; the group stands apart. */
static int start_v5(void *comm, void **handle, const struct event_v5 *event)
{
	if (is_no_task(event->type, handle))
		return 0;
	if (event->type == COLLECTIVE)
		tell_collective_v4(comm, &event->of.collective,
				   event->of.collective.group, event->rank);
	else
		tell_p2p_v4(comm, &event->of.p2p, event->of.p2p.group,
			    event->rank);
	return 0;
}

/* ---- A communicator, from its beginning to its end ---- */

static int init_v1(void **comm, int *mask)
{
	*comm = nccl_event_comm(mask, 0, NULL, 0, 0);
	return 0;
}

static int init_v4(void **comm, int *mask, const char *name, uint64_t hash,
		   int nodes, int ranks, int rank, void *log)
{
	(void)nodes;
	(void)log;
	*comm = nccl_event_comm(mask, hash, name, ranks, rank);
	return 0;
}

static int init_v5(void **comm, uint64_t hash, int *mask, const char *name,
		   int nodes, int ranks, int rank, void *log)
{
	return init_v4(comm, mask, name, hash, nodes, ranks, rank, log);
}

static int stop(void *handle)
{
	(void)handle;
	return 0;
}

static int record_state(void *handle, int state, void *arguments)
{
	(void)handle;
	(void)state;
	(void)arguments;
	return 0;
}

static int finalize(void *comm)
{
	nccl_event_comm_end(comm);
	return 0;
}

/* ---- What is looked up ---- */

typedef void any_function(void);

struct profiler {
	const char *name;
	any_function *init, *start, *stop, *record_state, *finalize;
};

#define PROFILER(version, init, start)					\
	extern const struct profiler ncclProfiler_v##version;		\
	LIBRARY_EXPORT const struct profiler ncclProfiler_v##version = { \
		"gputrace", (any_function *)(init),			\
		(any_function *)(start), (any_function *)stop,		\
		(any_function *)record_state, (any_function *)finalize,	\
	}
PROFILER(1, init_v1, start_v1);
PROFILER(2, init_v1, start_v2);
PROFILER(3, init_v1, start_v3);
PROFILER(4, init_v4, start_v4);
PROFILER(5, init_v5, start_v5);
PROFILER(6, init_v5, start_v5);
PROFILER(7, init_v5, start_v5);
