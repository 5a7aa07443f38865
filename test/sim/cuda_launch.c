// SPDX-License-Identifier: MIT
/* Launches: what a kernel will take, and putting work on a stream. */
#include "test/sim/cuda_sim.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static uint64_t setting(const char *name, uint64_t fallback, uint64_t *cache)
{
	uint64_t value = __atomic_load_n(cache, __ATOMIC_RELAXED);

	if (!value) {
		value = sim_env_number(name, fallback) + 1;
		__atomic_store_n(cache, value, __ATOMIC_RELAXED);
	}
	return value - 1;
}

static uint64_t launch_ns(void)
{
	static uint64_t cache;

	return setting("SIM_LAUNCH_NS", 1500, &cache);
}

static uint64_t kernel_ns(CUfunction f, void **parameters, void **extra)
{
	static uint64_t cache;
	uint64_t ns = setting("SIM_KERNEL_NS", 5000, &cache);

	if (f->timed && parameters)
		memcpy(&ns, parameters[0], sizeof(ns));
	for (int i = 0; f->timed && !parameters && extra && extra[i]; i += 2)
		if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			memcpy(&ns, extra[i + 1], sizeof(ns));
	return ns;
}

static bool sizes_fit(const CUlaunchConfig *c, CUfunction f)
{
	uint64_t threads = (uint64_t)c->blockDimX * c->blockDimY * c->blockDimZ;
	unsigned int smem = f->max_dynamic_smem > 49152 ?
		(unsigned int)f->max_dynamic_smem : 49152;

	return threads && threads <= 1024 && c->blockDimZ <= 64 &&
	       c->gridDimX && c->gridDimY && c->gridDimZ &&
	       c->gridDimY <= 65535 && c->gridDimZ <= 65535 &&
	       c->sharedMemBytes <= smem;
}

static void read_attributes(const CUlaunchConfig *c, struct sim_op *op)
{
	for (unsigned int i = 0; i < c->numAttrs; i++) {
		const CUlaunchAttribute *a = &c->attrs[i];

		if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
			op->cluster[0] = a->value.clusterDim.x;
			op->cluster[1] = a->value.clusterDim.y;
			op->cluster[2] = a->value.clusterDim.z;
		} else if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
			op->launch_type = a->value.cooperative ? 1 : 0;
		}
	}
}

CUresult sim_kernel_op(const CUlaunchConfig *c, CUfunction f, void **parameters,
		       void **extra, struct sim_op *op, uint64_t *duration)
{
	if (!sim_context())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!sizes_fit(c, f) ||
	    (f->parameter_count && !parameters && !extra))
		return CUDA_ERROR_INVALID_VALUE;
	memset(op, 0, sizeof(*op));
	op->kind = SIM_OP_KERNEL;
	op->name = f->shown;
	memcpy(op->grid, (unsigned int[]){ c->gridDimX, c->gridDimY,
					   c->gridDimZ }, sizeof(op->grid));
	memcpy(op->block, (unsigned int[]){ c->blockDimX, c->blockDimY,
					    c->blockDimZ }, sizeof(op->block));
	op->registers = 32;
	op->static_smem = f->static_smem;
	op->dynamic_smem = c->sharedMemBytes;
	op->channel = 1;
	read_attributes(c, op);
	*duration = kernel_ns(f, parameters, extra);
	return CUDA_SUCCESS;
}

void sim_submit_now(CUstream s, struct sim_op *op, uint64_t duration)
{
	struct sim_call *call = sim_current_call();

	op->correlation = call ? call->correlation : 0;
	op->context = s->context->id;
	op->device = s->context->device;
	op->stream = s->id;
	sim_lock();
	sim_schedule(s, op, duration);
	sim_unlock();
	if (sim_hooks())
		sim_hooks()->op(op);
	sim_throttle(s);
}

