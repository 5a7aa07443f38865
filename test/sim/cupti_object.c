// SPDX-License-Identifier: MIT
/* Devices, contexts and streams: their records, and the dump of old ones. */
#include "test/sim/cupti_sim.h"

#define DRIVER_STREAMS 16	/* at most, in a new context */

#define GET(name)                                                              \
	(uint32_t)sim_device_attribute(d, CU_DEVICE_ATTRIBUTE_##name)

static void fill_limits(CUpti_ActivityDevice5 *r, unsigned int d)
{
	r->constantMemorySize = GET(TOTAL_CONSTANT_MEMORY);
	r->l2CacheSize = GET(L2_CACHE_SIZE);
	r->numThreadsPerWarp = GET(WARP_SIZE);
	r->coreClockRate = GET(CLOCK_RATE);
	r->numMemcpyEngines = GET(ASYNC_ENGINE_COUNT);
	r->numMultiprocessors = GET(MULTIPROCESSOR_COUNT);
	r->maxIPC = 4;
	r->maxWarpsPerMultiprocessor = GET(MAX_THREADS_PER_MULTIPROCESSOR) / 32;
	r->maxBlocksPerMultiprocessor = GET(MAX_BLOCKS_PER_MULTIPROCESSOR);
	r->maxSharedMemoryPerMultiprocessor =
		GET(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
	r->maxRegistersPerMultiprocessor =
		GET(MAX_REGISTERS_PER_MULTIPROCESSOR);
	r->maxRegistersPerBlock = GET(MAX_REGISTERS_PER_BLOCK);
	r->maxSharedMemoryPerBlock = GET(MAX_SHARED_MEMORY_PER_BLOCK);
	r->maxThreadsPerBlock = GET(MAX_THREADS_PER_BLOCK);
	r->maxBlockDimX = GET(MAX_BLOCK_DIM_X);
	r->maxBlockDimY = GET(MAX_BLOCK_DIM_Y);
	r->maxBlockDimZ = GET(MAX_BLOCK_DIM_Z);
	r->maxGridDimX = GET(MAX_GRID_DIM_X);
	r->maxGridDimY = GET(MAX_GRID_DIM_Y);
	r->maxGridDimZ = GET(MAX_GRID_DIM_Z);
}

static void add_device(unsigned int d)
{
	CUpti_ActivityDevice5 r = {
		.kind = CUPTI_ACTIVITY_KIND_DEVICE, .id = d,
		.globalMemoryBandwidth = 4917504000ull,	/* kB/s */
		.computeCapabilityMajor = GET(COMPUTE_CAPABILITY_MAJOR),
		.computeCapabilityMinor = GET(COMPUTE_CAPABILITY_MINOR),
		.eccEnabled = 1,
		.name = "Simulated GPU", .isCudaVisible = 1,
		.globalMemorySize = sim_device_memory(),
		.uuid = sim_device_uuid(d),
	};

	fill_limits(&r, d);
	sim_record_add(&r, 0);
}

static void add_context(const struct sim_context_row *c)
{
	CUpti_ActivityContext3 r = {
		.kind = CUPTI_ACTIVITY_KIND_CONTEXT, .contextId = c->id,
		.deviceId = c->device,
		.computeApiKind = CUPTI_ACTIVITY_COMPUTE_API_CUDA,
		.nullStreamId = (uint16_t)c->null_stream,
		.numMultiprocessors = 132,
	};

	sim_record_add(&r, 0);
}

static void add_stream(const struct sim_stream_row *s, unsigned int corr)
{
	CUpti_ActivityStream r = {
		.kind = CUPTI_ACTIVITY_KIND_STREAM, .contextId = s->context_id,
		.streamId = s->stream_id, .priority = (uint32_t)s->priority,
		.flag = (CUpti_ActivityStreamFlag)s->flags,
		.correlationId = corr,
	};

	sim_record_add(&r, 0);
}

static void dump_devices(void)
{
	for (unsigned int d = 0; d < sim_device_count(); d++)
		add_device(d);
}

static void dump_contexts(void)
{
	struct sim_context_row c;

	for (unsigned int i = 0; sim_get_context(i, &c); i++)
		add_context(&c);
}

static void dump_streams(void)
{
	struct sim_stream_row s;

	for (unsigned int i = 0; sim_get_stream(i, &s); i++)
		add_stream(&s, 0);
}

void sim_dump(unsigned int kind)
{
	if (!sim_is_initialized())
		return;
	if (kind == CUPTI_ACTIVITY_KIND_DEVICE)
		dump_devices();
	else if (kind == CUPTI_ACTIVITY_KIND_CONTEXT)
		dump_contexts();
	else if (kind == CUPTI_ACTIVITY_KIND_STREAM)
		dump_streams();
}

/* The driver's own streams come first, by rising number. */
static void new_context(const struct sim_context_row *c)
{
	struct sim_stream_row s, own[DRIVER_STREAMS];
	unsigned int n = 0;

	for (unsigned int i = 0; sim_get_stream(i, &s); i++)
		if (s.context_id == c->id && n < DRIVER_STREAMS)
			own[n++] = s;
	while (n-- && sim_kind_is_on(CUPTI_ACTIVITY_KIND_STREAM))
		add_stream(&own[n], 0);
	if (sim_kind_is_on(CUPTI_ACTIVITY_KIND_CONTEXT))
		add_context(c);
}

/* Calls have numbers only while something needs them (H200). */
static bool calls_are_numbered(void)
{
	return sim_kind_is_on(CUPTI_ACTIVITY_KIND_DRIVER) ||
	       sim_kind_is_on(CUPTI_ACTIVITY_KIND_RUNTIME) ||
	       sim_kind_is_on(CUPTI_ACTIVITY_KIND_KERNEL) ||
	       sim_kind_is_on(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
}

static void new_stream(const struct sim_resource *r)
{
	struct sim_call *c = sim_current_call();

	if (sim_kind_is_on(CUPTI_ACTIVITY_KIND_STREAM))
		add_stream(r->stream, c && calls_are_numbered() ?
			   c->correlation : 0);
}

void sim_on_resource(const struct sim_resource *r)
{
	if (r->cbid == CUPTI_CBID_RESOURCE_CU_INIT_FINISHED &&
	    sim_kind_is_on(CUPTI_ACTIVITY_KIND_DEVICE))
		dump_devices();
	else if (r->cbid == CUPTI_CBID_RESOURCE_CONTEXT_CREATED)
		new_context(r->context);
	else if (r->stream &&
		 r->cbid != CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING)
		new_stream(r);
	sim_callback_resource(r);
}
