/* SPDX-License-Identifier: MIT */
#include "writer/occupancy.h"

#include <string.h>

/*
 * Allocation units by compute capability, from cuda_occupancy.h of CUDA 13.0
 * (cudaOccSMemAllocationGranularity, cudaOccRegAllocationGranularity,
 * cudaOccSubPartitionsPerMultiprocessor) and the CUDA programming guide,
 * "Technical Specifications per Compute Capability".  The limits themselves
 * (warps, blocks, registers, shared memory) come from CUPTI's device.
 */
struct rules {
	uint32_t cc_major, cc_minor;    /* from here on */
	uint32_t smem_unit;             /* bytes, of a block */
	uint32_t smem_reserved;         /* bytes the driver adds to a block */
	uint32_t partitions;            /* of the register file */
};

static const struct rules table[] = {
	{  8, 0, 128, 1024, 4 },
	{  7, 0, 256,    0, 4 },
	{  6, 1, 256,    0, 4 },
	{  6, 0, 256,    0, 2 },
	{  3, 0, 256,    0, 4 },
};

/* Registers are given to a warp in units of that. */
enum { REGS_UNIT = 256 };

static const struct rules *rules_of(const struct device *device)
{
	size_t i;

	for (i = 0; i < sizeof(table) / sizeof(*table) - 1; i++)
		if (device->cc_major > table[i].cc_major ||
		    (device->cc_major == table[i].cc_major &&
		     device->cc_minor >= table[i].cc_minor))
			break;
	return &table[i];
}

static uint32_t round_up(uint32_t value, uint32_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static uint32_t by_registers(const struct device *device,
			     const struct rules *rules,
			     uint32_t registers, uint32_t warps)
{
	uint32_t warp = round_up(registers * device->warp_size, REGS_UNIT);
	uint32_t in_partition;

	if (!warp)
		return UINT32_MAX;
	/* The hardware checks a block as if its warps filled all partitions
	 * alike; for 6.0 the calculator asks for what 6.1 would, too. */
	if (device->regs_per_block < warp * round_up(warps, 4))
		return 0;
	in_partition = device->regs_per_sm / rules->partitions / warp;
	return in_partition * rules->partitions / warps;
}

static uint32_t by_shared_memory(const struct device *device,
				 const struct rules *rules,
				 const struct kernel *kernel)
{
	uint32_t block = round_up(kernel->static_smem + kernel->dynamic_smem +
				  rules->smem_reserved, rules->smem_unit);

	return block ? device->smem_per_sm / block : UINT32_MAX;
}

void occupancy_of(const struct device *device, const struct kernel *kernel,
		  struct occupancy *out)
{
	const struct rules *rules = rules_of(device);
	uint32_t threads = (uint32_t)kernel->block[0] *
		(uint32_t)kernel->block[1] * (uint32_t)kernel->block[2];
	struct {
		const char *name;
		uint32_t blocks;
	} limits[4];
	size_t i;

	memset(out, 0, sizeof(*out));
	if (!device->warp_size || !threads || !device->max_warps_per_sm)
		return;
	out->warps_per_block = (threads - 1) / device->warp_size + 1;
	out->max_warps = device->max_warps_per_sm;
	limits[0].name = "WARPS";
	limits[0].blocks = out->max_warps / out->warps_per_block;
	limits[1].name = "BLOCKS";
	limits[1].blocks = device->max_blocks_per_sm;
	limits[2].name = "REGS";
	limits[2].blocks = by_registers(device, rules, kernel->registers,
					out->warps_per_block);
	limits[3].name = "SMEM";
	limits[3].blocks = by_shared_memory(device, rules, kernel);
	out->blocks = UINT32_MAX;
	for (i = 0; i < 4; i++) {
		if (limits[i].blocks < out->blocks) {
			out->blocks = limits[i].blocks;
			out->limit = limits[i].name;
		}
	}
}
