// SPDX-License-Identifier: MIT
/* Graphs: capture, explicit nodes, instantiation, launch. */
#include "test/sim/cuda_sim.h"

#include <stdlib.h>
#include <string.h>

#define NODE_GAP_NS 700		/* between a node and the one behind it */

static unsigned int next_graph = 1, execs;
static uint64_t next_node = 1;

static CUgraph new_graph(void)
{
	CUgraph g = calloc(1, sizeof(*g));

	if (g)
		g->id = __atomic_fetch_add(&next_graph, 1, __ATOMIC_RELAXED);
	return g;
}

/* A node goes on in the branch of the first node it needs, if that is free. */
static unsigned int pick_branch(CUgraph g, CUgraphNode n)
{
	for (unsigned int i = 0; i < n->need_count; i++)
		if (!n->needs[i]->followed) {
			n->needs[i]->followed = true;
			return n->needs[i]->branch;
		}
	if (g->node_count && g->branches + 1 < SIM_MAX_BRANCHES)
		return ++g->branches;
	return g->node_count ? g->branches : 0;
}

CUgraphNode sim_graph_add(CUgraph g, CUgraphNodeType type,
			  const struct sim_op *op, uint64_t duration,
			  const CUgraphNode *needs, unsigned int count)
{
	CUgraphNode n = calloc(1, sizeof(*n));
	CUgraphNode *more = realloc(g->nodes, (g->node_count + 1) *
				    sizeof(*more));

	if (!n || !more) {
		free(n);
		return NULL;
	}
	g->nodes = more;
	n->graph = g;
	n->type = type;
	n->id = __atomic_fetch_add(&next_node, 1, __ATOMIC_RELAXED);
	if (op)
		n->op = *op;
	n->duration = duration;
	n->needs = calloc(count + 1, sizeof(*n->needs));
	if (count)
		memcpy(n->needs, needs, count * sizeof(*needs));
	n->need_count = count;
	n->branch = pick_branch(g, n);
	g->nodes[g->node_count++] = n;
	return n;
}

static void set_last(CUgraphNode **last, unsigned int *count,
		     const CUgraphNode *nodes, unsigned int n)
{
	CUgraphNode *copy = calloc(n + 1, sizeof(*copy));

	if (n)
		memcpy(copy, nodes, n * sizeof(*copy));
	free(*last);
	*last = copy;
	*count = n;
}

CUgraphNode sim_capture_add(CUstream s, CUgraphNodeType type,
			    const struct sim_op *op, uint64_t duration)
{
	CUgraphNode n = sim_graph_add(s->capture, type, op, duration,
				      s->capture_last, s->capture_last_count);

	if (n)
		set_last(&s->capture_last, &s->capture_last_count, &n, 1);
	return n;
}

CUresult sim_capture_event(CUstream s, CUevent e)
{
	e->capture = s->capture;
	set_last(&e->capture_last, &e->capture_last_count, s->capture_last,
		 s->capture_last_count);
	return CUDA_SUCCESS;
}

CUresult sim_capture_join(CUstream s, CUevent e)
{
	unsigned int n = s->capture ? s->capture_last_count : 0;
	CUgraphNode *all;

	if (s->capture && s->capture != e->capture)
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	all = calloc(n + e->capture_last_count + 1, sizeof(*all));
	if (n)
		memcpy(all, s->capture_last, n * sizeof(*all));
	if (e->capture_last_count)
		memcpy(all + n, e->capture_last,
		       e->capture_last_count * sizeof(*all));
	s->capture = e->capture;
	set_last(&s->capture_last, &s->capture_last_count, all,
		 n + e->capture_last_count);
	free(all);
	return CUDA_SUCCESS;
}

static CUresult begin_capture(CUstream s)
{
	if (!s)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (s->capture || s == s->context->null_stream)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	s->capture = new_graph();
	s->capture_origin = true;
	set_last(&s->capture_last, &s->capture_last_count, NULL, 0);
	return CUDA_SUCCESS;
}

static CUresult end_capture(CUstream s, CUgraph *out)
{
	CUgraph g = s ? s->capture : NULL;

	if (!g || !s->capture_origin || !out)
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	for (CUstream o = s->context->streams; o; o = o->next)
		if (o->capture == g) {
			o->capture = NULL;
			o->capture_origin = false;
		}
	*out = g;
	return CUDA_SUCCESS;
}

