/* SPDX-License-Identifier: MIT */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/host/gpu.h"

/*
 * A kernel that does nothing takes about 1 us by CUPTI's stamps (the shortest
 * of PyTorch's on an H200: 0.86 us); what is asked for beyond that is spun.
 */
#define EMPTY_KERNEL_NS 1000

struct kernel {
	const char *symbol;
	unsigned int blocks, threads;
	unsigned int static_smem, dynamic_smem;
};

/*
 * Grids stay below 132 blocks, the SMs of an H200, so that all blocks run at
 * once and the kernel takes as long as one of them.  The two GEMMs of cutlass
 * differ in their template arguments alone: short names must keep them apart.
 */
static const struct kernel kernels[NR_KERNELS] = {
	[KERNEL_RMS_NORM] = {
		"_ZN4vllm15rms_norm_kernelIN3c108BFloat16EEEvPT_PKS3_S6_fii",
		1, 1024, 128, 0 },
	[KERNEL_GEMM_QKV] = {
		"_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalINS1_"
		"9GemmShapeILi64ELi128ELi64EEENS_10bfloat16_tELb0EEEEEvNT_"
		"6ParamsE", 96, 256, 0, 32768 },
	[KERNEL_ROPE] = {
		"_ZN4vllm23rotary_embedding_kernelIN3c108BFloat16ELb1EEEvPKlPT_"
		"S6_PKS5_illiii", 1, 512, 0, 0 },
	[KERNEL_ATTENTION] = {
		"_ZN4vllm25paged_attention_v1_kernelIttLi128ELi16ELi128ELNS_"
		"18Fp8KVCacheDataTypeE0ELb0EEEvPT_PKS2_PKT0_S8_ifPKiSA_"
		"iPKfiiiSC_SC_i", 32, 128, 1024, 8192 },
	[KERNEL_GEMM_OUT] = {
		"_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalINS1_"
		"9GemmShapeILi128ELi256ELi64EEENS_10bfloat16_tELb1EEEEEvNT_"
		"6ParamsE", 64, 256, 0, 32768 },
	[KERNEL_ADD_RMS_NORM] = {
		"_ZN4vllm25fused_add_rms_norm_kernelIN3c108BFloat16ELi8EEEvPT_"
		"S4_PKS3_fii", 1, 1024, 128, 0 },
	[KERNEL_GEMM_UP] = {
		"nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", 128, 128, 0, 16384 },
	[KERNEL_SILU] = {
		"_ZN4vllm18act_and_mul_kernelIN3c108BFloat16EXadL_ZNS_"
		"11silu_kernelIS2_EET_RKS4_EELb1EEEvPS4_PS5_i", 1, 1024, 0, 0 },
	[KERNEL_GEMM_DOWN] = {
		"_ZN7cutlass7Kernel2INS_4gemm6kernel13GemmUniversalINS1_"
		"9GemmShapeILi64ELi64ELi32EEENS_10bfloat16_tELb0EEEEEvNT_"
		"6ParamsE", 64, 128, 0, 16384 },
	[KERNEL_ADD] = {
		"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_"
		"13BinaryFunctorIN3c108BFloat16ES4_S4_NS0_15CUDAFunctor_"
		"addIfEEEESt5arrayIPcLm3EEEEviT0_T1_", 4, 128, 0, 0 },
	[KERNEL_COPY] = {
		"_ZN2at6native12_GLOBAL__N_115unrolled_kernelIZNS0_"
		"23direct_copy_kernel_cudaEvEUlfE_St5arrayIPcLm2EEEEviT_T0_",
		8, 128, 0, 0 },
	[KERNEL_ARGMAX] = {
		"_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIflNS0_"
		"9ArgMaxOpsIfEELi4EEEEEvT1_", 1, 512, 16, 0 },
	[KERNEL_FLASH] = {
		"_ZN5FLASH24flash_fwd_splitkv_kernelI23Flash_fwd_kernel_"
		"traitsILi128ELi64ELi128ELi4EN7cutlass10bfloat16_"
		"tEELb1ELb0ELb0ELb1ELb1ELb0EEEvNS_16Flash_fwd_paramsE",
		32, 128, 0, 32768 },
	[KERNEL_CONVOLUTION] = {
		"sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_"
		"tilesize128x128x32_stage4_warpsize2x2x1", 64, 128, 0, 32768 },
	[KERNEL_ALL_REDUCE] = {
		"_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgs"
		"StorageILm4096EE", 16, 544, 0, 0 },
};

/*
 * The simulated GPU takes the first parameter, whose name ends in _ns, as the
 * time of the kernel.  On hardware every thread looks at the global timer
 * (ns, in steps of 32 ns to 1 us) until spin_ns have passed.
 */
static const char ptx_head[] =
	".version 7.0\n.target sm_70\n.address_size 64\n";
