/* SPDX-License-Identifier: MIT */
/*
 * Occupancy against NVIDIA's own calculator, the header cuda_occupancy.h of
 * the CUDA toolkit, for devices of each generation and thousands of launches;
 * and a row of its spreadsheet by hand.
 */
#include "writer/occupancy.h"

#include <string.h>

#if __has_include(<cuda_occupancy.h>)
#define HAS_ORACLE 1
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <cuda_occupancy.h>
#pragma GCC diagnostic pop
#endif

#include "test/check.h"

/* cudaGetDeviceProperties() of: V100, T4, A100, A10, L4, H100/H200, B200,
 * RTX 5090, P100, GTX 1080. */
static const struct device devices[] = {
	{ .cc_major = 7, .cc_minor = 0, .smem_per_sm = 98304,
	  .smem_per_block = 49152, .max_warps_per_sm = 64,
	  .max_blocks_per_sm = 32 },
	{ .cc_major = 7, .cc_minor = 5, .smem_per_sm = 65536,
	  .smem_per_block = 49152, .max_warps_per_sm = 32,
	  .max_blocks_per_sm = 16 },
	{ .cc_major = 8, .cc_minor = 0, .smem_per_sm = 167936,
	  .smem_per_block = 49152, .max_warps_per_sm = 64,
	  .max_blocks_per_sm = 32 },
	{ .cc_major = 8, .cc_minor = 6, .smem_per_sm = 102400,
	  .smem_per_block = 49152, .max_warps_per_sm = 48,
	  .max_blocks_per_sm = 16 },
	{ .cc_major = 8, .cc_minor = 9, .smem_per_sm = 102400,
	  .smem_per_block = 49152, .max_warps_per_sm = 48,
	  .max_blocks_per_sm = 24 },
	{ .cc_major = 9, .cc_minor = 0, .smem_per_sm = 233472,
	  .smem_per_block = 49152, .max_warps_per_sm = 64,
	  .max_blocks_per_sm = 32 },
	{ .cc_major = 10, .cc_minor = 0, .smem_per_sm = 233472,
	  .smem_per_block = 49152, .max_warps_per_sm = 64,
	  .max_blocks_per_sm = 32 },
	{ .cc_major = 12, .cc_minor = 0, .smem_per_sm = 102400,
	  .smem_per_block = 49152, .max_warps_per_sm = 48,
	  .max_blocks_per_sm = 24 },
	{ .cc_major = 6, .cc_minor = 0, .smem_per_sm = 65536,
	  .smem_per_block = 49152, .max_warps_per_sm = 64,
	  .max_blocks_per_sm = 32 },
	{ .cc_major = 6, .cc_minor = 1, .smem_per_sm = 98304,
	  .smem_per_block = 49152, .max_warps_per_sm = 64,
	  .max_blocks_per_sm = 32 },
};

static void complete(struct device *device)
{
	device->warp_size = 32;
	device->regs_per_sm = device->regs_per_block = 65536;
	device->threads_per_block = 1024;
}

static uint32_t ours(const struct device *device, uint32_t threads,
		     uint32_t registers, uint32_t smem)
{
	struct kernel kernel = {
		.block = { (int32_t)threads, 1, 1 },
		.registers = (uint16_t)registers, .dynamic_smem = smem,
	};
	struct occupancy occupancy;

	occupancy_of(device, &kernel, &occupancy);
	return occupancy.blocks;
}

#ifdef HAS_ORACLE
static int theirs(const struct device *device, int threads, int registers,
		  size_t smem)
{
	struct cudaOccDeviceProp properties = {
		.computeMajor = (int)device->cc_major,
		.computeMinor = (int)device->cc_minor,
		.maxThreadsPerBlock = 1024,
		.maxThreadsPerMultiprocessor =
			(int)device->max_warps_per_sm * 32,
		.regsPerBlock = 65536, .regsPerMultiprocessor = 65536,
		.warpSize = 32,
		.sharedMemPerBlock = device->smem_per_block,
		.sharedMemPerMultiprocessor = device->smem_per_sm,
		.numSms = 1,
		.sharedMemPerBlockOptin = device->smem_per_sm,
		.reservedSharedMemPerBlock = device->cc_major >= 8 ? 1024 : 0,
	};
	struct cudaOccFuncAttributes attributes = {
		.maxThreadsPerBlock = 1024, .numRegs = registers,
		.maxDynamicSharedSizeBytes = smem,
		.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN,
		.partitionedGCConfig = PARTITIONED_GC_OFF,
	};
	struct cudaOccDeviceState state = { .carveoutConfig = -1 };
	struct cudaOccResult result = { 0 };

	if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &properties,
			&attributes, &state, threads, smem))
		return -1;
	return result.activeBlocksPerMultiprocessor;
}

static void test_oracle(void)
{
	static const uint32_t smems[] = { 0, 1, 1024, 5000, 16384, 33000,
					  47000, 60000, 90000 };
	size_t i, k, nr = 0;
	uint32_t threads, registers;

	for (i = 0; i < sizeof(devices) / sizeof(*devices); i++) {
		struct device device = devices[i];

		complete(&device);
		for (threads = 1; threads <= 1024; threads += 31)
			for (registers = 8; registers < 256; registers += 9)
				for (k = 0; k < 9; k++) {
					int want = theirs(&device,
						(int)threads, (int)registers,
						smems[k]);

					/* Such a launch is refused. */
					if (want < 0 || (!want &&
					    smems[k] + 1024 >
					    device.smem_per_sm / 2))
						continue;
					CHECK_EQ(ours(&device, threads,
						      registers, smems[k]),
						 want);
					nr++;
				}
	}
	CHECK(nr > 60000);
}
#endif

/* CUDA occupancy calculator, compute capability 9.0: 256 threads, 32
 * registers, no shared memory: 8 blocks, 64 warps, 100 %; 64 registers: 4
 * blocks; 65 registers: 3 blocks (72 allocated); 1024 threads: 2 blocks. */
static void test_by_hand(void)
{
	struct device device = devices[5];
	struct kernel kernel = { .block = { 256, 1, 1 }, .registers = 32 };
	struct occupancy occupancy;

	complete(&device);
	CHECK_EQ(ours(&device, 256, 32, 0), 8);
	CHECK_EQ(ours(&device, 256, 64, 0), 4);
	CHECK_EQ(ours(&device, 256, 65, 0), 3);
	CHECK_EQ(ours(&device, 1024, 32, 0), 2);
	CHECK_EQ(ours(&device, 32, 16, 0), 32);
	CHECK_EQ(ours(&device, 128, 32, 100 << 10), 2);
	occupancy_of(&device, &kernel, &occupancy);
	CHECK(!strcmp(occupancy.limit, "WARPS"));
	CHECK_EQ(occupancy.warps_per_block, 8);
	kernel.block[0] = 0;
	occupancy_of(&device, &kernel, &occupancy);
	CHECK_EQ(occupancy.max_warps, 0);
}

int main(void)
{
	test_by_hand();
#ifdef HAS_ORACLE
	test_oracle();
#else
	fprintf(stderr, "no cuda_occupancy.h: only the rows by hand\n");
#endif
	return check_result();
}
