/* SPDX-License-Identifier: MIT */
/*
 * decode: a language model that decodes, as the GPU and a profiler see it.
 *
 * Prefill, then steps; a step is
 *
 *	step { schedule  forward { HtoD, memset, K kernels }  sample { DtoH } }
 *
 * K kernels of X us, each launch costing Y us of CPU.  With --sync-ms M the
 * last kernel takes M ms and `sample` waits for it, like an .item(); without,
 * the program runs one step ahead of the GPU.  Layers are ranges of a domain
 * of their own, requests are start/end ranges that another thread ends.
 *
 * It prints "steps N" (of all threads together).  --verbose adds one line of
 * JSON: what it launched, called, copied and named.
 */
#include <getopt.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/host/gpu.h"

#define MAX_STREAMS 64
#define MAX_THREADS 256
#define PROMPT_BYTES (64 << 10)
#define CACHE_BYTES (1 << 20)
#define INPUT_BYTES 512

struct options {
	long steps;
	double seconds;
	long kernels;
	double kernel_us, launch_us, sync_ms;
	long streams, threads;
	bool graph, verbose;
};

static struct options options = {
	.steps = 10, .kernels = 100, .kernel_us = 5, .launch_us = 5,
	.streams = 1, .threads = 1,
};

/* One thread's decoder. */
struct decoder {
	const struct gpu *gpu;
	int number;
	CUstream streams[MAX_STREAMS];
	CUevent fork, join[MAX_STREAMS];
	CUevent sampled[2];           /* of the last two steps */
	CUgraphExec graph;
	CUdeviceptr prompt, cache, input, token;
	int *host;                    /* pinned: inputs, then the token */
	char *text;                   /* pageable: the prompt */
	uint64_t due_ns;              /* when the next launch may begin */
	nvtxRangeId_t request;
	long steps;
};

static const enum gpu_kernel layer[] = {
	KERNEL_RMS_NORM, KERNEL_GEMM_QKV, KERNEL_ROPE, KERNEL_ATTENTION,
	KERNEL_GEMM_OUT, KERNEL_ADD_RMS_NORM, KERNEL_GEMM_UP, KERNEL_SILU,
	KERNEL_GEMM_DOWN,
};
#define LAYER_KERNELS ((long)(sizeof(layer) / sizeof(layer[0])))

static nvtxDomainHandle_t scheduler, model;
static nvtxStringHandle_t layer_name, schedule_name;
enum { CATEGORY_BATCH = 1, CATEGORY_TOKEN = 2 };

static void make_domains(void)
{
	scheduler = nvtxDomainCreateA("scheduler");
	model = nvtxDomainCreateA("model");
	nvtxDomainNameCategoryA(scheduler, CATEGORY_BATCH, "batch");
	nvtxDomainNameCategoryA(scheduler, CATEGORY_TOKEN, "token");
	layer_name = nvtxDomainRegisterStringA(model, "layer");
	schedule_name = nvtxDomainRegisterStringA(scheduler, "schedule");
}

static nvtxEventAttributes_t attributes(uint32_t category, uint32_t color,
					int64_t payload)
{
	nvtxEventAttributes_t a = {
		.version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.category = category,
		.colorType = NVTX_COLOR_ARGB,
		.color = color,
		.payloadType = NVTX_PAYLOAD_TYPE_INT64,
		.payload.llValue = payload,
	};
	return a;
}

static nvtxEventAttributes_t registered(nvtxEventAttributes_t a,
					nvtxStringHandle_t name)
{
	a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	a.message.registered = name;
	return a;
}

static nvtxEventAttributes_t named(nvtxEventAttributes_t a, const char *name)
{
	a.messageType = NVTX_MESSAGE_TYPE_ASCII;
	a.message.ascii = name;
	return a;
}

/* Lets the launch that began at due_ns cost launch_us.  A thread that lost its
 * CPU for long does not catch up. */
static void pay_for_launch(struct decoder *d)
{
	uint64_t now, cost = options.launch_us * 1000;

	if (!cost)
		return;
	now = now_ns();
	d->due_ns += cost;
	if (now > d->due_ns + 1000000)
		d->due_ns = now;
	spin_until_ns(d->due_ns);
}

