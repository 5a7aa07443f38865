// SPDX-License-Identifier: MIT
/* Version, texts and ids. */
#include "test/sim/cupti_sim.h"

#include <stdio.h>

SIM_EXPORT CUptiResult CUPTIAPI cuptiGetVersion(uint32_t *version)
{
	if (!version)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*version = (uint32_t)sim_cupti_version();
	return CUPTI_SUCCESS;
}

#define R(name) { CUPTI_##name, "CUPTI_" #name }

static const struct {
	CUptiResult code;
	const char *name;
} results[] = {
	R(SUCCESS), R(ERROR_INVALID_PARAMETER), R(ERROR_INVALID_DEVICE),
	R(ERROR_INVALID_CONTEXT), R(ERROR_INVALID_OPERATION),
	R(ERROR_OUT_OF_MEMORY), R(ERROR_PARAMETER_SIZE_NOT_SUFFICIENT),
	R(ERROR_MAX_LIMIT_REACHED), R(ERROR_NOT_READY),
	R(ERROR_NOT_COMPATIBLE), R(ERROR_NOT_INITIALIZED),
	R(ERROR_INVALID_STREAM), R(ERROR_QUEUE_EMPTY), R(ERROR_INVALID_KIND),
	R(ERROR_DISABLED), R(ERROR_HARDWARE_BUSY), R(ERROR_NOT_SUPPORTED),
	R(ERROR_INSUFFICIENT_PRIVILEGES),
	R(ERROR_LEGACY_PROFILER_NOT_SUPPORTED),
	R(ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED),
	R(ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED), R(ERROR_UNKNOWN),
};

SIM_EXPORT CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult code,
						     const char **text)
{
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
		if (results[i].code == code) {
			*text = results[i].name;
			return CUPTI_SUCCESS;
		}
	return CUPTI_ERROR_INVALID_PARAMETER;
}

SIM_EXPORT CUptiResult CUPTIAPI cuptiGetErrorMessage(CUptiResult code,
						     const char **text)
{
	return cuptiGetResultString(code, text);
}

static CUptiResult give(uint32_t id, uint32_t *out)
{
	if (!out)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*out = id;
	return id ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

SIM_EXPORT CUptiResult CUPTIAPI cuptiGetContextId(CUcontext c, uint32_t *id)
{
	return give(sim_context_id(c), id);
}

SIM_EXPORT CUptiResult CUPTIAPI cuptiGetDeviceId(CUcontext c, uint32_t *id)
{
	if (!id || !sim_context_id(c))
		return CUPTI_ERROR_INVALID_PARAMETER;
	*id = sim_context_device(c);
	return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult CUPTIAPI cuptiGetStreamIdEx(CUcontext c, CUstream s,
						   uint8_t thread,
						   uint32_t *id)
{
	return give(sim_stream_id(c, s, thread), id);
}

SIM_EXPORT CUptiResult CUPTIAPI cuptiGetStreamId(CUcontext c, CUstream s,
						 uint32_t *id)
{
	return give(sim_stream_id(c, s, false), id);
}

SIM_EXPORT CUptiResult CUPTIAPI cuptiGetGraphId(CUgraph g, uint32_t *id)
{
	return give(sim_graph_id(g), id);
}

SIM_SINCE(22, cuptiGetGraphExecId, (CUgraphExec x, uint32_t *id))
{
	return give(sim_exec_id(x), id);
}

SIM_EXPORT CUptiResult CUPTIAPI cuptiGetGraphNodeId(CUgraphNode n,
						    uint64_t *id)
{
	if (!n || !id)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*id = sim_node_id(n);
	return CUPTI_SUCCESS;
}

/* 13.0.1 was asked: 7.5 to 12.1, and nothing else.  Before, from the release
 * notes: Blackwell came with 12.8 (10.0, 12.0) and 12.9 (10.3, 12.1). */
SIM_EXPORT CUptiResult CUPTIAPI cuptiComputeCapabilitySupported(int major,
								int minor,
								int *yes)
{
	uint64_t version = sim_cupti_version();
	int capability = major * 10 + minor;

	*yes = capability >= (version < 130000 ? 50 : 75) &&
	       capability <= (version < 26 ? 90 : 121) &&
	       (version > 26 || (capability != 103 && capability != 121));
	return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult CUPTIAPI cuptiDeviceSupported(CUdevice d, int *yes)
{
	(void)d;
	*yes = 1;
	return CUPTI_SUCCESS;
}
