/* SPDX-License-Identifier: MIT */
/*
 * late: the trace library comes when the program runs already.
 *
 *	late [options] LIBRARY...
 *	--user FILE     a library that uses NVTX (test/shim/user.c), before and
 *	                after; may be repeated
 *	--nvtx          the program itself uses NVTX before
 *	--threads N     so many push and pop, and read the environment, as fast
 *	                as they can meanwhile
 *	--graph         a graph is instantiated before and launched after
 *	--running       a kernel is running meanwhile
 *	--fresh         the program does not use CUDA before
 *	--close         dlopen and dlclose, three times
 *	--settings TEXT given to gputrace_attach() of the last one
 *	--command       the thread that loads is named as gputrace attach's is
 *	--pause         waits for a line on stdin before it loads
 *	--serve         works on after that until a line comes on stdin
 *	--profiler      what comes after is between cuProfilerStart and Stop
 *	--measure       another thread launches all the time: its longest gap
 *	                between two launches, in 0.3 s before the load and
 *	                during it; what memory the process has more
 *	--end WORD      exit (default), _exit, quick_exit, fork
 *
 * Shows: kernels before dlopen(LIBRARY) ("copy", not traced), kernels after
 * it ("silu", traced), in a range.
 */
#include <cudaProfiler.h>
#include <dirent.h>
#include <dlfcn.h>
#include <getopt.h>
#include <nvtx3/nvToolsExt.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/host/gpu.h"

#define KERNELS 50
#define NODES 20
#define RUNNING_NS 300000000
#define MAX_USERS 8
#define MAX_THREADS 16
#define DEADLINE_NS UINT64_C(20000000000)

static const char *users[MAX_USERS], *settings, *end = "exit";
static int (*calls[MAX_USERS])(const char *name);
static int nr_users, nr_threads, use_nvtx, use_graph, use_running;
static int is_fresh, is_closed, is_paused, is_measured, use_profiler;
static int is_serving, is_commanded;
static atomic_bool is_loaded, is_over;
static atomic_int nr_seen, nr_outside; /* pushes; threads out of their ranges */

static struct gpu gpu;
static CUstream stream;
static CUgraphExec graph;
static nvtxDomainHandle_t domain;
static nvtxStringHandle_t string;
static nvtxRangeId_t started;
static pthread_t threads[MAX_THREADS];

static void launch_many(enum gpu_kernel kernel)
{
	int i;

	for (i = 0; i < KERNELS; i++)
		gpu_launch(&gpu, kernel, stream, 2000);
	CU(cuCtxSynchronize);
}