static void launch(struct decoder *d, long k, bool paced)
{
	CUstream stream = d->streams[k % options.streams];
	bool is_last = k == options.kernels - 1;
	uint64_t ns = options.kernel_us * 1000;

	if (is_last) {
		stream = d->streams[0];
		if (options.sync_ms > 0)
			ns = options.sync_ms * 1000000;
	}
	gpu_launch(d->gpu, is_last ? KERNEL_ARGMAX : layer[k % LAYER_KERNELS],
		   stream, ns);
	if (paced)
		pay_for_launch(d);
}

/* The other streams begin after the first one and end before its last
 * kernel. */
static void fork_streams(struct decoder *d)
{
	long i;

	if (options.streams == 1 || options.kernels == 0)
		return;
	CU(cuEventRecord, d->fork, d->streams[0]);
	for (i = 1; i < options.streams; i++)
		CU(cuStreamWaitEvent, d->streams[i], d->fork, 0);
}

static void join_streams(struct decoder *d)
{
	long i;

	for (i = 1; i < options.streams; i++) {
		CU(cuEventRecord, d->join[i], d->streams[i]);
		CU(cuStreamWaitEvent, d->streams[0], d->join[i], 0);
	}
}

static void push_layer(long number)
{
	nvtxEventAttributes_t a = registered(attributes(0, 0xff76b900, number),
					     layer_name);

	nvtxDomainRangePushEx(model, &a);
	TALLY("ranges", "layer", 1);
}

static void launch_kernels(struct decoder *d, bool paced)
{
	long k;

	fork_streams(d);
	for (k = 0; k < options.kernels; k++) {
		if (k % LAYER_KERNELS == 0)
			push_layer(k / LAYER_KERNELS);
		if (k == options.kernels - 1)
			join_streams(d);
		launch(d, k, paced);
		if (k % LAYER_KERNELS == LAYER_KERNELS - 1 ||
		    k == options.kernels - 1)
			nvtxDomainRangePop(model);
	}
}

static void count_kernels(void)
{
	TALLY("gpu", "kernels", options.kernels);
	TALLY("gpu", "joins", options.kernels ? options.streams - 1 : 0);
}

