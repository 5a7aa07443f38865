/* SPDX-License-Identifier: MIT */
/*
 * nccl_handle: calls NCCL as programs do that are not linked to it (Python's
 * ctypes, by which vLLM calls it): functions from dlsym() of the library's
 * handle, which no wrapper sees.
 *
 *	nccl_handle [--calls N] [--threads N] [--pause-us N] [--fork]
 *	            [--comms N] [--own-plugin NAME]
 *
 * A communicator of 8 ranks, whose rank 5 it is, makes one call of each kind
 * and a group of three; prints what it passed, a JSON object a line.  --calls:
 * then all-reduces of 1, 2 ... elements instead, from each of --threads, each
 * with a communicator of its own, with a pause behind each.  --comms makes so
 * many communicators first, and destroys them last.  --fork: a child calls
 * too, behind the parent.  --own-plugin sets NCCL_PROFILER_PLUGIN itself, in
 * main.  Ends with 1 where a call fails; the last line is what
 * NCCL_PROFILER_PLUGIN is then, and how often the plug-in was told something.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 8, RANK = 5, MOST_THREADS = 64, MOST_COMMS = 4096 };
#define BUFFER ((void *)0x1000)

struct unique_id {
	char bytes[128];
};

static int (*comm_init)(void **comm, int ranks, struct unique_id id, int rank);
static int (*comm_destroy)(void *comm);
static int (*group_start)(void), (*group_end)(void);
static int (*all_reduce)(const void *in, void *out, size_t count, int type,
	int op, void *comm, void *stream);
static int (*reduce_scatter)(const void *in, void *out, size_t count, int type,
	int op, void *comm, void *stream);
static int (*all_gather)(const void *in, void *out, size_t count, int type,
	void *comm, void *stream);
static int (*broadcast)(const void *in, void *out, size_t count, int type,
	int root, void *comm, void *stream);
static int (*send_to)(const void *buffer, size_t count, int type, int peer,
	void *comm, void *stream);
static int (*receive)(void *buffer, size_t count, int type, int peer,
	void *comm, void *stream);

static long (*told)(void);

static const struct {
	const char *name;
	void *function;
} names[] = {
	{ "ncclCommInitRank", &comm_init },
	{ "ncclCommDestroy", &comm_destroy },
	{ "ncclGroupStart", &group_start }, { "ncclGroupEnd", &group_end },
	{ "ncclAllReduce", &all_reduce },
	{ "ncclReduceScatter", &reduce_scatter },
	{ "ncclAllGather", &all_gather }, { "ncclBroadcast", &broadcast },
	{ "ncclSend", &send_to }, { "ncclRecv", &receive },
	{ "ncclSimTold", &told },
};

static long nr_calls;
static unsigned int pause_us;
static _Atomic int nr_failed;

static void load(void)
{
	void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);

	for (size_t i = 0; library && i < sizeof(names) / sizeof(*names); i++)
		*(void **)names[i].function = dlsym(library, names[i].name);
	if (library && told)
		return;
	fprintf(stderr, "nccl_handle: %s\n", dlerror());
	exit(2);
}

static void *make(void)
{
	struct unique_id id = { { 1 } };
	void *comm = NULL;

	id.bytes[127] = 127;
	nr_failed += comm_init(&comm, RANKS, id, RANK) != 0;
	return comm;
}

static void tell(const char *call, int status, size_t count, int type,
		 int root)
{
	nr_failed += status != 0;
	printf("{\"call\": \"%s\", \"count\": %zu, \"type\": %d, \"root\": %d, "
	       "\"ranks\": %d, \"rank\": %d}\n", call, count, type, root, RANKS,
	       RANK);
}

static void call_each(void)
{
	void *comm = make();

	tell("AllReduce", all_reduce(BUFFER, BUFFER, 1000, 7, 0, comm, NULL),
	     1000, 7, 0);
	tell("ReduceScatter",
	     reduce_scatter(BUFFER, BUFFER, 301, 9, 4, comm, NULL), 301, 9, 0);
	tell("AllGather", all_gather(BUFFER, BUFFER, 71, 6, comm, NULL), 71, 6,
	     0);
	tell("Broadcast", broadcast(BUFFER, BUFFER, 11, 8, 3, comm, NULL), 11,
	     8, 3);
	tell("Send", send_to(BUFFER, 5, 0, 1, comm, NULL), 5, 0, 1);
	tell("Recv", receive(BUFFER, 6, 4, 2, comm, NULL), 6, 4, 2);
	group_start();
	for (size_t i = 13; i < 16; i++)
		tell("AllReduce", all_reduce(BUFFER, BUFFER, i, 7, 2, comm,
					     NULL), i, 7, 0);
	nr_failed += group_end() != 0;
	comm_destroy(comm);
}

static void *call_many(void *argument)
{
	void *comm = make();

	(void)argument;
	for (long i = 1; i <= nr_calls; i++) {
		nr_failed += all_reduce(BUFFER, BUFFER, (size_t)i, 7, 0, comm,
					NULL) != 0;
		if (pause_us)
			usleep(pause_us);
	}
	comm_destroy(comm);
	return NULL;
}

static void call_from_threads(int nr)
{
	pthread_t threads[MOST_THREADS];
	int i;

	/* The device, once; and NCCL is without any communicator again. */
	comm_destroy(make());
	for (i = 0; i < nr; i++)
		pthread_create(&threads[i], NULL, call_many, NULL);
	for (i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
}

