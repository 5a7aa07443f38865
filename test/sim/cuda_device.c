// SPDX-License-Identifier: MIT
/* The devices: an H200's figures under an honest name. */
#include "test/sim/cuda_sim.h"

#include <stdio.h>
#include <string.h>

#define TOTAL_MEMORY (141ull << 30)

unsigned int sim_device_count(void)
{
	uint64_t n = sim_env_number("SIM_DEVICES", 1);

	return n > SIM_MAX_DEVICES ? SIM_MAX_DEVICES : (unsigned int)n;
}

struct attribute {
	CUdevice_attribute id;
	int value;
};

#define A(name, value) { CU_DEVICE_ATTRIBUTE_##name, value }

/* NVIDIA H200 SXM: GH100 data sheet and cudaGetDeviceProperties. */
static const struct attribute attributes[] = {
	A(MAX_THREADS_PER_BLOCK, 1024), A(MAX_BLOCK_DIM_X, 1024),
	A(MAX_BLOCK_DIM_Y, 1024), A(MAX_BLOCK_DIM_Z, 64),
	A(MAX_GRID_DIM_X, 2147483647), A(MAX_GRID_DIM_Y, 65535),
	A(MAX_GRID_DIM_Z, 65535), A(MAX_SHARED_MEMORY_PER_BLOCK, 49152),
	A(TOTAL_CONSTANT_MEMORY, 65536), A(WARP_SIZE, 32),
	A(MAX_PITCH, 2147483647), A(MAX_REGISTERS_PER_BLOCK, 65536),
	A(CLOCK_RATE, 1980000), A(TEXTURE_ALIGNMENT, 512),
	A(MULTIPROCESSOR_COUNT, 132), A(KERNEL_EXEC_TIMEOUT, 0),
	A(INTEGRATED, 0), A(CAN_MAP_HOST_MEMORY, 1), A(COMPUTE_MODE, 0),
	A(CONCURRENT_KERNELS, 1), A(ECC_ENABLED, 1), A(TCC_DRIVER, 0),
	A(MEMORY_CLOCK_RATE, 3201000), A(GLOBAL_MEMORY_BUS_WIDTH, 6144),
	A(L2_CACHE_SIZE, 62914560), A(MAX_THREADS_PER_MULTIPROCESSOR, 2048),
	A(ASYNC_ENGINE_COUNT, 3), A(UNIFIED_ADDRESSING, 1),
	A(STREAM_PRIORITIES_SUPPORTED, 1),
	A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472),
	A(MAX_REGISTERS_PER_MULTIPROCESSOR, 65536), A(MANAGED_MEMORY, 1),
	A(MULTI_GPU_BOARD, 0), A(PAGEABLE_MEMORY_ACCESS, 0),
	A(CONCURRENT_MANAGED_ACCESS, 1), A(COMPUTE_PREEMPTION_SUPPORTED, 1),
	A(COOPERATIVE_LAUNCH, 1), A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448),
	A(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1),
	A(MAX_BLOCKS_PER_MULTIPROCESSOR, 32), A(MEMORY_POOLS_SUPPORTED, 1),
	A(RESERVED_SHARED_MEMORY_PER_BLOCK, 1024), A(CLUSTER_LAUNCH, 1),
	A(PCI_BUS_ID, 1), A(PCI_DEVICE_ID, 0), A(PCI_DOMAIN_ID, 0),
	A(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1),
	A(HOST_REGISTER_SUPPORTED, 1), A(MPS_ENABLED, 0),
};

static bool is_device(CUdevice d)
{
	return d >= 0 && (unsigned int)d < sim_device_count();
}

int sim_device_attribute(unsigned int device, CUdevice_attribute id)
{
	uint64_t capability = sim_env_number("SIM_CAPABILITY", 90);

	if (id == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
		return (int)(capability / 10);
	if (id == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
		return (int)(capability % 10);
	if (id == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
		return (int)device + 1;
	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
		if (attributes[i].id == id)
			return attributes[i].value;
	return 0;
}

CUuuid sim_device_uuid(unsigned int device)
{
	CUuuid id;

	memcpy(id.bytes, "SIMULATED-GPU-0", 16);
	id.bytes[15] = (char)device;
	return id;
}

uint64_t sim_device_memory(void)
{
	return TOTAL_MEMORY;
}

static CUresult get_attribute(int *out, CUdevice_attribute id, CUdevice d)
{
	if (!out || id <= 0 || id >= CU_DEVICE_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_device(d))
		return CUDA_ERROR_INVALID_DEVICE;
	*out = sim_device_attribute((unsigned int)d, id);
	return CUDA_SUCCESS;
}

static CUresult get_count(int *out)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (int)sim_device_count();
	return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *out, int ordinal)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_device(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*out = ordinal;
	return CUDA_SUCCESS;
}

static CUresult get_name(char *out, int size, CUdevice d)
{
	if (!is_device(d))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!out || size < 1)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(out, (size_t)size, "Simulated GPU");
	return CUDA_SUCCESS;
}

static CUresult get_uuid(CUuuid *out, CUdevice d)
{
	if (!is_device(d))
		return CUDA_ERROR_INVALID_DEVICE;
	*out = sim_device_uuid((unsigned int)d);
	return CUDA_SUCCESS;
}

static CUresult get_memory(size_t *out, CUdevice d)
{
	if (!is_device(d))
		return CUDA_ERROR_INVALID_DEVICE;
	*out = TOTAL_MEMORY;
	return CUDA_SUCCESS;
}

static CUresult get_capability(int *major, int *minor, CUdevice d)
{
	if (!is_device(d))
		return CUDA_ERROR_INVALID_DEVICE;
	*major = 9;
	*minor = 0;
	return CUDA_SUCCESS;
}

static CUresult get_bus_id(char *out, int size, CUdevice d)
{
	if (!is_device(d))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(out, (size_t)size, "00000000:%02X:00.0", d + 1);
	return CUDA_SUCCESS;
}

static CUresult get_peer(int *out, CUdevice a, CUdevice b)
{
	if (!is_device(a) || !is_device(b))
		return CUDA_ERROR_INVALID_DEVICE;
	*out = a != b;
	return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetCount, (int *n), get_count(n))
SIM_API(cuDeviceGet, (CUdevice *d, int i), get_device(d, i))
SIM_API(cuDeviceGetName, (char *s, int n, CUdevice d), get_name(s, n, d))
SIM_API(cuDeviceGetUuid_v2, (CUuuid *u, CUdevice d), get_uuid(u, d))
SIM_API(cuDeviceTotalMem_v2, (size_t *n, CUdevice d), get_memory(n, d))
SIM_API(cuDeviceGetAttribute, (int *v, CUdevice_attribute a, CUdevice d),
	get_attribute(v, a, d))
SIM_API(cuDeviceComputeCapability, (int *a, int *b, CUdevice d),
	get_capability(a, b, d))
SIM_API(cuDeviceGetPCIBusId, (char *s, int n, CUdevice d), get_bus_id(s, n, d))
SIM_API(cuDeviceCanAccessPeer, (int *v, CUdevice a, CUdevice b),
	get_peer(v, a, b))