/* One step's kernels as a CUDA graph. */
static void capture(struct decoder *d)
{
	CUgraph graph;

	CU(cuStreamBeginCapture, d->streams[0],
	   CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	launch_kernels(d, false);
	CU(cuStreamEndCapture, d->streams[0], &graph);
	CU(cuGraphInstantiateWithFlags, &d->graph, graph, 0);
	CU(cuGraphDestroy, graph);
}

static void prefill(struct decoder *d)
{
	CUstream stream = d->streams[0];

	nvtxRangePushA("prefill");
	TALLY("ranges", "prefill", 1);
	CU(cuMemcpyHtoDAsync, d->prompt, d->text, PROMPT_BYTES, stream);
	CU(cuMemsetD8Async, d->cache, 0, CACHE_BYTES, stream);
	TALLY("gpu", "HtoD", 1);
	TALLY("gpu", "sets", 1);
	d->due_ns = now_ns();
	launch_kernels(d, true);
	count_kernels();
	CU(cuStreamSynchronize, stream);
	nvtxRangePop();
}

static void schedule(struct decoder *d)
{
	nvtxEventAttributes_t a = registered(
		attributes(CATEGORY_BATCH, 0xff4477aa, 1), schedule_name);

	nvtxDomainRangePushEx(scheduler, &a);
	TALLY("ranges", "schedule", 1);
	d->host[0] = d->steps;
	nvtxDomainRangePop(scheduler);
}

static void forward(struct decoder *d)
{
	nvtxRangePushA("forward");
	TALLY("ranges", "forward", 1);
	CU(cuMemcpyHtoDAsync, d->input, d->host, INPUT_BYTES, d->streams[0]);
	CU(cuMemsetD32Async, d->input, 0, INPUT_BYTES / 4, d->streams[0]);
	TALLY("gpu", "HtoD", 1);
	TALLY("gpu", "sets", 1);
	d->due_ns = now_ns();
	if (options.graph) {
		CU(cuGraphLaunch, d->graph, d->streams[0]);
		TALLY("gpu", "graph_launches", 1);
		pay_for_launch(d);
	} else {
		launch_kernels(d, true);
	}
	count_kernels();
	nvtxRangePop();
}

static void mark_token(struct decoder *d)
{
	nvtxEventAttributes_t a = named(
		attributes(CATEGORY_TOKEN, 0xffcc6677, d->steps), "token");

	nvtxDomainMarkEx(scheduler, &a);
	TALLY("marks", "token", 1);
}

/* Without a wait for the token the CPU stays at most two steps ahead. */
static void sample(struct decoder *d)
{
	CUstream stream = d->streams[0];
	CUevent done = d->sampled[d->steps % 2];

	nvtxRangePushA("sample");
	TALLY("ranges", "sample", 1);
	CU(cuMemcpyDtoHAsync, d->host + INPUT_BYTES / 4, d->token, 4, stream);
	TALLY("gpu", "DtoH", 1);
	if (options.sync_ms > 0) {
		CU(cuStreamSynchronize, stream);
	} else {
		if (d->steps >= 2)
			CU(cuEventSynchronize, done);
		CU(cuEventRecord, done, stream);
	}
	mark_token(d);
	nvtxRangePop();
}

static void step(struct decoder *d)
{
	nvtxEventAttributes_t a = named(attributes(0, 0xffddcc77, d->steps),
					"step");

	nvtxRangePushEx(&a);
	TALLY("ranges", "step", 1);
	schedule(d);
	forward(d);
	sample(d);
	nvtxRangePop();
	d->steps++;
}

/* The legacy stream cannot be captured and waits for all others. */
static void make_streams(struct decoder *d)
{
	bool is_alone = options.streams == 1 && options.threads == 1 &&
			!options.graph;
	char name[32];
	long i;

	for (i = is_alone ? 1 : 0; i < options.streams; i++) {
		CU(cuStreamCreateWithPriority, &d->streams[i],
		   CU_STREAM_NON_BLOCKING, i ? 0 : -1);
		snprintf(name, sizeof(name), "decode %d.%ld", d->number, i);
		nvtxNameCuStreamA(d->streams[i], name);
		CU(cuEventCreate, &d->join[i], CU_EVENT_DISABLE_TIMING);
	}
	CU(cuEventCreate, &d->fork, CU_EVENT_DISABLE_TIMING);
	CU(cuEventCreate, &d->sampled[0], CU_EVENT_DISABLE_TIMING);
	CU(cuEventCreate, &d->sampled[1], CU_EVENT_DISABLE_TIMING);
}

static void allocate(struct decoder *d)
{
	CU(cuMemAlloc, &d->prompt, PROMPT_BYTES);
	CU(cuMemAlloc, &d->cache, CACHE_BYTES);
	CU(cuMemAlloc, &d->input, INPUT_BYTES);
	CU(cuMemAlloc, &d->token, 4);
	CU(cuMemAllocHost, (void **)&d->host, INPUT_BYTES + 4);
	memset(d->host, 0, INPUT_BYTES + 4);
	d->text = calloc(1, PROMPT_BYTES);
	if (!d->text)
		exit(EXIT_FAILURE);
}

static void release(struct decoder *d)
{
	long i;

	CU(cuStreamSynchronize, d->streams[0]);
	if (d->graph)
		CU(cuGraphExecDestroy, d->graph);
	for (i = 0; i < options.streams; i++)
		if (d->streams[i])
			CU(cuStreamDestroy, d->streams[i]);
	CU(cuMemFree, d->prompt);
	CU(cuMemFree, d->cache);
	CU(cuMemFree, d->input);
	CU(cuMemFree, d->token);
	CU(cuMemFreeHost, d->host);
	free(d->text);
}

static bool goes_on(const struct decoder *d, uint64_t end_ns)
{
	if (options.seconds > 0)
		return d->steps == 0 || now_ns() < end_ns;
	return d->steps < options.steps;
}

static void *decode(void *arg)
{
	struct decoder *d = arg;
	nvtxEventAttributes_t a = named(attributes(CATEGORY_BATCH, 0xff882255,
						   d->number), "request");
	uint64_t end_ns = now_ns() + options.seconds * 1e9;

	gpu_use(d->gpu);
	make_streams(d);
	allocate(d);
	d->request = nvtxDomainRangeStartEx(scheduler, &a);
	TALLY("started", "request", 1);
	prefill(d);
	if (options.graph)
		capture(d);
	while (goes_on(d, end_ns))
		step(d);
	release(d);
	return NULL;
}

static void *decode_thread(void *arg)
{
	struct decoder *d = arg;
	char name[16];

	snprintf(name, sizeof(name), "decoder %d", d->number);
	pthread_setname_np(pthread_self(), name);
	return decode(d);
}

/* Returns the steps of all threads. */
static long run(struct gpu *gpu)
{
	struct decoder *decoders = calloc(options.threads, sizeof(*decoders));
	pthread_t threads[MAX_THREADS];
	long i, steps = 0;

	if (!decoders)
		exit(EXIT_FAILURE);
	for (i = 0; i < options.threads; i++) {
		decoders[i].gpu = gpu;
		decoders[i].number = i;
	}
	if (options.threads == 1)
		decode(&decoders[0]);
	for (i = 0; i < options.threads && options.threads > 1; i++)
		if (pthread_create(&threads[i], NULL, decode_thread,
				   &decoders[i]))
			exit(EXIT_FAILURE);
	for (i = 0; i < options.threads && options.threads > 1; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < options.threads; i++) {
		nvtxDomainRangeEnd(scheduler, decoders[i].request);
		steps += decoders[i].steps;
	}
	free(decoders);
	return steps;
}

static const struct option long_options[] = {
	{ "steps", required_argument, NULL, 'n' },
	{ "seconds", required_argument, NULL, 's' },
	{ "kernels", required_argument, NULL, 'k' },
	{ "kernel-us", required_argument, NULL, 'x' },
	{ "launch-us", required_argument, NULL, 'y' },
	{ "sync-ms", required_argument, NULL, 'm' },
	{ "streams", required_argument, NULL, 'S' },
	{ "threads", required_argument, NULL, 'T' },
	{ "graph", no_argument, NULL, 'g' },
	{ "api-key", required_argument, NULL, 'K' },
	{ "verbose", no_argument, NULL, 'v' },
	{ NULL, 0, NULL, 0 },
};

static void usage(const char *program)
{
	fprintf(stderr, "usage: %s [--steps N | --seconds S] [--kernels K] "
		"[--kernel-us X] [--launch-us Y]\n\t[--sync-ms M] [--graph] "
		"[--streams N] [--threads N] [--verbose]\n", program);
	exit(2);
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case 'n': options.steps = atol(optarg); break;
		case 's': options.seconds = atof(optarg); break;
		case 'k': options.kernels = atol(optarg); break;
		case 'x': options.kernel_us = atof(optarg); break;
		case 'y': options.launch_us = atof(optarg); break;
		case 'm': options.sync_ms = atof(optarg); break;
		case 'S': options.streams = atol(optarg); break;
		case 'T': options.threads = atol(optarg); break;
		case 'g': options.graph = true; break;
		case 'K': break;      /* a secret to be masked */
		case 'v': options.verbose = true; break;
		default: usage(argv[0]);
		}
	}
	if (optind < argc || options.kernels < 0 || options.steps < 0 ||
	    options.streams < 1 || options.streams > MAX_STREAMS ||
	    options.threads < 1 || options.threads > MAX_THREADS)
		usage(argv[0]);
}

int main(int argc, char **argv)
{
	struct gpu gpu;

	parse(argc, argv);
	make_domains();
	gpu_open(&gpu, 0);
	printf("steps %ld\n", run(&gpu));
	gpu_close(&gpu);
	if (options.verbose)
		tally_print();
	return EXIT_SUCCESS;
}
