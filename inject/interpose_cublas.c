/* SPDX-License-Identifier: MIT */
#include <stddef.h>
#include <stdint.h>

#include "collector/cublas_call.h"
#include "inject/interpose_library.h"

/*
 * cuBLAS: matrix products of all kinds, and products with a vector.
 *
 * Not here: the interface without a handle (cublas.h), level 1, and the
 * products with a triangular or symmetric matrix.
 */
static const char *const libraries[] = {
	"libcublas.so.13", "libcublas.so.12", "libcublas.so.11",
	"libcublas.so.10", NULL,
};

#define NOT_SUPPORTED 15        /* CUBLAS_STATUS_NOT_SUPPORTED */

#define CUBLAS(...) \
	LIBRARY_CALL(LIBRARY_CUBLAS, libraries, NOT_SUPPORTED, __VA_ARGS__)

/* Of one type throughout.  The math mode decides what it is computed in. */
#define R_32F 0u
#define R_64F 1u
#define R_16F 2u
#define R_16BF 14u
#define C_32F 4u
#define C_64F 5u
#define ALL(type) CUBLAS_TYPES(type, type, type, CUBLAS_UNKNOWN)

#define BEGIN_GEMM(types, batch) \
	cublas_begin_gemm(symbol, types, transa, transb, m, n, k, batch)