static const char ptx_kernel[] =
	".visible .entry %s(.param .u64 duration_ns, .param .u64 spin_ns)\n"
	"{\n"
	"\t.reg .pred %%p<2>;\n"
	"\t.reg .b32 %%r<3>;\n"
	"\t.reg .b64 %%t<5>;\n"
	"\t.shared .align 16 .b8 tile[%u];\n"
	"\tmov.u32 %%r1, %%tid.x;\n"
	"\tmov.u32 %%r2, tile;\n"
	"\tst.volatile.shared.u32 [%%r2], %%r1;\n"
	"\tld.param.u64 %%t1, [spin_ns];\n"
	"\tmov.u64 %%t2, %%globaltimer;\n"
	"again:\n"
	"\tmov.u64 %%t3, %%globaltimer;\n"
	"\tsub.u64 %%t4, %%t3, %%t2;\n"
	"\tsetp.lt.u64 %%p1, %%t4, %%t1;\n"
	"\t@%%p1 bra again;\n"
	"\tret;\n"
	"}\n";

CUresult gpu_called(struct tally *did, struct tally *failed, CUresult result)
{
	tally_add(did, 1);
	if (result != CUDA_SUCCESS)
		tally_add(failed, 1);
	return result;
}

void gpu_check(const char *call, CUresult result)
{
	const char *text = NULL;

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorString(result, &text);
	fprintf(stderr, "%s: %s (%d)\n", call, text ? text : "failed", result);
	exit(EXIT_FAILURE);
}

const char *gpu_kernel_symbol(enum gpu_kernel kernel)
{
	return kernels[kernel].symbol;
}

char *gpu_module_text(void)
{
	size_t room = sizeof(ptx_head) + NR_KERNELS * 1024, len;
	char *text = malloc(room);
	const struct kernel *k;

	if (!text)
		exit(EXIT_FAILURE);
	len = snprintf(text, room, "%s", ptx_head);
	for (k = kernels; k < kernels + NR_KERNELS; k++)
		len += snprintf(text + len, room - len, ptx_kernel, k->symbol,
				k->static_smem ? k->static_smem : 4);
	return text;
}

void gpu_open(struct gpu *gpu, int ordinal)
{
	char *text;
	int i;

	CU(cuInit, 0);
	CU(cuDeviceGet, &gpu->device, ordinal);
	CU(cuDevicePrimaryCtxRetain, &gpu->context, gpu->device);
	CU(cuCtxSetCurrent, gpu->context);
	text = gpu_module_text();
	CU(cuModuleLoadData, &gpu->module, text);
	free(text);
	for (i = 0; i < NR_KERNELS; i++)
		CU(cuModuleGetFunction, &gpu->kernels[i], gpu->module,
		   kernels[i].symbol);
}

void gpu_close(struct gpu *gpu)
{
	CU(cuCtxSynchronize);
	CU(cuModuleUnload, gpu->module);
	CU(cuDevicePrimaryCtxRelease, gpu->device);
}

void gpu_use(const struct gpu *gpu)
{
	CU(cuCtxSetCurrent, gpu->context);
}

static CUresult try_function(CUfunction function, unsigned int blocks,
			     unsigned int threads, unsigned int smem,
			     CUstream stream, uint64_t ns)
{
	uint64_t spin = ns > EMPTY_KERNEL_NS ? ns - EMPTY_KERNEL_NS : 0;
	void *params[] = { &ns, &spin };

	return TRY(cuLaunchKernel, function, blocks, 1, 1, threads, 1, 1, smem,
		   stream, params, NULL);
}

void gpu_launch_function(CUfunction function, unsigned int blocks,
			 unsigned int threads, unsigned int smem,
			 CUstream stream, uint64_t ns)
{
	gpu_check("cuLaunchKernel", try_function(function, blocks, threads,
						 smem, stream, ns));
}

CUresult gpu_try_launch(const struct gpu *gpu, enum gpu_kernel kernel,
			CUstream stream, uint64_t ns)
{
	const struct kernel *k = &kernels[kernel];

	return try_function(gpu->kernels[kernel], k->blocks, k->threads,
			    k->dynamic_smem, stream, ns);
}

void gpu_launch(const struct gpu *gpu, enum gpu_kernel kernel, CUstream stream,
		uint64_t ns)
{
	gpu_check("cuLaunchKernel", gpu_try_launch(gpu, kernel, stream, ns));
}

void *gpu_launch_for_ever(void *gpu)
{
	CUresult result;

	gpu_use(gpu);
	/* The driver refuses launches once the process is ending; what status
	 * it ends with is for the thread to say that ends it. */
	do {
		nvtxRangePushA("for ever");
		result = gpu_try_launch(gpu, KERNEL_COPY, NULL, 1000);
		nvtxRangePop();
		usleep(100);
	} while (result != CUDA_ERROR_DEINITIALIZED);
	return NULL;
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void spin_until_ns(uint64_t t_ns)
{
	while (now_ns() < t_ns)
		;
}
