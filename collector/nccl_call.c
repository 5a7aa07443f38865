/* SPDX-License-Identifier: MIT */
#include "collector/nccl_call.h"

#include <stdatomic.h>
#include <string.h>

const char *const nccl_libraries[] = { "libnccl.so.2", NULL };

/* ---- Who is who in a communicator ---- */

/*
 * From where it was made, or asked once.  A slot is a communicator's until it
 * is destroyed.  One for which none is left is asked each time: NCCL answers
 * from its memory, but says it to NVTX too.
 */
#define NR_COMMS 256
#define NR_PROBES 8

static struct {
	const void *_Atomic comm;
	_Atomic uint64_t place;         /* ranks, rank */
} comms[NR_COMMS];

#define PLACE(ranks, rank) ((uint64_t)(uint32_t)(ranks) << 32 | \
		(uint32_t)(rank))

static uint32_t first_slot(const void *comm)
{
	return (uint32_t)(((uintptr_t)comm * 0x9e3779b97f4a7c15u) >> 40);
}

void nccl_comm_forget(const void *comm)
{
	uint32_t i, at = first_slot(comm);

	for (i = 0; comm && i < NR_PROBES; i++) {
		if (atomic_load(&comms[(at + i) % NR_COMMS].comm) != comm)
			continue;
		atomic_store(&comms[(at + i) % NR_COMMS].place, 0);
		atomic_store(&comms[(at + i) % NR_COMMS].comm, NULL);
	}
}

void nccl_comm_is(const void *comm, int ranks, int rank)
{
	uint32_t i, at = first_slot(comm);

	nccl_comm_forget(comm);
	for (i = 0; comm && i < NR_PROBES; i++) {
		const void *empty = NULL;

		if (!atomic_compare_exchange_strong(
			&comms[(at + i) % NR_COMMS].comm, &empty, comm))
			continue;
		atomic_store(&comms[(at + i) % NR_COMMS].place,
			     PLACE(ranks, rank));
		return;
	}
}

/* 0: not known.  One who finds a slot before its place is there asks too. */
static uint64_t known_place(const void *comm)
{
	uint32_t i, at = first_slot(comm);

	for (i = 0; i < NR_PROBES; i++)
		if (atomic_load(&comms[(at + i) % NR_COMMS].comm) == comm)
			return atomic_load(&comms[(at + i) % NR_COMMS].place);
	return 0;
}

#define GETTER(function) REAL_SYMBOL(function, nccl_libraries)
typedef int get_number(void *comm, int *number);

static uint64_t ask_place(void *comm, const void *caller)
{
	static const struct real_symbol of_count = GETTER("ncclCommCount"),
		of_rank = GETTER("ncclCommUserRank");
	get_number *count = (get_number *)real_symbol_find(&of_count, caller);
	get_number *user = (get_number *)real_symbol_find(&of_rank, caller);
	int ranks, rank;

	if (!count || !user || count(comm, &ranks) || user(comm, &rank) ||
	    ranks <= 0)
		return 0;
	nccl_comm_is(comm, ranks, rank);
	return PLACE(ranks, rank);
}

static uint64_t place_of(void *comm, const void *caller)
{
	uint64_t place = comm ? known_place(comm) : 0;

	return place || !comm ? place : ask_place(comm, caller);
}

/* ---- What a call says ---- */

/* ncclDataType_t, by PyTorch's names as in Kineto's traces, and by the names
 * that NCCL gives to its plug-ins. */
static const struct {
	struct call_word name;
	uint32_t bytes;
	const char *said;
} types[] = {
	{ CALL_WORD("Char"), 1, "ncclInt8" },
	{ CALL_WORD("Byte"), 1, "ncclUint8" },
	{ CALL_WORD("Int"), 4, "ncclInt32" },
	{ CALL_WORD("UInt32"), 4, "ncclUint32" },
	{ CALL_WORD("Long"), 8, "ncclInt64" },
	{ CALL_WORD("UInt64"), 8, "ncclUint64" },
	{ CALL_WORD("Half"), 2, "ncclFloat16" },
	{ CALL_WORD("Float"), 4, "ncclFloat32" },
	{ CALL_WORD("Double"), 8, "ncclFloat64" },
	{ CALL_WORD("BFloat16"), 2, "ncclBfloat16" },
	{ CALL_WORD("Float8_e4m3fn"), 1, "ncclFloat8e4m3" },
	{ CALL_WORD("Float8_e5m2"), 1, "ncclFloat8e5m2" },
};
enum { NR_TYPES = sizeof types / sizeof *types };

/* ncclRedOp_t; the program's own come behind. */
static const struct call_word ops[] = {
	CALL_WORD("sum"), CALL_WORD("prod"), CALL_WORD("max"),
	CALL_WORD("min"), CALL_WORD("avg"),
};
static const struct call_word custom = CALL_WORD("custom");
enum { NR_OPS = sizeof ops / sizeof *ops };

enum elements { NONE, ONE, ALL };

