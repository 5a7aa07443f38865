/* SPDX-License-Identifier: MIT */
#include "collector/torch_memory.h"

#include <errno.h>

#include "collector/clock.h"
#include "collector/log.h"
#include "collector/real_symbol.h"
#include "collector/source.h"
#include "collector/window.h"

const char *const torch_memory_libraries[] = { "libc10.so", NULL };

/* c10::DeviceType.  The CPU's allocator tells nothing while no profiler is on
 * (only mapped files come, without a total), so it is left to that. */
enum { DEVICE_CUDA = 1 };

/* The values of a record, in this order. */
enum { RESERVED, ALLOCATED, BYTES, DEVICE, TYPE, ADDRESS, NR_VALUES };

static const struct slice_kind counter = {
	.name = "PyTorch memory", .is_of_device = true,
	.fields = { { "reserved bytes", VALUE_U64, NULL },
		    { "allocated bytes", VALUE_U64, NULL } },
};

/* Names as PyTorch's profiler writes them (profile_memory=True). */
#define FIELDS								\
	{ "Total Reserved", VALUE_U64, NULL },				\
	{ "Total Allocated", VALUE_U64, NULL },				\
	{ "Bytes", VALUE_I64, NULL }, { "Device Id", VALUE_U64, NULL },	\
	{ "Device Type", VALUE_U64, NULL }

static const struct slice_kind told = {
	.name = "[memory]", .counter = &counter,
	.fields = { FIELDS, { "Addr", VALUE_U64, NULL } },
};
static const struct slice_kind failed = {
	.name = "[OutOfMemory]", .counter = &counter, .fields = { FIELDS },
};

_Atomic bool torch_memory_on;

void torch_memory_arm(void)
{
	static const struct real_symbol symbol = REAL_SYMBOL(
		"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
		torch_memory_libraries);

	if (!real_symbol_is_behind(&symbol))
		log_line(LOG_WARN, "torch: what PyTorch allocates is seen only "
			 "where LD_PRELOAD brought the library; this process "
			 "has no [memory] events");
}

void torch_memory_open(bool is_open)
{
	atomic_store(&torch_memory_on, is_open);
}

static void tell(const struct slice_kind *kind,
		 const struct torch_memory *memory, uint32_t nr_values)
{
	const uint64_t values[NR_VALUES] = {
		[RESERVED] = memory->reserved, [ALLOCATED] = memory->allocated,
		[BYTES] = (uint64_t)memory->bytes,
		[DEVICE] = (uint64_t)memory->device.index,
		[TYPE] = DEVICE_CUDA,
		[ADDRESS] = (uintptr_t)memory->address,
	};
	int saved = errno;

	if (memory->device.type == DEVICE_CUDA && memory->device.index >= 0 &&
	    window_is_open(window_epoch()))
		source_instant(kind, (uint32_t)memory->device.index,
			       clock_now_ns(), values, nr_values);
	errno = saved;
}

void torch_memory_tell(const struct torch_memory *memory)
{
	tell(&told, memory, NR_VALUES);
}

void torch_memory_tell_failed(const struct torch_memory *memory)
{
	tell(&failed, memory, ADDRESS);
}
