/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CUBLAS_CALL_H
#define GPUTRACE_COLLECTOR_CUBLAS_CALL_H

#include <stdint.h>

#include "collector/library_call.h"

/*
 * What a call of cuBLAS says: m, n, k, batch, transA, transB, "A type",
 * "B type", "C type", "compute type", and
 *
 *   FLOP = 2 m n k batch, four times that in complex numbers.
 *
 * Numbers are cuBLAS's own (13.1, cublas_api.h, library_types.h; unchanged
 * since 8).  A type is named as there, without "CUDA_": R_16BF; a compute type
 * without "CUBLAS_COMPUTE_": 32F_FAST_TF32.
 */

/* Four small numbers in one, so that a wrapper passes a constant. */
#define CUBLAS_UNKNOWN 255u
#define CUBLAS_TYPES(a, b, c, compute) ((uint32_t)((a) | (b) << 8 | \
		(c) << 16 | (uint32_t)(compute) << 24))

/* The same of what the program passed: any int. */
static inline uint32_t cublas_type(int type)
{
	return type >= 0 && type < 255 ? (uint32_t)type : CUBLAS_UNKNOWN;
}

static inline uint32_t cublas_types(int a, int b, int c, uint32_t compute)
{
	return CUBLAS_TYPES(cublas_type(a), cublas_type(b), cublas_type(c),
			    compute);
}

/* Each returns the level for library_call_end().
 * Context: any thread, not signal-safe. */
int cublas_begin_gemm(const struct real_symbol *symbol, uint32_t types,
		      int transa, int transb, int64_t m, int64_t n,
		      int64_t k, int64_t batch);
int cublas_begin_gemv(const struct real_symbol *symbol, uint32_t types,
		      int trans, int64_t m, int64_t n, int64_t batch);

/* Several shapes in one call; the arrays are the host's, of int or int64_t
 * (`width` bytes). */
struct cublas_groups {
	const void *m, *n, *k, *sizes;
	int64_t nr;
	uint32_t width;
};
int cublas_begin_grouped(const struct real_symbol *symbol, uint32_t types,
			 const struct cublas_groups *groups);

/* cublasLtMatmul's descriptors; `caller` as in real_symbol_find(). */
struct cublas_matmul {
	const void *caller;
	void *operation, *a, *b, *d;
};
int cublas_begin_matmul(const struct real_symbol *symbol,
			const struct cublas_matmul *matmul);

extern const char *const cublas_lt_libraries[]
	__attribute__((visibility("hidden")));

#endif