static const struct {
	struct call_word name;
	enum elements in, out;
	const char *said;
} collectives[] = {
#define X(id, name, said, in, out) \
	[NCCL_##id] = { CALL_WORD(name), in, out, said },
	NCCL_COLLECTIVES(X)
#undef X
};

/* False where there is no such buffer, or its size is not known. */
static bool count_elements(enum elements elements, size_t count,
			   uint32_t ranks, uint64_t *nr)
{
	if (elements == NONE || (elements == ALL && !ranks))
		return false;
	return !__builtin_mul_overflow((uint64_t)count,
		elements == ALL ? ranks : 1u, nr);
}

static void add_sizes(struct call_args *args, enum nccl_collective collective,
		      size_t count, int type, uint32_t ranks)
{
	enum elements in = collectives[collective].in,
		out = collectives[collective].out;
	uint64_t nr, bytes;

	if (count_elements(in, count, ranks, &nr))
		call_args_number(args, CALL_KEY("In msg nelems"), nr);
	if (count_elements(out, count, ranks, &nr))
		call_args_number(args, CALL_KEY("Out msg nelems"), nr);
	if (type >= 0 && type < NR_TYPES &&
	    count_elements(in > out ? in : out, count, ranks, &nr) &&
	    !__builtin_mul_overflow(nr, types[type].bytes, &bytes))
		call_args_number(args, CALL_KEY("bytes"), bytes);
}

static void add_comm(struct call_args *args, const void *comm, uint32_t ranks,
		     uint32_t rank)
{
	if (ranks) {
		call_args_number(args, CALL_KEY("Group size"), ranks);
		call_args_number(args, CALL_KEY("Rank"), rank);
	}
	if (comm)
		call_args_pointer(args, CALL_KEY("comm"), comm);
}

static void add_root(struct call_args *args, enum nccl_collective collective,
		     int root)
{
	if (root < 0)
		return;
	if (collective == NCCL_SEND || collective == NCCL_RECV)
		call_args_number(args, CALL_KEY("peer"), (uint32_t)root);
	else
		call_args_number(args, CALL_KEY("root"), (uint32_t)root);
}

int nccl_begin(const struct real_symbol *symbol, const void *caller,
	       enum nccl_collective collective, size_t count, int type, int op,
	       int root, void *comm)
{
	uint64_t place = place_of(comm, caller);
	struct call_args args;

	args.len = 0;
	call_args_word(&args, CALL_KEY("Collective name"),
		       &collectives[collective].name);
	if (type >= 0 && type < NR_TYPES)
		call_args_word(&args, CALL_KEY("dtype"), &types[type].name);
	add_sizes(&args, collective, count, type, (uint32_t)(place >> 32));
	if (op != NCCL_NO_OP)
		call_args_word(&args, CALL_KEY("op"), op >= 0 && op < NR_OPS ?
			       &ops[op] : &custom);
	add_root(&args, collective, root);
	add_comm(&args, comm, (uint32_t)(place >> 32), (uint32_t)place);
	return library_call_begin(LIBRARY_NCCL, symbol, &args);
}

int nccl_begin_comm(const struct real_symbol *symbol, const void *comm,
		    int ranks, int rank)
{
	uint64_t place = comm ? known_place(comm) : 0;
	struct call_args args;

	if (ranks > 0 && rank >= 0)
		place = PLACE(ranks, rank);
	args.len = 0;
	add_comm(&args, comm, (uint32_t)(place >> 32), (uint32_t)place);
	return library_call_begin(LIBRARY_NCCL, symbol, &args);
}

/* ---- What NCCL says ---- */

const char *nccl_type_said(uint32_t type)
{
	return type < NR_TYPES ? types[type].said : NULL;
}

static int type_of(const char *said)
{
	int i = 0;

	while (said && i < NR_TYPES && strcmp(types[i].said, said))
		i++;
	return said ? i : NR_TYPES;
}

static enum nccl_collective collective_of(const struct nccl_task *task)
{
	int i;

	for (i = 0; i < NCCL_NR_COLLECTIVES; i++)
		if (strlen(collectives[i].said) == task->func_len &&
		    !memcmp(collectives[i].said, task->func, task->func_len))
			break;
	return (enum nccl_collective)i;
}

/* NCCL says 0 of the others. */
static bool has_root(enum nccl_collective collective)
{
	static const uint32_t rooted = 1u << NCCL_BROADCAST |
		1u << NCCL_REDUCE | 1u << NCCL_GATHER | 1u << NCCL_SCATTER |
		1u << NCCL_SEND | 1u << NCCL_RECV;

	return rooted >> collective & 1;
}

static void add_name(struct call_args *args, const struct nccl_task *task)
{
	struct call_word name = { .text = "\"", .len = 2 };

	if (task->func_len > sizeof name.text - 2)
		return;
	memcpy(name.text + 1, task->func, task->func_len);
	name.text[task->func_len + 1] = '"';
	name.len = (uint8_t)(task->func_len + 2);
	call_args_word(args, CALL_KEY("Collective name"), &name);
}

void nccl_args_of_task(struct call_args *args, const struct nccl_task *task)
{
	enum nccl_collective collective = collective_of(task);
	int type = type_of(task->type);
	bool is_known = collective < NCCL_NR_COLLECTIVES;

	if (is_known)
		call_args_word(args, CALL_KEY("Collective name"),
			       &collectives[collective].name);
	else
		add_name(args, task);
	if (type < NR_TYPES)
		call_args_word(args, CALL_KEY("dtype"), &types[type].name);
	if (is_known)
		add_sizes(args, collective, task->count, type, task->ranks);
	if (has_root(collective))
		add_root(args, collective, task->root);
	add_comm(args, NULL, task->ranks, task->rank);
}
