/* SPDX-License-Identifier: MIT */
#include "collector/nccl_event.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "collector/loss.h"
#include "collector/nccl_call.h"
#include "collector/pin.h"

/*
 * Of NCCL's mask: ncclProfileColl, ncclProfileP2p.  Neither changes what NCCL
 * does: ncclProfileKernelCh (1 << 6) would give kernels of NVLink a proxy, and
 * a host callback to each launch of a captured graph.
 */
#define TASKS (1 << 1 | 1 << 2)

/* ---- The masks ---- */

/* One of each NCCL in the process: PyTorch's, and one of the program's own. */
#define NR_MASKS 8

static _Atomic(_Atomic int *) masks[NR_MASKS];
static _Atomic bool is_open, is_expected;

static void write_masks(int value)
{
	for (int i = 0; i < NR_MASKS; i++) {
		_Atomic int *mask = atomic_load(&masks[i]);

		if (mask)
			atomic_store_explicit(mask, value,
					      memory_order_relaxed);
	}
}

void nccl_event_open(void)
{
	/* Before the masks: whoever adds one now reads it. */
	atomic_store(&is_open, true);
	write_masks(TASKS);
}

void nccl_event_close(void)
{
	atomic_store(&is_open, false);
	write_masks(0);
}

void nccl_event_expect(void)
{
	atomic_store(&is_expected, true);
}

bool nccl_event_is_expected(void)
{
	return atomic_load(&is_expected);
}

static bool is_kept(_Atomic int *mask)
{
	for (int i = 0; i < NR_MASKS; i++)
		if (atomic_load(&masks[i]) == mask)
			return true;
	return false;
}

static bool keep(_Atomic int *mask)
{
	if (!pin_library(mask))
		return false;
	for (int i = 0; i < NR_MASKS; i++) {
		_Atomic int *none = NULL;

		if (atomic_compare_exchange_strong(&masks[i], &none, mask) ||
		    none == mask)
			return true;
	}
	return false;
}

static void add_mask(_Atomic int *mask)
{
	bool open;

	if (!is_kept(mask) && !keep(mask)) {
		atomic_store_explicit(mask, TASKS, memory_order_relaxed);
		return;
	}
	do {
		open = atomic_load(&is_open);
		atomic_store_explicit(mask, open ? TASKS : 0,
				      memory_order_relaxed);
	} while (open != atomic_load(&is_open));
}

/* ---- Communicators ---- */

/* 512 at once: a server has some ten, one for each kind of parallelism. */
#define NR_COMMS 512
#define NAME_MAX_LEN 40

static struct comm {
	atomic_flag is_taken;
	uint64_t hash;
	uint32_t ranks, rank, name_len;
	char name[NAME_MAX_LEN];
} comms[NR_COMMS];

static bool is_plain(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
		(c >= 'A' && c <= 'Z') || (c && strchr(" _,.:/+-", c));
}

/* What stands between quotes as it is; anything else is a question mark. */
static uint32_t put_plain(char *to, const char *text, uint32_t max)
{
	uint32_t i;

	for (i = 0; text && text[i] && i < max; i++)
		to[i] = is_plain(text[i]) ? text[i] : '?';
	return i;
}

static struct comm *take(void)
{
	for (int i = 0; i < NR_COMMS; i++)
		if (!atomic_flag_test_and_set(&comms[i].is_taken))
			return &comms[i];
	loss_add(LOSS_TABLE_FULL, 1);
	return NULL;
}

void *nccl_event_comm(int *mask, uint64_t hash, const char *name, int ranks,
		      int rank)
{
	struct comm *comm = NULL;
	int saved = errno;

	if (mask)
		add_mask((_Atomic int *)mask);
	if (ranks > 0 && rank >= 0)
		comm = take();
	if (comm) {
		comm->hash = hash;
		comm->ranks = (uint32_t)ranks;
		comm->rank = (uint32_t)rank;
		comm->name_len = put_plain(comm->name, name, NAME_MAX_LEN);
	}
	errno = saved;
	return comm;
}

void nccl_event_comm_end(void *comm)
{
	struct comm *it = comm;

	if (it >= comms && it < comms + NR_COMMS)
		atomic_flag_clear(&it->is_taken);
}

/* ---- Events ---- */

uint64_t nccl_event_plan(void)
{
	static _Atomic uint64_t last;

	return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static void add_text(struct call_args *args, struct call_key key,
		     const char *text, uint32_t max)
{
	char *at = text && *text ? call_args_key(args, key, max + 2) : NULL;
	uint32_t len;

	if (!at)
		return;
	len = put_plain(at + 1, text, max);
	at[0] = at[len + 1] = '"';
	args->len += len + 2;
}

static void add_comm(struct call_args *args, const struct comm *comm,
		     const struct nccl_event *event)
{
	uint64_t hash = comm ? comm->hash : event->comm_hash;
	char name[NAME_MAX_LEN + 1];

	if (hash)
		call_args_pointer(args, CALL_KEY("comm hash"),
				  (const void *)(uintptr_t)hash);
	if (!comm || !comm->name_len)
		return;
	memcpy(name, comm->name, comm->name_len);
	name[comm->name_len] = 0;
	add_text(args, CALL_KEY("comm name"), name, NAME_MAX_LEN);
}

static void add_choice(struct call_args *args, const struct nccl_event *event)
{
	enum { WORD_MAX = 24 };

	add_text(args, CALL_KEY("algorithm"), event->algorithm, WORD_MAX);
	add_text(args, CALL_KEY("protocol"), event->protocol, WORD_MAX);
	if (event->channels)
		call_args_number(args, CALL_KEY("channels"), event->channels);
	if (event->sequence)
		call_args_number(args, CALL_KEY("Seq"), event->sequence);
	if (event->plan)
		call_args_number(args, CALL_KEY("plan"), event->plan);
}

void nccl_event(const void *context, const struct nccl_event *event)
{
	enum { FUNC_MAX = 32 };
	const struct comm *comm = context;
	struct real_symbol symbol = { .name = event->func };
	struct call_args args = { .len = 0 };
	char func[FUNC_MAX];

	if (!event->func || !library_is_recorded(LIBRARY_NCCL))
		return;
	symbol.name = func;
	symbol.name_len = put_plain(func, event->func, FUNC_MAX);
	nccl_args_of_task(&args, &(struct nccl_task){
		.func = func, .func_len = symbol.name_len,
		.type = event->type, .count = event->count,
		.root = event->root,
		.ranks = comm ? comm->ranks : 0,
		.rank = comm ? comm->rank : (uint32_t)event->rank,
	});
	add_comm(&args, comm, event);
	add_choice(&args, event);
	library_call_end(LIBRARY_NCCL, library_call_begin(LIBRARY_NCCL,
							  &symbol, &args));
}
