/* SPDX-License-Identifier: MIT */
#include <stddef.h>
#include <stdint.h>

#include "collector/torch_memory.h"
#include "inject/interpose_library.h"

/*
 * PyTorch: what its caching allocator tells a profiler, whether one is on or
 * not (collector/torch_memory.h).  The functions are C++, so their names tell
 * the types of their parameters:
 *
 *   c10::reportMemoryUsageToProfiler(void *, int64_t, T, T, c10::Device)
 *   c10::reportOutOfMemoryToProfiler(int64_t, T, T, c10::Device)
 *
 * T is size_t, in 1.13 and before int64_t; in registers they are the same.
 */

/* Recorded first, so that the way on is a jump. */
#define TORCH_REPORT(function, parameters, arguments, tell, ...)	\
	LIBRARY_EXPORT void function parameters;			\
	static const struct real_symbol function##_symbol = {		\
		#function, sizeof #function - 1,			\
		(const void *)function, torch_memory_libraries,		\
	};								\
	static __attribute__((noinline)) void function##_tell parameters \
	{								\
		tell(&(struct torch_memory){ __VA_ARGS__ });		\
	}								\
	void function parameters					\
	{								\
		void (*call) parameters = (void (*) parameters)		\
			real_symbol_find(&function##_symbol,		\
					 __builtin_return_address(0));	\
									\
		if (torch_memory_is_recorded())				\
			function##_tell arguments;			\
		if (call)						\
			call arguments;					\
	}

#define TOTALS uint64_t allocated, uint64_t reserved, struct c10_device device

#define USAGE(function)							\
	TORCH_REPORT(function, (void *address, int64_t bytes, TOTALS),	\
		(address, bytes, allocated, reserved, device),		\
		torch_memory_tell,					\
		address, bytes, allocated, reserved, device)
USAGE(_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE)
USAGE(_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE)

#define OUT_OF_MEMORY(function)						\
	TORCH_REPORT(function, (int64_t bytes, TOTALS),			\
		(bytes, allocated, reserved, device),			\
		torch_memory_tell_failed,				\
		NULL, bytes, allocated, reserved, device)
OUT_OF_MEMORY(_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE)
OUT_OF_MEMORY(_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE)
