/* SPDX-License-Identifier: MIT */
/*
 * A plugin with an NCCL of its own inside, as PyTorch is built where it links
 * NCCL statically: the loader binds its calls to whoever stands first in the
 * global scope.  Its communicator is nothing to any other NCCL.
 */
#include <stdio.h>

struct own_comm {
	long mark;
};

static struct own_comm comm = { 4711 };
static long nr_own;

#define OWN __attribute__((visibility("default"), noinline))

OWN int ncclCommCount(struct own_comm *it, int *count)
{
	*count = 2;
	return it->mark == 4711 ? 0 : 4;
}

OWN int ncclCommUserRank(struct own_comm *it, int *rank)
{
	*rank = 1;
	return it->mark == 4711 ? 0 : 4;
}

OWN int ncclAllReduce(const void *in, void *out, size_t count, int type,
		      int op, struct own_comm *it, void *stream)
{
	(void)in;
	(void)out;
	(void)count;
	(void)type;
	(void)op;
	(void)stream;
	nr_own++;
	return it->mark == 4711 ? 0 : 4;
}

int run_calls(int argc, char **argv);
int run_calls(int argc, char **argv)
{
	int result = ncclAllReduce(argv, argv, 6, 7, 0, &comm, NULL);

	printf("{\"own\": %ld, \"status\": %d}\n", nr_own, result);
	return argc < 0;
}