static CUresult capture_status(CUstream s, CUstreamCaptureStatus *status)
{
	if (!s || !status)
		return CUDA_ERROR_INVALID_VALUE;
	*status = s->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE :
		CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

static CUgraph clone(CUgraph from)
{
	CUgraph g = new_graph();

	for (unsigned int i = 0; g && i < from->node_count; i++) {
		CUgraphNode o = from->nodes[i], n;
		CUgraphNode *needs = calloc(o->need_count + 1, sizeof(*needs));

		for (unsigned int k = 0; k < o->need_count; k++)
			for (unsigned int j = 0; j < i; j++)
				if (from->nodes[j] == o->needs[k])
					needs[k] = g->nodes[j];
		n = sim_graph_add(g, o->type, &o->op, o->duration, needs,
				  o->need_count);
		free(needs);
		n->id = o->id;
		n->host = o->host;
		n->host_argument = o->host_argument;
	}
	return g;
}

static unsigned int add_stream(CUcontext c)
{
	CUstream s;

	sim_lock();
	s = sim_stream_new(c, CU_STREAM_NON_BLOCKING, 0);
	sim_unlock();
	sim_stream_announce(0, s);
	return s->id;
}

static CUresult instantiate(CUgraphExec *out, CUgraph g)
{
	CUcontext c = sim_context();
	CUgraphExec x;

	if (!out || !g)
		return CUDA_ERROR_INVALID_VALUE;
	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	x = calloc(1, sizeof(*x));
	if (!x)
		return CUDA_ERROR_OUT_OF_MEMORY;
	x->graph = clone(g);
	x->id = x->graph->id;
	x->serial = __atomic_add_fetch(&execs, 1, __ATOMIC_RELAXED);
	/* the first branch has one, too, but runs on the launch's (H200) */
	for (unsigned int i = 0; i <= x->graph->branches; i++)
		x->branch_stream[i] = add_stream(c);
	*out = x;
	return CUDA_SUCCESS;
}

static uint64_t node_start(const struct CUgraphNode_st *n, uint64_t base)
{
	for (unsigned int i = 0; i < n->need_count; i++)
		if (n->needs[i]->end + NODE_GAP_NS > base)
			base = n->needs[i]->end + NODE_GAP_NS;
	return base;
}

/* Caller holds the lock. The end of the whole. */
static uint64_t schedule(CUgraphExec x, CUstream s, uint64_t base)
{
	uint64_t end = base;

	for (unsigned int i = 0; i < x->graph->node_count; i++) {
		CUgraphNode n = x->graph->nodes[i];

		n->op.start = node_start(n, base);
		if (n->type != CU_GRAPH_NODE_TYPE_EMPTY)
			n->op.start = sim_place(s->context->device, &n->op,
						n->op.start, n->duration);
		n->op.end = n->end = n->op.start + n->duration;
		n->op.context = s->context->id;
		n->op.device = s->context->device;
		n->op.stream = n->branch ? x->branch_stream[n->branch] : s->id;
		n->op.graph = x->id;
		n->op.graph_node = n->id;
		if (n->end > end)
			end = n->end;
	}
	s->tail = end;
	s->queue[s->queued++ % SIM_QUEUE] = end;
	return end;
}

static void fix_node(struct sim_op *op, unsigned int correlation)
{
	op->correlation = correlation;
	op->async = true;
	op->channel = 1;
	if (op->kind == SIM_OP_SET)	/* so on an H200 */
		op->value = op->dst_kind = 0;
}

static void tell_nodes(CUgraphExec x, CUstream s, struct sim_op *whole)
{
	const struct sim_hooks *h = sim_hooks();

	for (unsigned int i = 0; i < x->graph->node_count; i++) {
		CUgraphNode n = x->graph->nodes[i];
		struct sim_op op = n->op;

		fix_node(&op, whole->correlation);
		if (n->host)
			sim_host_function_later(s, n->host, n->host_argument,
						op.start);
		else if (h && n->type != CU_GRAPH_NODE_TYPE_EMPTY)
			h->op(&op);
	}
	if (h)
		h->op(whole);
}

static CUresult launch(CUgraphExec x, CUstream s)
{
	struct sim_call *call = sim_current_call();
	struct sim_op whole = { .kind = SIM_OP_GRAPH };

	if (!x || !s)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_hooks())
		sim_hooks()->graph_launch(x->serial);
	/* H200: 27 us for 50 nodes, 100 us for 200 */
	sim_burn(3000 + 450ull * x->graph->node_count);
	whole.correlation = call ? call->correlation : 0;
	whole.context = s->context->id;
	whole.device = s->context->device;
	whole.stream = s->id;
	whole.graph = x->id;
	sim_lock();
	whole.start = sim_ready(s);
	whole.end = schedule(x, s, whole.start);
	sim_unlock();
	tell_nodes(x, s, &whole);
	sim_throttle(s);
	return CUDA_SUCCESS;
}

