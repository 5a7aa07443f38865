// SPDX-License-Identifier: MIT
/* The CUDA side of the experiments: driver API only, kernels as PTX. */
#include "test/sim/conf.h"

#include <string.h>
#include <unistd.h>

struct conf_gpu gpu;

/* `spin` burns the GPU's own nanoseconds, so a time means the same anywhere. */
const char conf_ptx[] =
	".version 7.0\n"
	".target sm_70\n"
	".address_size 64\n"
	".visible .entry spin(.param .u64 spin_ns)\n"
	"{\n"
	"	.reg .pred %p<2>;\n"
	"	.reg .b64 %rd<5>;\n"
	"	ld.param.u64 %rd1, [spin_ns];\n"
	"	mov.u64 %rd2, %globaltimer;\n"
	"again:\n"
	"	mov.u64 %rd3, %globaltimer;\n"
	"	sub.u64 %rd4, %rd3, %rd2;\n"
	"	setp.lt.u64 %p1, %rd4, %rd1;\n"
	"	@%p1 bra again;\n"
	"	ret;\n"
	"}\n"
	".visible .entry empty()\n"
	"{\n"
	"	ret;\n"
	"}\n";

void gpu_context(void)
{
	MUST(cuInit(0));
	MUST(cuDeviceGet(&gpu.device, 0));
	MUST(cuDevicePrimaryCtxRetain(&gpu.context, gpu.device));
	MUST(cuCtxSetCurrent(gpu.context));
}

void gpu_spin(CUstream s, uint64_t ns)
{
	void *args[] = { &ns };

	MUST(cuLaunchKernel(gpu.spin, 1, 1, 1, 32, 1, 1, 0, s, args, NULL));
}

void gpu_empty(CUstream s)
{
	MUST(cuLaunchKernel(gpu.empty, 2, 1, 1, 64, 1, 1, 0, s, NULL, NULL));
}

static void open_memory(void)
{
	MUST(cuMemAlloc(&gpu.memory[0], 1 << 20));
	MUST(cuMemAlloc(&gpu.memory[1], 1 << 20));
	MUST(cuMemAllocHost(&gpu.pinned, 1 << 20));
	memset(gpu.pinned, 1, 1 << 20);
}

void gpu_open(void)
{
	int least, greatest;

	gpu_context();
	MUST(cuModuleLoadData(&gpu.module, conf_ptx));
	MUST(cuModuleGetFunction(&gpu.spin, gpu.module, "spin"));
	MUST(cuModuleGetFunction(&gpu.empty, gpu.module, "empty"));
	MUST(cuStreamCreate(&gpu.plain, CU_STREAM_NON_BLOCKING));
	MUST(cuCtxGetStreamPriorityRange(&least, &greatest));
	MUST(cuStreamCreateWithPriority(&gpu.high, CU_STREAM_NON_BLOCKING,
					greatest));
	MUST(cuEventCreate(&gpu.event[0], CU_EVENT_DEFAULT));
	MUST(cuEventCreate(&gpu.event[1], CU_EVENT_DISABLE_TIMING));
	open_memory();
	gpu_spin(gpu.plain, 1000);
	gpu_empty(gpu.plain);
	gpu_spin(gpu.high, 1000);
	gpu_empty(NULL);
	MUST(cuCtxSynchronize());
}

void gpu_build_graph(void)
{
	CUstream s = gpu.plain;

	MUST(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	gpu_spin(s, 2000);
	MUST(cuMemcpyDtoDAsync(gpu.memory[1], gpu.memory[0], 4096, s));
	MUST(cuMemsetD8Async(gpu.memory[0], 3, 4096, s));
	gpu_empty(s);
	MUST(cuStreamEndCapture(s, &gpu.graph));
	MUST(cuGraphInstantiateWithFlags(&gpu.exec, gpu.graph, 0));
}
