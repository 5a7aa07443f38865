/* SPDX-License-Identifier: MIT */
/*
 * What NCCL says of a task as arguments: its words as they are where we do not
 * know them, never what JSON could trip over; the masks of NCCL's, as windows
 * open and close.
 */
#include <string.h>

#include "collector/nccl_call.h"
#include "collector/nccl_event.h"
#include "test/check.h"

static bool is(const struct call_args *args, const char *text)
{
	return args->len == strlen(text) &&
		!memcmp(args->text, text, args->len);
}

static struct call_args args_of(struct nccl_task task)
{
	struct call_args args = { .len = 0 };

	task.func_len = (uint32_t)strlen(task.func);
	nccl_args_of_task(&args, &task);
	return args;
}

#define IS(text, ...) do { \
	struct call_args args = args_of((struct nccl_task){ __VA_ARGS__ }); \
									\
	CHECK(is(&args, text)); \
} while (0)

static void test_sizes(void)
{
	IS(",\"Collective name\":\"allgather\",\"dtype\":\"Half\","
	   "\"In msg nelems\":3,\"Out msg nelems\":12,\"bytes\":24,"
	   "\"Group size\":4,\"Rank\":1",
	   .func = "AllGather", .type = "ncclFloat16", .count = 3, .root = 0,
	   .ranks = 4, .rank = 1);
	/* Nobody knows how many ranks; no number that is none. */
	IS(",\"Collective name\":\"reduce_scatter\",\"dtype\":\"Half\","
	   "\"Out msg nelems\":3",
	   .func = "ReduceScatter", .type = "ncclFloat16", .count = 3);
	IS(",\"Collective name\":\"allreduce\",\"dtype\":\"Double\","
	   "\"In msg nelems\":18446744073709551615,"
	   "\"Out msg nelems\":18446744073709551615",
	   .func = "AllReduce", .type = "ncclFloat64", .count = UINT64_MAX);
	IS(",\"Collective name\":\"send\",\"In msg nelems\":1,\"peer\":7",
	   .func = "Send", .type = "ncclFloat4", .count = 1, .root = 7);
	IS(",\"Collective name\":\"reduce\",\"In msg nelems\":1,"
	   "\"Out msg nelems\":1", .func = "Reduce", .type = NULL, .count = 1,
	   .root = -1);
}

/* Functions of a later NCCL. */
static void test_unknown(void)
{
	IS(",\"Collective name\":\"PutSignal\"", .func = "PutSignal",
	   .count = 9);
	IS(",\"Collective name\":\"Gat\"", .func = "Gat");
	IS("", .func = "AllReduceAllReduceAllReduceAllReduce");
}

static int mask, other_mask;

static void test_masks(void)
{
	int on_stack = -1;
	void *comm, *same;

	comm = nccl_event_comm(&mask, 1, "a", 2, 0);
	CHECK(comm && mask == 0);
	nccl_event_open();
	CHECK(mask == 6);       /* collectives, point to point */
	same = nccl_event_comm(&mask, 2, NULL, 2, 1);
	CHECK(same && same != comm);
	CHECK(!nccl_event_comm(&other_mask, 0, NULL, 0, 0));
	CHECK(other_mask == 6);
	nccl_event_close();
	CHECK(mask == 0 && other_mask == 0);
	/* In no library: it may be gone by then. */
	nccl_event_comm(&on_stack, 3, NULL, 0, 0);
	CHECK(on_stack == 6);
	nccl_event_open();
	nccl_event_close();
	CHECK(on_stack == 6);
	nccl_event_comm_end(comm);
	nccl_event_comm_end(same);
	nccl_event_comm_end(NULL);
	CHECK(nccl_event_comm(NULL, 4, "b", 2, 0) == comm);
}

int main(void)
{
	test_sizes();
	test_unknown();
	test_masks();
	return check_result();
}