CUresult sim_submit(CUstream s, struct sim_op *op, uint64_t duration)
{
	static const CUgraphNodeType types[] = {
		[SIM_OP_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
		[SIM_OP_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
		[SIM_OP_SET] = CU_GRAPH_NODE_TYPE_MEMSET,
	};

	if (!s)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (s->capture)
		return sim_capture_add(s, types[op->kind], op, duration) ?
			CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	sim_submit_now(s, op, duration);
	return CUDA_SUCCESS;
}

static CUresult launch(const CUlaunchConfig *c, CUfunction f,
		       void **parameters, void **extra)
{
	CUstream s = sim_stream(c->hStream);
	struct sim_op op;
	uint64_t duration;
	CUresult r = sim_kernel_op(c, f, parameters, extra, &op, &duration);

	if (r)
		return r;
	sim_load_function(f);
	sim_burn(launch_ns());
	return sim_submit(s, &op, duration);
}

SIM_API(cuLaunchKernel, (CUfunction f, unsigned int gx, unsigned int gy,
	unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
	unsigned int smem, CUstream s, void **parameters, void **extra),
	launch(&(CUlaunchConfig){ gx, gy, gz, bx, by, bz, smem, s, NULL, 0 },
	       f, parameters, extra))
SIM_API(cuLaunchKernelEx, (const CUlaunchConfig *c, CUfunction f,
	void **parameters, void **extra), launch(c, f, parameters, extra))

static CUresult cooperative(CUlaunchConfig *c, CUfunction f, void **parameters)
{
	CUlaunchAttribute a = { .id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
				.value.cooperative = 1 };

	c->attrs = &a;
	c->numAttrs = 1;
	return launch(c, f, parameters, NULL);
}

SIM_API(cuLaunchCooperativeKernel, (CUfunction f, unsigned int gx,
	unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
	unsigned int bz, unsigned int smem, CUstream s, void **parameters),
	cooperative(&(CUlaunchConfig){ gx, gy, gz, bx, by, bz, smem, s, NULL,
				       0 }, f, parameters))

/* Host functions: one thread runs them when their time has come. */
struct host_call {
	struct host_call *next;
	CUstream stream;
	CUhostFn function;
	void *data;
	uint64_t when;
};

static pthread_mutex_t host_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t host_some = PTHREAD_COND_INITIALIZER;
static struct host_call *host_first;

static void *host_thread(void *unused)
{
	for (;;) {
		struct host_call *c;

		pthread_mutex_lock(&host_lock);
		while (!host_first)
			pthread_cond_wait(&host_some, &host_lock);
		c = host_first;
		host_first = c->next;
		pthread_mutex_unlock(&host_lock);
		sim_wait_until(c->when);
		c->function(c->data);
		__atomic_fetch_sub(&c->stream->hosts_left, 1, __ATOMIC_RELEASE);
		free(c);
	}
	return unused;
}

static void start_host_thread(void)
{
	pthread_t t;

	if (!pthread_create(&t, NULL, host_thread, NULL))
		pthread_detach(t);
}

void sim_host_function_later(CUstream s, CUhostFn f, void *data, uint64_t when)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct host_call *c = malloc(sizeof(*c)), **at = &host_first;

	pthread_once(&once, start_host_thread);
	*c = (struct host_call){ NULL, s, f, data, when };
	__atomic_fetch_add(&s->hosts_left, 1, __ATOMIC_RELEASE);
	pthread_mutex_lock(&host_lock);
	while (*at && (*at)->when <= when)
		at = &(*at)->next;
	c->next = *at;
	*at = c;
	pthread_cond_signal(&host_some);
	pthread_mutex_unlock(&host_lock);
}

CUresult sim_submit_host(CUstream s, CUhostFn f, void *data)
{
	struct sim_op op = { .kind = SIM_OP_HOST };
	CUgraphNode node;

	if (!s || !f)
		return CUDA_ERROR_INVALID_VALUE;
	if (s->capture) {
		node = sim_capture_add(s, CU_GRAPH_NODE_TYPE_HOST, &op, 10000);
		if (!node)
			return CUDA_ERROR_OUT_OF_MEMORY;
		node->host = f;
		node->host_argument = data;
		return CUDA_SUCCESS;
	}
	sim_submit_now(s, &op, 10000);
	sim_host_function_later(s, f, data, op.start);
	return CUDA_SUCCESS;
}

SIM_API(cuLaunchHostFunc, (CUstream s, CUhostFn f, void *data),
	sim_submit_host(sim_stream(s), f, data))
