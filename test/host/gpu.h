/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TEST_HOST_GPU_H
#define GPUTRACE_TEST_HOST_GPU_H

#include <cuda.h>
#include <stdint.h>

#include "test/host/tally.h"

/*
 * The GPU as host programs use it: the driver API, one module of kernels that
 * take as long as they are told.  The same binary runs on the simulated GPU
 * (which reads the kernel's `duration_ns`) and on a real one (which spins for
 * `spin_ns`, from PTX that the driver compiles).
 *
 * Every driver call goes through CU or TRY, which count it by its real symbol
 * in the section "api" ("failed" too when it does not succeed).  CU ends the
 * program with status 1 when the call fails; TRY returns the result.
 */
#define GPU_TEXT(x)	#x
#define GPU_SYMBOL(x)	GPU_TEXT(x)

#define TRY(call, ...) ({						\
	static struct tally did_ = {					\
		.section = "api", .name = GPU_SYMBOL(call),		\
		.listed = ATOMIC_FLAG_INIT,				\
	};								\
	static struct tally failed_ = {					\
		.section = "failed", .name = GPU_SYMBOL(call),		\
		.listed = ATOMIC_FLAG_INIT,				\
	};								\
	gpu_called(&did_, &failed_, call(__VA_ARGS__));			\
})
#define CU(call, ...)	gpu_check(GPU_SYMBOL(call), TRY(call, __VA_ARGS__))

CUresult gpu_called(struct tally *did, struct tally *failed, CUresult result);
void gpu_check(const char *call, CUresult result);

/* Names as nvcc makes them from the templates of inference servers. */
enum gpu_kernel {
	KERNEL_RMS_NORM, KERNEL_GEMM_QKV, KERNEL_ROPE, KERNEL_ATTENTION,
	KERNEL_GEMM_OUT, KERNEL_ADD_RMS_NORM, KERNEL_GEMM_UP, KERNEL_SILU,
	KERNEL_GEMM_DOWN, KERNEL_ADD, KERNEL_COPY, KERNEL_ARGMAX, KERNEL_FLASH,
	KERNEL_CONVOLUTION, KERNEL_ALL_REDUCE,
	NR_KERNELS,
};

struct gpu {
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction kernels[NR_KERNELS];
};

/* Takes the primary context of device `ordinal`, makes it current and loads
 * the module; ends the program with status 1 and a line where there is no
 * GPU. */
void gpu_open(struct gpu *gpu, int ordinal);

/* Waits for the device and gives everything back. */
void gpu_close(struct gpu *gpu);

/* Another thread's first step. */
void gpu_use(const struct gpu *gpu);

/* The module's text, to load it once more; free() it. */
char *gpu_module_text(void);
const char *gpu_kernel_symbol(enum gpu_kernel kernel);

/* Launches a kernel of `ns` nanoseconds in its usual shape. */
void gpu_launch(const struct gpu *gpu, enum gpu_kernel kernel, CUstream stream,
		uint64_t ns);
CUresult gpu_try_launch(const struct gpu *gpu, enum gpu_kernel kernel,
			CUstream stream, uint64_t ns);
void gpu_launch_function(CUfunction function, unsigned int blocks,
			 unsigned int threads, unsigned int smem,
			 CUstream stream, uint64_t ns);

/* A thread that launches, in a range each, until the driver is gone; its
 * argument is the struct gpu. */
void *gpu_launch_for_ever(void *gpu);

/* CLOCK_MONOTONIC; and waiting for a moment of it with the CPU busy. */
uint64_t now_ns(void);
void spin_until_ns(uint64_t t_ns);

#endif
