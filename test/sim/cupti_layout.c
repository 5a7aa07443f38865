// SPDX-License-Identifier: MIT
/*
 * The sizes of records, version by version: SIM_CUPTI_VERSION chooses.
 *
 * Records are filled in 13.0's layouts, of which older ones are beginnings,
 * and cut to the size that the version wrote. What follows in a buffer is the
 * next record: whoever reads a field that the version lacks reads that.
 *
 * Versions are cuptiGetVersion's: 18 is 11.8, 19 is 12.0, ... 26 is 12.8.
 */
#include "test/sim/cupti_sim.h"

/* Kind, first version, structure, its size by the headers. Newest first. */
#define LAYOUTS(F)                                                             \
	F(KERNEL, 130000, Kernel10, 216)                                       \
	F(KERNEL, 19, Kernel9, 208)                                            \
	F(KERNEL, 0, Kernel8, 200)                                             \
	F(CONCURRENT_KERNEL, 130000, Kernel10, 216)                            \
	F(CONCURRENT_KERNEL, 19, Kernel9, 208)                                 \
	F(CONCURRENT_KERNEL, 0, Kernel8, 200)                                  \
	F(MEMCPY, 26, Memcpy6, 96)                                             \
	F(MEMCPY, 0, Memcpy5, 88)                                              \
	F(MEMCPY2, 0, MemcpyPtoP4, 96)                                         \
	F(MEMSET, 0, Memset4, 88)                                              \
	F(DRIVER, 0, API, 40)                                                  \
	F(RUNTIME, 0, API, 40)                                                 \
	F(SYNCHRONIZATION, 26, Synchronization2, 56)                           \
	F(SYNCHRONIZATION, 0, Synchronization, 40)                             \
	F(CUDA_EVENT, 26, CudaEvent2, 56)                                      \
	F(CUDA_EVENT, 0, CudaEvent, 24)                                        \
	F(GRAPH_TRACE, 21, GraphTrace2, 56)                                    \
	F(GRAPH_TRACE, 0, GraphTrace, 48)                                      \
	F(MEMORY2, 24, Memory4, 128)                                           \
	F(MEMORY2, 0, Memory3, 120)                                            \
	F(MEMORY_POOL, 130000, MemoryPool3, 80)                                \
	F(MEMORY_POOL, 0, MemoryPool2, 72)                                     \
	F(DEVICE, 20, Device5, 184)                                            \
	F(DEVICE, 0, Device4, 176)                                             \
	F(CONTEXT, 23, Context3, 32)                                           \
	F(CONTEXT, 22, Context2, 24)                                           \
	F(CONTEXT, 0, Context, 16)                                             \
	F(STREAM, 0, Stream, 24)                                               \
	F(OVERHEAD, 22, Overhead3, 56)                                         \
	F(OVERHEAD, 21, Overhead2, 48)                                         \
	F(OVERHEAD, 0, Overhead, 40)                                           \
	F(JIT, 22, Jit2, 72)                                                   \
	F(JIT, 0, Jit, 64)                                                     \
	F(EXTERNAL_CORRELATION, 0, ExternalCorrelation, 24)

#define F(kind, since, record, size)                                           \
	_Static_assert(sizeof(CUpti_Activity##record) == (size), #record);
LAYOUTS(F)
#undef F

static const struct layout {
	unsigned int kind, since;
	size_t size;
} layouts[] = {
#define F(kind, since, record, size)                                           \
	{ CUPTI_ACTIVITY_KIND_##kind, since, size },
LAYOUTS(F)
#undef F
};

static size_t sizes[SIM_KINDS];

__attribute__((constructor)) static void choose(void)
{
	uint64_t version = sim_cupti_version();

	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
		if (!sizes[layouts[i].kind] && version >= layouts[i].since)
			sizes[layouts[i].kind] = layouts[i].size;
}

size_t sim_record_size(unsigned int kind)
{
	return kind < SIM_KINDS ? sizes[kind] : 0;
}