static CUresult add_kernel(CUgraphNode *out, CUgraph g,
			   const CUgraphNode *needs, size_t count,
			   const CUDA_KERNEL_NODE_PARAMS *p)
{
	CUlaunchConfig c = {
		p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX,
		p->blockDimY, p->blockDimZ, p->sharedMemBytes, NULL, NULL, 0,
	};
	CUfunction f = p->func ? p->func : (CUfunction)p->kern;
	struct sim_op op;
	uint64_t duration;
	CUresult r = sim_kernel_op(&c, f, p->kernelParams, p->extra, &op,
				   &duration);

	if (r)
		return r;
	sim_load_function(f);
	*out = sim_graph_add(g, CU_GRAPH_NODE_TYPE_KERNEL, &op, duration,
			     needs, (unsigned int)count);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult add_empty(CUgraphNode *out, CUgraph g,
			  const CUgraphNode *needs, size_t count)
{
	*out = sim_graph_add(g, CU_GRAPH_NODE_TYPE_EMPTY, NULL, 0, needs,
			     (unsigned int)count);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult get_nodes(CUgraph g, CUgraphNode *nodes, size_t *count)
{
	if (!g || !count)
		return CUDA_ERROR_INVALID_VALUE;
	if (nodes)
		memcpy(nodes, g->nodes, sizeof(*nodes) *
		       (*count < g->node_count ? *count : g->node_count));
	*count = g->node_count;
	return CUDA_SUCCESS;
}

static CUresult create(CUgraph *out)
{
	*out = new_graph();
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult destroy(CUgraph g)
{
	for (unsigned int i = 0; g && i < g->node_count; i++) {
		free(g->nodes[i]->needs);
		free(g->nodes[i]);
	}
	if (!g)
		return CUDA_ERROR_INVALID_VALUE;
	free(g->nodes);
	free(g);
	return CUDA_SUCCESS;
}

static CUresult destroy_exec(CUgraphExec x)
{
	CUresult r = x ? destroy(x->graph) : CUDA_ERROR_INVALID_VALUE;

	free(x);
	return r;
}

SIM_API(cuStreamBeginCapture_v2, (CUstream s, CUstreamCaptureMode m),
	((void)m, begin_capture(sim_stream(s))))
SIM_API(cuStreamEndCapture, (CUstream s, CUgraph *g),
	end_capture(sim_stream(s), g))
SIM_API(cuStreamIsCapturing, (CUstream s, CUstreamCaptureStatus *c),
	capture_status(sim_stream(s), c))
SIM_API(cuGraphCreate, (CUgraph *g, unsigned int f), ((void)f, create(g)))
SIM_API(cuGraphDestroy, (CUgraph g), destroy(g))
SIM_API(cuGraphAddKernelNode_v2, (CUgraphNode *n, CUgraph g,
	const CUgraphNode *d, size_t k, const CUDA_KERNEL_NODE_PARAMS *p),
	add_kernel(n, g, d, k, p))
SIM_API(cuGraphAddEmptyNode, (CUgraphNode *n, CUgraph g, const CUgraphNode *d,
	size_t k), add_empty(n, g, d, k))
SIM_API(cuGraphGetNodes, (CUgraph g, CUgraphNode *n, size_t *k),
	get_nodes(g, n, k))
SIM_API(cuGraphNodeGetType, (CUgraphNode n, CUgraphNodeType *t),
	(*t = n->type, CUDA_SUCCESS))
SIM_API(cuGraphInstantiateWithFlags, (CUgraphExec *x, CUgraph g,
	unsigned long long f), ((void)f, instantiate(x, g)))
SIM_API(cuGraphInstantiateWithParams, (CUgraphExec *x, CUgraph g,
	CUDA_GRAPH_INSTANTIATE_PARAMS *p), ((void)p, instantiate(x, g)))
SIM_API(cuGraphInstantiate_v2, (CUgraphExec *x, CUgraph g, CUgraphNode *n,
	char *log, size_t size),
	((void)n, (void)log, (void)size, instantiate(x, g)))
SIM_API(cuGraphUpload, (CUgraphExec x, CUstream s),
	((void)x, (void)s, CUDA_SUCCESS))
SIM_API(cuGraphLaunch, (CUgraphExec x, CUstream s),
	launch(x, sim_stream(s)))
SIM_API(cuGraphExecDestroy, (CUgraphExec x), destroy_exec(x))

unsigned int sim_graph_id(CUgraph g)
{
	return g ? g->id : 0;
}

unsigned int sim_exec_id(CUgraphExec x)
{
	return x ? x->id : 0;
}

uint64_t sim_node_id(CUgraphNode n)
{
	return n ? n->id : 0;
}

unsigned int sim_exec_count(void)
{
	return __atomic_load_n(&execs, __ATOMIC_RELAXED);
}
