/* SPDX-License-Identifier: MIT */
/* See library_nccl.h. */
#include "test/sim/library_nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { KIND_GROUP = 1, KIND_COLL = 2, KIND_P2P = 4, KIND_GROUP_API = 256,
	KIND_COLL_API = 512, KIND_P2P_API = 1024, KIND_LAUNCH = 2048 };

/* What each version passes, in the order of NCCL's headers. */
struct descr_v1 {
	uint8_t type;
	void *parentObj;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t commHash, seqNumber;
			uint8_t func;
			void const *sendBuff;
			void *recvBuff;
			size_t count;
			int root;
			uint8_t datatype;
			uint32_t op;
			size_t trafficBytes;
			uint8_t nMaxChannels, nWarps, algo, proto;
			int isCollnet, isNvls;
		} coll;
		struct {
			const char *name;
			uint64_t commHash;
			uint8_t func;
			void *buff;
			uint8_t datatype;
			size_t count;
			int peer;
		} p2p;
	};
};

struct descr_v2 {
	uint8_t type;
	void *parentObj;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t commHash, seqNumber;
			const char *func;
			void const *sendBuff;
			void *recvBuff;
			size_t count;
			int root;
			const char *datatype;
			size_t trafficBytes;
			uint8_t nMaxChannels, nWarps;
			const char *algo, *proto;
		} coll;
		struct {
			const char *name;
			uint64_t commHash;
			const char *func;
			void *buff;
			const char *datatype;
			size_t count;
			int peer;
		} p2p;
	};
};

struct descr_v3 {
	uint8_t type;
	void *parentObj;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t commHash, seqNumber;
			const char *func;
			void const *sendBuff;
			void *recvBuff;
			size_t count;
			int root;
			const char *datatype;
			uint8_t nMaxChannels, nWarps;
			const char *algo, *proto;
		} coll;
		struct {
			const char *name;
			uint64_t commHash;
			const char *func;
			void *buff;
			const char *datatype;
			size_t count;
			int peer;
		} p2p;
	};
};

struct descr_v4 {
	uint8_t type;
	void *parentObj;
	int rank;
	union {
		struct {
			uint64_t seqNumber;
			const char *func;
			void const *sendBuff;
			void *recvBuff;
			size_t count;
			int root;
			const char *datatype;
			uint8_t nChannels, nWarps;
			const char *algo, *proto;
		} coll;
		struct {
			const char *func;
			void *buff;
			const char *datatype;
			size_t count;
			int peer;
			uint8_t nChannels;
		} p2p;
	};
};

/* v7, and as far as they go v5 and v6. */
struct descr_v7 {
	uint64_t type;
	void *parentObj;
	int rank;
	union {
		struct {
			bool graphCaptured;
			int groupDepth;
		} groupApi;
		struct {
			uint64_t seqNumber;
			const char *func;
			void const *sendBuff;
			void *recvBuff;
			size_t count;
			int root;
			const char *datatype;
			uint8_t nChannels, nWarps;
			const char *algo, *proto;
			void *parentGroup;
			const char *kernelVariant;
			bool isSymColl;
			uint64_t userTag;
		} coll;
		struct {
			const char *func;
			void *buff;
			const char *datatype;
			size_t count;
			int peer;
			uint8_t nChannels;
			void *parentGroup;
			uint64_t userTag;
		} p2p;
	};
};

typedef int init_v1(void **context, int *mask);
typedef int init_v4(void **context, int *mask, const char *name, uint64_t hash,
	int nodes, int ranks, int rank, void (*log)(void));
typedef int init_v5(void **context, uint64_t hash, int *mask, const char *name,
	int nodes, int ranks, int rank, void (*log)(void));

struct profiler {
	const char *name;
	void (*init)(void);
	int (*startEvent)(void *context, void **handle, void *descr);
	int (*stopEvent)(void *handle);
	int (*recordEventState)(void *handle, int state, void *args);
	int (*finalize)(void *context);
};

static _Atomic long told;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *library;
static struct profiler *profiler;
static int references, version;
static _Atomic int mask;        /* what the plug-in's init() is given */
static __thread void *group_api;

static const char *const funcs[] = { "Broadcast", "Reduce", "AllGather",
	"ReduceScatter", "AllReduce", "SendRecv", "Send", "Recv" };