static void make_graph(void)
{
	CUgraph made;
	int i;

	CU(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	for (i = 0; i < NODES; i++)
		gpu_launch(&gpu, KERNEL_ROPE, stream, 1500);
	CU(cuStreamEndCapture, stream, &made);
	CU(cuGraphInstantiateWithFlags, &graph, made, 0);
	CU(cuGraphDestroy, made);
	CU(cuGraphLaunch, graph, stream);
	CU(cuStreamSynchronize, stream);
}

/* Ranges, one in another, as fast as can be until the library is there; a
 * level that is not what it must be, or a range that is open afterwards, would
 * say that a push was seen without its pop. */
static void *push_and_pop(void *argument)
{
	int outer, inner;

	(void)argument;
	while (!is_loaded) {
		outer = nvtxRangePushA("busy outer");
		inner = nvtxRangePushA("busy inner");
		if (outer > 0 || inner > 1)
			TALLY("wrong", "levels", 1);
		nr_seen += outer == 0;
		nvtxRangePop();
		nvtxRangePop();
		if (getenv("LATE_IS_NOT_SET"))
			TALLY("wrong", "environment", 1);
	}
	nr_outside++;
	while (!is_over)
		usleep(1000);
	return NULL;
}

static _Atomic uint64_t longest_ns;

static void *launch_and_measure(void *argument)
{
	uint64_t last_ns, ns;
	CUstream own;
	int i;

	gpu_use(argument);
	CU(cuStreamCreate, &own, CU_STREAM_NON_BLOCKING);
	last_ns = now_ns();
	for (i = 0; !is_over; i++) {
		gpu_launch(argument, KERNEL_ADD, own, 1000);
		ns = now_ns() - last_ns;
		last_ns += ns;
		if (ns > longest_ns)
			longest_ns = ns;
		if (i % 64 == 63) {
			CU(cuStreamSynchronize, own);
			last_ns = now_ns();
		}
	}
	return NULL;
}

static long resident_kb(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages = 0;

	if (file && fscanf(file, "%*s %ld", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void push_in(nvtxDomainHandle_t in, const char *text)
{
	nvtxEventAttributes_t a = {
		.version = NVTX_VERSION, .size = sizeof(a),
		.messageType = NVTX_MESSAGE_TYPE_REGISTERED,
		.message = { .registered = string },
	};

	if (text) {
		a.messageType = NVTX_MESSAGE_TYPE_ASCII;
		a.message.ascii = text;
	}
	nvtxDomainRangePushEx(in, &a);
}

static void use_before(void)
{
	int i;

	for (i = 0; i < nr_users; i++)
		if (calls[i]("user before") >= 0)
			TALLY("wrong", "somebody listens before", 1);
	if (!use_nvtx)
		return;
	nvtxMarkA("mark before");
	domain = nvtxDomainCreateA("domain before");
	string = nvtxDomainRegisterStringA(domain, "string before");
	started = nvtxRangeStartA("started before");
	nvtxRangePushA("open before");
	push_in(domain, "open in a domain before");
}

static void use_after(void)
{
	int i;

	for (i = 0; i < nr_users; i++)
		if (calls[i]("user after") == 0)
			TALLY("ranges", "user after", 1);
	if (!use_nvtx)
		return;
	nvtxRangePushA("after");
	nvtxRangePop();
	push_in(domain, "handle from before");
	nvtxDomainRangePop(domain);
	push_in(domain, NULL);
	nvtxDomainRangePop(domain);
	/* The pops of pushes that nobody saw. */
	nvtxDomainRangePop(domain);
	nvtxRangePop();
	nvtxRangeEnd(started);
	push_in(nvtxDomainCreateA("domain after"), "in the new domain");
	nvtxDomainRangePop(nvtxDomainCreateA("domain after"));
	nvtxRangePushA("afterwards");
	nvtxRangePop();
	nvtxDomainDestroy(domain);
}

static void before(void)
{
	int least, greatest;

	gpu_open(&gpu, 0);
	CU(cuCtxGetStreamPriorityRange, &least, &greatest);
	CU(cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING,
	   greatest);
	launch_many(KERNEL_COPY);
	TALLY("before", "kernels", KERNELS);
	if (use_graph)
		make_graph();
	if (use_running)
		gpu_launch(&gpu, KERNEL_FLASH, NULL, RUNNING_NS);
}

static bool has_thread(const char *name)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	char path[300], comm[32];
	bool found = false;
	FILE *file;

	while (tasks && !found && (task = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
			 task->d_name);
		file = fopen(path, "r");
		if (file && fgets(comm, sizeof(comm), file))
			found = !strncmp(comm, name, strlen(name));
		if (file)
			fclose(file);
	}
	if (tasks)
		closedir(tasks);
	return found;
}

/* Until the library's own thread is through. */
static void wait_for_attach(void)
{
	uint64_t until_ns = now_ns() + DEADLINE_NS;

	while (has_thread("gputrace-attach") && now_ns() < until_ns)
		usleep(2000);
}

static void load(const char *path, const char *given)
{
	int (*give)(const char *settings);
	void *library;
	int i;

	for (i = 0; i < (is_closed ? 3 : 1); i++) {
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!library) {
			fprintf(stderr, "late: %s\n", dlerror());
			exit(EXIT_FAILURE);
		}
		if (given) {
			give = (int (*)(const char *))
				dlsym(library, "gputrace_attach");
			TALLY("settings", "refused", give(given) != 0);
		}
		if (is_closed)
			dlclose(library);
	}
	if (!is_fresh && (settings || !is_commanded))
		wait_for_attach();
}

static void load_all(int nr, char **paths)
{
	uint64_t start_ns;
	pthread_t thread;
	long kb;
	int i;

	if (is_measured) {
		pthread_create(&thread, NULL, launch_and_measure, &gpu);
		pthread_detach(thread);
		usleep(300000);
		TALLY("gap", "before us", (long)(longest_ns / 1000));
		longest_ns = 0;
	}
	kb = resident_kb();
	start_ns = now_ns();
	for (i = 0; i < nr; i++)
		load(paths[i], i == nr - 1 ? settings : NULL);
	if (is_measured) {
		TALLY("load", "us", (long)((now_ns() - start_ns) / 1000));
		TALLY("gap", "during us", (long)(longest_ns / 1000));
		TALLY("memory", "kB", resident_kb() - kb);
	}
}

static void serve(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	puts("ready");
	fflush(stdout);
	nvtxRangePushA("serving");
	while (!poll(&input, 1, 2)) {
		nvtxRangePushA("request");
		gpu_launch(&gpu, KERNEL_ADD, stream, 2000);
		if (graph)
			CU(cuGraphLaunch, graph, stream);
		CU(cuStreamSynchronize, stream);
		nvtxRangePop();
	}
	nvtxRangePop();
}

static void after(void)
{
	if (is_fresh) {
		before();
		wait_for_attach();
	}
	if (use_profiler)
		CU(cuProfilerStart);
	nvtxRangePushA("late range");
	launch_many(KERNEL_SILU);
	nvtxRangePop();
	TALLY("gpu", "kernels", KERNELS);
	TALLY("ranges", "late range", 1);
	if (graph) {
		CU(cuGraphLaunch, graph, stream);
		CU(cuStreamSynchronize, stream);
		TALLY("gpu", "nodes", NODES);
	}
	use_after();
	if (is_serving)
		serve();
	if (use_profiler)
		CU(cuProfilerStop);
}

static void finish(void)
{
	int status = 0;
	pid_t child;

	if (!strcmp(end, "fork")) {
		child = fork();
		if (!child)
			exit(7);
		waitpid(child, &status, 0);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
			TALLY("wrong", "child", 1);
	}
	if (!strcmp(end, "_exit"))
		usleep(700000); /* some flushes of 100 ms */
	gpu_close(&gpu);
	tally_print();
	fflush(NULL);
	if (!strcmp(end, "_exit"))
		_exit(EXIT_SUCCESS);
	if (!strcmp(end, "quick_exit"))
		quick_exit(EXIT_SUCCESS);
}

static const struct option long_options[] = {
	{ "user", required_argument, NULL, 'u' },
	{ "nvtx", no_argument, &use_nvtx, 1 },
	{ "threads", required_argument, NULL, 't' },
	{ "graph", no_argument, &use_graph, 1 },
	{ "running", no_argument, &use_running, 1 },
	{ "fresh", no_argument, &is_fresh, 1 },
	{ "close", no_argument, &is_closed, 1 },
	{ "settings", required_argument, NULL, 's' },
	{ "pause", no_argument, &is_paused, 1 },
	{ "measure", no_argument, &is_measured, 1 },
	{ "command", no_argument, &is_commanded, 1 },
	{ "serve", no_argument, &is_serving, 1 },
	{ "profiler", no_argument, &use_profiler, 1 },
	{ "end", required_argument, NULL, 'e' },
	{ NULL, 0, NULL, 0 },
};

static void add_user(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!library || nr_users == MAX_USERS)
		exit(2);
	users[nr_users] = path;
	calls[nr_users++] = (int (*)(const char *))
		dlsym(library, "user_call");
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case 0: break;
		case 'u': add_user(optarg); break;
		case 't': nr_threads = atoi(optarg); break;
		case 's': settings = optarg; break;
		case 'e': end = optarg; break;
		default: exit(2);
		}
	}
	if (nr_threads > MAX_THREADS)
		exit(2);
}

int main(int argc, char **argv)
{
	int i;

	parse(argc, argv);
	setenv("LATE_IS_SET", "1", 1);  /* its array is the C library's now */
	if (!is_fresh)
		before();
	use_before();
	for (i = 0; i < nr_threads; i++)
		pthread_create(&threads[i], NULL, push_and_pop, NULL);
	if (is_paused) {
		puts("ready");
		fflush(stdout);
		getchar();
	}
	if (is_commanded)
		prctl(PR_SET_NAME, "gputrace-load");
	load_all(argc - optind, argv + optind);
	for (i = 0; nr_threads && !nr_seen && i < 5000; i++)
		usleep(1000);
	TALLY("ranges", "seen", nr_seen);
	is_loaded = true;
	while (nr_outside < nr_threads)
		usleep(1000);
	after();
	is_over = true;
	for (i = 0; i < nr_threads; i++)
		pthread_join(threads[i], NULL);
	finish();
	return EXIT_SUCCESS;
}
