/* SPDX-License-Identifier: MIT */
/*
 * What the watchdog is told of activities: kernels outside graphs from the
 * moment on in which a graph was made.
 */
#include <stdlib.h>

#include "test/check.h"
#include "test/unit/scene.h"
#include "writer/trace.h"

static struct trace *trace;

static uint64_t plain_after_kernel(uint32_t graph_id)
{
	CUpti_ActivityKernel10 kernel = {
		.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
		.start = 1000, .end = 2000, .graphId = graph_id,
	};

	notice_activity(trace, &kernel, false);
	return trace->noticed.plain;
}

static uint64_t made_after_call(CUpti_ActivityKind kind, uint32_t cbid,
				uint32_t result)
{
	CUpti_ActivityAPI call = {
		.kind = kind, .cbid = cbid, .start = 1000, .end = 2000,
		.returnValue = result,
	};

	notice_activity(trace, &call, false);
	return trace->noticed.instances;
}

static uint64_t instantiate(uint32_t result)
{
	return made_after_call(CUPTI_ACTIVITY_KIND_RUNTIME,
			CUPTI_RUNTIME_TRACE_CBID_cudaGraphInstantiate_v12000,
			result);
}

int main(void)
{
	activity_set_version(130000);
	trace = calloc(1, sizeof(*trace));
	CHECK(trace);
	CHECK_EQ(plain_after_kernel(0), 0);             /* none was made yet */
	CHECK_EQ(made_after_call(CUPTI_ACTIVITY_KIND_RUNTIME,
			CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000, 0), 0);
	CHECK_EQ(instantiate(1), 0);                    /* failed */
	CHECK_EQ(plain_after_kernel(0), 0);
	CHECK_EQ(instantiate(0), 1);
	CHECK_EQ(plain_after_kernel(0), 1);
	CHECK_EQ(plain_after_kernel(7), 1);             /* in a graph */
	CHECK_EQ(made_after_call(CUPTI_ACTIVITY_KIND_DRIVER,
		CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags, 0), 2);
	CHECK_EQ(plain_after_kernel(0), 2);
	CHECK_EQ(trace->noticed.kernels, 5);
	free(trace);
	return check_result();
}