static const char *const types[] = { "ncclInt8", "Unknown", "ncclInt32",
	"ncclUint32", "ncclInt64", "ncclUint64", "ncclFloat16", "ncclFloat32",
	"ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2" };
static const char sizes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };
static const char *const algos[] = { "TREE", "RING", "COLLNET_DIRECT",
	"COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT" };
static const char *const protos[] = { "LL", "LL128", "SIMPLE" };

struct choice {
	uint8_t algo, proto, channels;
};

static struct choice nccl_choice(size_t count)
{
	return (struct choice){ count % 7, count % 3, count % 31 + 1 };
}

/* How often the plug-in was called since the start, but for its init(). */
__attribute__((visibility("default"))) long ncclSimTold(void);
__attribute__((visibility("default"))) long ncclSimTold(void)
{
	return told;
}

static void start(struct ncclComm *comm, void **handle, void *descr)
{
	told++;
	profiler->startEvent(comm->context, handle, descr);
}

/* ---- The plug-in comes and goes ---- */

static void find_profiler(void)
{
	char symbol[32];
	int v;

	for (v = version; v > 0 && !profiler; v--) {
		snprintf(symbol, sizeof(symbol), "ncclProfiler_v%d", v);
		profiler = dlsym(library, symbol);
		if (profiler)
			version = v;
	}
}

static void load(void)
{
	const char *word = getenv("SIM_NCCL");
	const char *name = getenv("NCCL_PROFILER_PLUGIN");

	if (references++)
		return;
	version = word ? atoi(word) : 5;
	if (!version || (name && !strcasecmp(name, "none")))
		return;
	library = dlopen(name ? name : "libnccl-profiler.so",
			 RTLD_NOW | RTLD_LOCAL);
	if (library)
		find_profiler();
}

static void unload(void)
{
	if (--references)
		return;
	if (library)
		dlclose(library);
	library = NULL;
	profiler = NULL;
}

static void init(struct ncclComm *comm)
{
	uint64_t hash = 0xfeedc0de00000000u + comm->ranks;

	if (version >= 5)
		((init_v5 *)profiler->init)(&comm->context, hash, (int *)&mask,
			"tensor \"parallel\"", 1, comm->ranks, comm->rank, NULL);
	else if (version == 4)
		((init_v4 *)profiler->init)(&comm->context, (int *)&mask,
			"tensor \"parallel\"", hash, 1, comm->ranks,
			comm->rank, NULL);
	else
		((init_v1 *)profiler->init)(&comm->context, (int *)&mask);
}

void nccl_tell_comm(struct ncclComm *comm)
{
	pthread_mutex_lock(&mutex);
	load();
	if (profiler)
		init(comm);
	pthread_mutex_unlock(&mutex);
}

void nccl_tell_comm_end(struct ncclComm *comm)
{
	pthread_mutex_lock(&mutex);
	if (profiler && (comm->context || version < 5))
		profiler->finalize(comm->context);
	unload();
	pthread_mutex_unlock(&mutex);
}

/* ---- Calls: of v5 and later alone ---- */

static void *start_plain(struct ncclComm *comm, uint64_t type, void *parent)
{
	struct descr_v7 descr = { .type = type, .rank = comm->rank,
				  .parentObj = parent };
	void *handle = NULL;

	start(comm, &handle, &descr);
	return handle;
}

void nccl_tell_call(struct nccl_task *task)
{
	bool p2p = task->func >= SEND;

	if (!profiler)
		return;
	task->mask = atomic_load_explicit(&mask, memory_order_relaxed);
	if (version < 5 || !task->mask)
		return;
	if (!group_api)
		group_api = start_plain(task->comm, KIND_GROUP_API, NULL);
	task->api = start_plain(task->comm, p2p ? KIND_P2P_API : KIND_COLL_API,
				group_api);
	if (task->api)
		profiler->stopEvent(task->api);
}

void nccl_tell_group_end(void)
{
	if (profiler && group_api)
		profiler->stopEvent(group_api);
	group_api = NULL;
}

/* ---- Tasks ---- */

#define COLL(x) \
	.count = (x)->count, .root = (x)->root, .seqNumber = 3, .nWarps = 16, \
	.sendBuff = &mask, .recvBuff = &mask
#define COMM(x) .name = "tensor", .commHash = 0xfeedc0de00000000u + \
	(x)->comm->ranks