static int run(int nr_comms, int nr_threads)
{
	static void *comms[MOST_COMMS];
	const char *value;
	int i;

	for (i = 0; i < nr_comms; i++)
		comms[i] = make();
	if (nr_calls)
		call_from_threads(nr_threads);
	else
		call_each();
	for (i = 0; i < nr_comms; i++)
		comm_destroy(comms[i]);
	value = getenv("NCCL_PROFILER_PLUGIN");
	printf("{\"plugin\": \"%s\", \"told\": %ld}\n", value ? value : "",
	       told());
	fflush(stdout);
	return nr_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The communicator outlives the fork, as a careless program's does. */
static int run_with_child(void)
{
	void *comm = make();
	int status = -1;
	pid_t child;

	nr_failed += all_reduce(BUFFER, BUFFER, 4, 7, 0, comm, NULL) != 0;
	child = fork();
	if (child == 0) {
		all_reduce(BUFFER, BUFFER, 5, 7, 0, comm, NULL);
		_exit(0);
	}
	waitpid(child, &status, 0);
	nr_failed += all_reduce(BUFFER, BUFFER, 6, 7, 0, comm, NULL) != 0;
	comm_destroy(comm);
	return nr_failed || status ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "calls", required_argument, NULL, 'c' },
		{ "threads", required_argument, NULL, 't' },
		{ "pause-us", required_argument, NULL, 'p' },
		{ "comms", required_argument, NULL, 'm' },
		{ "own-plugin", required_argument, NULL, 'o' },
		{ "fork", no_argument, NULL, 'f' },
		{ NULL, 0, NULL, 0 },
	};
	int c, threads = 1, comms = 0, forks = 0;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (c == 'c')
			nr_calls = atol(optarg);
		else if (c == 't' && atoi(optarg) <= MOST_THREADS)
			threads = atoi(optarg);
		else if (c == 'p')
			pause_us = (unsigned int)atoi(optarg);
		else if (c == 'm' && atoi(optarg) <= MOST_COMMS)
			comms = atoi(optarg);
		else if (c == 'o')
			setenv("NCCL_PROFILER_PLUGIN", optarg, 1);
		else if (c == 'f')
			forks = 1;
		else
			return 2;
	}
	load();
	return forks ? run_with_child() : run(comms, threads);
}
