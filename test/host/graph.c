/* SPDX-License-Identifier: MIT */
/*
 * graph: CUDA graphs captured once and launched many times.
 *
 *	graph [--nodes N] [--launches L] [--graphs G]
 *
 * Shows: G instantiated graphs of N kernel nodes and a set and a copy node
 * each, launched L times in turn: every node is GPU work of its own with its
 * graph and node id, and many share the correlation of one launch.
 */
#include <getopt.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/host/gpu.h"

#define MAX_GRAPHS 64
#define COPY_BYTES 4096

static long nr_nodes = 200, nr_launches = 20, nr_graphs = 2;

static CUgraphExec capture(const struct gpu *gpu, CUstream stream,
			   CUdeviceptr from, CUdeviceptr to)
{
	CUgraphExec exec;
	CUgraph graph;
	long i;

	CU(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	CU(cuMemsetD8Async, from, 1, COPY_BYTES, stream);
	for (i = 0; i < nr_nodes; i++)
		gpu_launch(gpu, i % NR_KERNELS, stream, 1500);
	CU(cuMemcpyDtoDAsync, to, from, COPY_BYTES, stream);
	CU(cuStreamEndCapture, stream, &graph);
	CU(cuGraphInstantiateWithFlags, &exec, graph, 0);
	CU(cuGraphDestroy, graph);
	TALLY("gpu", "graphs", 1);
	return exec;
}

static void launch(CUgraphExec exec, CUstream stream)
{
	nvtxRangePushA("replay");
	CU(cuGraphLaunch, exec, stream);
	nvtxRangePop();
	TALLY("ranges", "replay", 1);
	TALLY("gpu", "graph_launches", 1);
	TALLY("gpu", "kernels", nr_nodes);
	TALLY("gpu", "sets", 1);
	TALLY("gpu", "DtoD", 1);
}

static const struct option long_options[] = {
	{ "nodes", required_argument, NULL, 'n' },
	{ "launches", required_argument, NULL, 'l' },
	{ "graphs", required_argument, NULL, 'g' },
	{ NULL, 0, NULL, 0 },
};

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case 'n': nr_nodes = atol(optarg); break;
		case 'l': nr_launches = atol(optarg); break;
		case 'g': nr_graphs = atol(optarg); break;
		default: exit(2);
		}
	}
	if (nr_graphs < 1 || nr_graphs > MAX_GRAPHS)
		exit(2);
}

int main(int argc, char **argv)
{
	CUgraphExec graphs[MAX_GRAPHS];
	CUdeviceptr from, to;
	CUstream stream;
	struct gpu gpu;
	long i;

	parse(argc, argv);
	gpu_open(&gpu, 0);
	CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	CU(cuMemAlloc, &from, COPY_BYTES);
	CU(cuMemAlloc, &to, COPY_BYTES);
	for (i = 0; i < nr_graphs; i++)
		graphs[i] = capture(&gpu, stream, from, to);
	for (i = 0; i < nr_launches; i++)
		launch(graphs[i % nr_graphs], stream);
	CU(cuStreamSynchronize, stream);
	for (i = 0; i < nr_graphs; i++)
		CU(cuGraphExecDestroy, graphs[i]);
	CU(cuMemFree, from);
	CU(cuMemFree, to);
	CU(cuStreamDestroy, stream);
	gpu_close(&gpu);
	tally_print();
	return EXIT_SUCCESS;
}