#define WORDS(x, choice) \
	.func = funcs[(x)->func], .datatype = types[(x)->type], \
	.algo = algos[(choice).algo], .proto = protos[(choice).proto]

static void start_coll(struct nccl_task *t, void *group, struct choice c)
{
	struct descr_v1 v1 = { KIND_COLL, group, t->comm->rank, { .coll = {
		COLL(t), COMM(t), .func = t->func, .datatype = t->type,
		.trafficBytes = 77, .nMaxChannels = c.channels,
		.algo = c.algo, .proto = c.proto } } };
	struct descr_v2 v2 = { KIND_COLL, group, t->comm->rank, { .coll = {
		COLL(t), COMM(t), WORDS(t, c), .trafficBytes = 77,
		.nMaxChannels = c.channels } } };
	struct descr_v3 v3 = { KIND_COLL, group, t->comm->rank, { .coll = {
		COLL(t), COMM(t), WORDS(t, c), .nMaxChannels = c.channels } } };
	struct descr_v4 v4 = { KIND_COLL, group, t->comm->rank, { .coll = {
		COLL(t), WORDS(t, c), .nChannels = c.channels } } };
	struct descr_v7 v7 = { KIND_COLL, t->api, t->comm->rank, { .coll = {
		COLL(t), WORDS(t, c), .nChannels = c.channels,
		.parentGroup = group, .userTag = 99 } } };
	void *const descr[] = { NULL, &v1, &v2, &v3, &v4, &v7, &v7, &v7 };

	start(t->comm, &t->handle, descr[version]);
}

static void start_p2p(struct nccl_task *t, void *group, struct choice c)
{
	struct descr_v1 v1 = { KIND_P2P, group, t->comm->rank, { .p2p = {
		COMM(t), .func = t->func, .datatype = t->type,
		.count = t->count, .peer = t->root } } };
	struct descr_v2 v2 = { KIND_P2P, group, t->comm->rank, { .p2p = {
		COMM(t), .func = funcs[t->func], .datatype = types[t->type],
		.count = t->count, .peer = t->root } } };
	struct descr_v4 v4 = { KIND_P2P, group, t->comm->rank, { .p2p = {
		.func = funcs[t->func], .datatype = types[t->type],
		.count = t->count, .peer = t->root,
		.nChannels = c.channels } } };
	struct descr_v7 v7 = { KIND_P2P, t->api, t->comm->rank, { .p2p = {
		.func = funcs[t->func], .datatype = types[t->type],
		.count = t->count, .peer = t->root, .nChannels = c.channels,
		.parentGroup = group, .userTag = 99 } } };
	void *const descr[] = { NULL, &v1, &v2, &v2, &v4, &v7, &v7, &v7 };

	start(t->comm, &t->handle, descr[version]);
}

static void start_task(struct nccl_task *t, void *group)
{
	struct choice choice = nccl_choice(t->count);

	t->handle = NULL;
	if (t->func >= SEND) {
		start_p2p(t, group, choice);
		return;
	}
	/* Of one rank's bytes: so NCCL keeps them. */
	if (t->func == ALL_GATHER || t->func == BROADCAST) {
		t->count *= sizes[t->type];
		t->type = 0;
	}
	start_coll(t, group, choice);
}

/* v1 to v4 have a byte for the type. */
static void *start_group(struct ncclComm *comm)
{
	struct descr_v1 descr = { .type = KIND_GROUP };
	void *handle = NULL;

	if (version >= 5)
		return start_plain(comm, KIND_GROUP, NULL);
	start(comm, &handle, &descr);
	return handle;
}

void nccl_tell_plan(struct nccl_task *tasks, int nr, struct ncclComm *comm)
{
	void *group = NULL;
	int i;

	if (!profiler || version > 7)
		return;
	for (i = 0; i < nr && !group; i++)
		if (tasks[i].comm == comm && tasks[i].mask)
			group = start_group(comm);
	for (i = 0; i < nr; i++)
		if (tasks[i].comm == comm && tasks[i].mask && (version >= 5 ||
							       group))
			start_task(&tasks[i], group);
	for (i = 0; i < nr; i++)
		if (tasks[i].comm == comm && (tasks[i].handle || version == 1))
			profiler->stopEvent(tasks[i].handle);
	if (group)
		profiler->stopEvent(group);
}