/* Each family has an int and, since 12, an int64_t form. */
#define BOTH(FAMILY, name, type) \
	FAMILY(name, type, int) \
	FAMILY(name##_64, type, int64_t)

#define SHAPE(I) void *handle, int transa, int transb, I m, I n, I k
#define SHAPE_ARGUMENTS handle, transa, transb, m, n, k

/* ---- C = alpha A B + beta C ---- */

#define GEMM(name, type, I) \
	CUBLAS(name, (SHAPE(I), const void *alpha, const void *a, I lda, \
		const void *b, I ldb, const void *beta, void *c, I ldc), \
	       (SHAPE_ARGUMENTS, alpha, a, lda, b, ldb, beta, c, ldc), \
	       BEGIN_GEMM(ALL(type), 1))
BOTH(GEMM, cublasHgemm, R_16F)
BOTH(GEMM, cublasSgemm_v2, R_32F)
BOTH(GEMM, cublasDgemm_v2, R_64F)
BOTH(GEMM, cublasCgemm_v2, C_32F)
BOTH(GEMM, cublasZgemm_v2, C_64F)
BOTH(GEMM, cublasCgemm3m, C_32F)
BOTH(GEMM, cublasZgemm3m, C_64F)

#define GEMM_TYPED(name, unused, I) \
	CUBLAS(name, (SHAPE(I), const void *alpha, const void *a, int atype, \
		I lda, const void *b, int btype, I ldb, const void *beta, \
		void *c, int ctype, I ldc), \
	       (SHAPE_ARGUMENTS, alpha, a, atype, lda, b, btype, ldb, beta, \
		c, ctype, ldc), \
	       BEGIN_GEMM(cublas_types(atype, btype, ctype, CUBLAS_UNKNOWN), \
			  1))
BOTH(GEMM_TYPED, cublasSgemmEx, 0)
BOTH(GEMM_TYPED, cublasCgemmEx, 0)
BOTH(GEMM_TYPED, cublasCgemm3mEx, 0)

#define ALL_TYPES cublas_types(atype, btype, ctype, cublas_type(compute))

#define GEMM_EX(name, unused, I) \
	CUBLAS(name, (SHAPE(I), const void *alpha, const void *a, int atype, \
		I lda, const void *b, int btype, I ldb, const void *beta, \
		void *c, int ctype, I ldc, int compute, int algorithm), \
	       (SHAPE_ARGUMENTS, alpha, a, atype, lda, b, btype, ldb, beta, \
		c, ctype, ldc, compute, algorithm), \
	       BEGIN_GEMM(ALL_TYPES, 1))
BOTH(GEMM_EX, cublasGemmEx, 0)

/* ---- Many of one shape ---- */

#define GEMM_BATCHED(name, type, I) \
	CUBLAS(name, (SHAPE(I), const void *alpha, const void *const *a, \
		I lda, const void *const *b, I ldb, const void *beta, \
		void *const *c, I ldc, I batch), \
	       (SHAPE_ARGUMENTS, alpha, a, lda, b, ldb, beta, c, ldc, batch), \
	       BEGIN_GEMM(ALL(type), batch))
BOTH(GEMM_BATCHED, cublasHgemmBatched, R_16F)
BOTH(GEMM_BATCHED, cublasSgemmBatched, R_32F)
BOTH(GEMM_BATCHED, cublasDgemmBatched, R_64F)
BOTH(GEMM_BATCHED, cublasCgemmBatched, C_32F)
BOTH(GEMM_BATCHED, cublasZgemmBatched, C_64F)
BOTH(GEMM_BATCHED, cublasCgemm3mBatched, C_32F)

#define GEMM_STRIDED(name, type, I) \
	CUBLAS(name, (SHAPE(I), const void *alpha, const void *a, I lda, \
		long long stridea, const void *b, I ldb, long long strideb, \
		const void *beta, void *c, I ldc, long long stridec, \
		I batch), \
	       (SHAPE_ARGUMENTS, alpha, a, lda, stridea, b, ldb, strideb, \
		beta, c, ldc, stridec, batch), \
	       BEGIN_GEMM(ALL(type), batch))
BOTH(GEMM_STRIDED, cublasHgemmStridedBatched, R_16F)
BOTH(GEMM_STRIDED, cublasSgemmStridedBatched, R_32F)
BOTH(GEMM_STRIDED, cublasDgemmStridedBatched, R_64F)
BOTH(GEMM_STRIDED, cublasCgemmStridedBatched, C_32F)
BOTH(GEMM_STRIDED, cublasZgemmStridedBatched, C_64F)
BOTH(GEMM_STRIDED, cublasCgemm3mStridedBatched, C_32F)

#define GEMM_BATCHED_EX(name, unused, I) \
	CUBLAS(name, (SHAPE(I), const void *alpha, const void *const *a, \
		int atype, I lda, const void *const *b, int btype, I ldb, \
		const void *beta, void *const *c, int ctype, I ldc, I batch, \
		int compute, int algorithm), \
	       (SHAPE_ARGUMENTS, alpha, a, atype, lda, b, btype, ldb, beta, \
		c, ctype, ldc, batch, compute, algorithm), \
	       BEGIN_GEMM(ALL_TYPES, batch))
BOTH(GEMM_BATCHED_EX, cublasGemmBatchedEx, 0)

#define GEMM_STRIDED_EX(name, unused, I) \
	CUBLAS(name, (SHAPE(I), const void *alpha, const void *a, int atype, \
		I lda, long long stridea, const void *b, int btype, I ldb, \
		long long strideb, const void *beta, void *c, int ctype, \
		I ldc, long long stridec, I batch, int compute, \
		int algorithm), \
	       (SHAPE_ARGUMENTS, alpha, a, atype, lda, stridea, b, btype, \
		ldb, strideb, beta, c, ctype, ldc, stridec, batch, compute, \
		algorithm), \
	       BEGIN_GEMM(ALL_TYPES, batch))
BOTH(GEMM_STRIDED_EX, cublasGemmStridedBatchedEx, 0)

/* ---- Many of several shapes ---- */

/* Not inline: the structure has an address (LIBRARY_CALL). */
static __attribute__((noinline)) int
begin_grouped(const struct real_symbol *symbol, uint32_t types, uint32_t width,
	      const void *m, const void *n, const void *k, int64_t nr,
	      const void *sizes)
{
	struct cublas_groups groups = { m, n, k, sizes, nr, width };

	return cublas_begin_grouped(symbol, types, &groups);
}
#define BEGIN_GROUPED(types, I) \
	begin_grouped(symbol, types, sizeof(I), m, n, k, nr, sizes)

#define GROUPS(I) void *handle, const int *transa, const int *transb, \
	const I *m, const I *n, const I *k, const void *alpha

#define GEMM_GROUPED(name, type, I) \
	CUBLAS(name, (GROUPS(I), const void *const *a, const I *lda, \
		const void *const *b, const I *ldb, const void *beta, \
		void *const *c, const I *ldc, I nr, const I *sizes), \
	       (SHAPE_ARGUMENTS, alpha, a, lda, b, ldb, beta, c, ldc, nr, \
		sizes), \
	       BEGIN_GROUPED(ALL(type), I))
BOTH(GEMM_GROUPED, cublasSgemmGroupedBatched, R_32F)
BOTH(GEMM_GROUPED, cublasDgemmGroupedBatched, R_64F)

#define GEMM_GROUPED_EX(name, unused, I) \
	CUBLAS(name, (GROUPS(I), const void *const *a, int atype, \
		const I *lda, const void *const *b, int btype, const I *ldb, \
		const void *beta, void *const *c, int ctype, const I *ldc, \
		I nr, const I *sizes, int compute), \
	       (SHAPE_ARGUMENTS, alpha, a, atype, lda, b, btype, ldb, beta, \
		c, ctype, ldc, nr, sizes, compute), \
	       BEGIN_GROUPED(ALL_TYPES, I))
BOTH(GEMM_GROUPED_EX, cublasGemmGroupedBatchedEx, 0)

/* ---- y = alpha A x + beta y ---- */

#define BEGIN_GEMV(types, batch) \
	cublas_begin_gemv(symbol, types, trans, m, n, batch)

#define GEMV(name, type, I) \
	CUBLAS(name, (void *handle, int trans, I m, I n, const void *alpha, \
		const void *a, I lda, const void *x, I incx, \
		const void *beta, void *y, I incy), \
	       (handle, trans, m, n, alpha, a, lda, x, incx, beta, y, incy), \
	       BEGIN_GEMV(ALL(type), 1))
BOTH(GEMV, cublasSgemv_v2, R_32F)
BOTH(GEMV, cublasDgemv_v2, R_64F)
BOTH(GEMV, cublasCgemv_v2, C_32F)
BOTH(GEMV, cublasZgemv_v2, C_64F)

#define GEMV_BATCHED(name, types, I) \
	CUBLAS(name, (void *handle, int trans, I m, I n, const void *alpha, \
		const void *const *a, I lda, const void *const *x, I incx, \
		const void *beta, void *const *y, I incy, I batch), \
	       (handle, trans, m, n, alpha, a, lda, x, incx, beta, y, incy, \
		batch), \
	       BEGIN_GEMV(types, batch))

#define GEMV_STRIDED(name, types, I) \
	CUBLAS(name, (void *handle, int trans, I m, I n, const void *alpha, \
		const void *a, I lda, long long stridea, const void *x, \
		I incx, long long stridex, const void *beta, void *y, \
		I incy, long long stridey, I batch), \
	       (handle, trans, m, n, alpha, a, lda, stridea, x, incx, \
		stridex, beta, y, incy, stridey, batch), \
	       BEGIN_GEMV(types, batch))

/* H: half, T: bfloat16; the matrix and x, y, and what is computed in. */
#define HSH CUBLAS_TYPES(R_16F, R_16F, R_16F, R_32F)
#define HSS CUBLAS_TYPES(R_16F, R_16F, R_32F, R_32F)
#define TST CUBLAS_TYPES(R_16BF, R_16BF, R_16BF, R_32F)
#define TSS CUBLAS_TYPES(R_16BF, R_16BF, R_32F, R_32F)

#define BATCHED_AND_STRIDED(name, types) \
	BOTH(GEMV_BATCHED, name##Batched, types) \
	BOTH(GEMV_STRIDED, name##StridedBatched, types)
BATCHED_AND_STRIDED(cublasHSHgemv, HSH)
BATCHED_AND_STRIDED(cublasHSSgemv, HSS)
BATCHED_AND_STRIDED(cublasTSTgemv, TST)
BATCHED_AND_STRIDED(cublasTSSgemv, TSS)
BATCHED_AND_STRIDED(cublasSgemv, ALL(R_32F))
BATCHED_AND_STRIDED(cublasDgemv, ALL(R_64F))
BATCHED_AND_STRIDED(cublasCgemv, ALL(C_32F))
BATCHED_AND_STRIDED(cublasZgemv, ALL(C_64F))

/* ---- cublasLt ---- */

static __attribute__((noinline)) int
begin_matmul(const struct real_symbol *symbol, const void *caller,
	     void *operation, void *a, void *b, void *d)
{
	struct cublas_matmul matmul = { caller, operation, a, b, d };

	return cublas_begin_matmul(symbol, &matmul);
}

LIBRARY_CALL(LIBRARY_CUBLAS, cublas_lt_libraries, NOT_SUPPORTED,
	     cublasLtMatmul,
	     (void *handle, void *operation, const void *alpha, const void *a,
	      void *alayout, const void *b, void *blayout, const void *beta,
	      const void *c, void *clayout, void *d, void *dlayout,
	      const void *algorithm, void *workspace, size_t workspace_size,
	      void *stream),
	     (handle, operation, alpha, a, alayout, b, blayout, beta, c,
	      clayout, d, dlayout, algorithm, workspace, workspace_size,
	      stream),
	     begin_matmul(symbol, caller, operation, alayout, blayout,
			  dlayout))
