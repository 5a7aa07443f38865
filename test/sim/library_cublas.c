/* SPDX-License-Identifier: MIT */
/*
 * A cuBLAS that multiplies nothing: it checks its handle, launches a kernel
 * and returns.  Built as libcublas.so.13 and, without what 12 brought, as
 * libcublas.so.11; a handle of one is not known to the other.
 *
 * 13 rows are refused, so that a status can be told from luck.
 */
#include <stddef.h>
#include <stdint.h>

#include "test/sim/library_gpu.h"

struct cublasContext {
	int version;
	void *stream;
};

static struct cublasContext context = { MAJOR, NULL };

LIBRARY_EXPORT int cublasCreate_v2(void **handle)
{
	*handle = &context;
	return 0;
}

LIBRARY_EXPORT int cublasGetVersion_v2(void *handle, int *version)
{
	(void)handle;
	*version = MAJOR * 10000;
	return 0;
}

static int multiply(struct cublasContext *handle, int64_t m, int nr)
{
	if (!handle || handle->version != MAJOR)
		return 1;       /* CUBLAS_STATUS_NOT_INITIALIZED */
	if (m == 13)
		return 7;       /* CUBLAS_STATUS_INVALID_VALUE */
	library_launch(KERNEL_GEMM_UP, handle->stream, nr);
	return 0;
}

LIBRARY_EXPORT int cublasSgemm_v2(void *handle, int transa, int transb, int m,
	int n, int k, const float *alpha, const float *a, int lda,
	const float *b, int ldb, const float *beta, float *c, int ldc)
{
	return multiply(handle, m, 1);
}

LIBRARY_EXPORT int cublasZgemm_v2(void *handle, int transa, int transb, int m,
	int n, int k, const void *alpha, const void *a, int lda,
	const void *b, int ldb, const void *beta, void *c, int ldc)
{
	return multiply(handle, m, 1);
}

/* cublasLt's functions are in a library of their own. */
int cublasLtMatmulDescCreate(void **operation, int compute, int scale);
int cublasLtMatmulDescDestroy(void *operation);
int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows,
			       uint64_t cols, int64_t ld);
int cublasLtMatrixLayoutDestroy(void *layout);
int cublasLtMatmul(void *handle, void *operation, const void *alpha,
	const void *a, void *alayout, const void *b, void *blayout,
	const void *beta, const void *c, void *clayout, void *d,
	void *dlayout, const void *algorithm, void *workspace, size_t size,
	void *stream);

/* A part of the work by way of cublasLt: a call in a call. */
static int multiply_inside(int m, int n, int k, const void *a, const void *b,
			   void *c)
{
	void *operation, *layouts[3];
	int result, i;

	cublasLtMatmulDescCreate(&operation, 68, 0);
	cublasLtMatrixLayoutCreate(&layouts[0], 0, m, k, m);
	cublasLtMatrixLayoutCreate(&layouts[1], 0, k, n, k);
	cublasLtMatrixLayoutCreate(&layouts[2], 0, m, n, m);
	result = cublasLtMatmul(&context, operation, NULL, a, layouts[0], b,
				layouts[1], NULL, c, layouts[2], c,
				layouts[2], NULL, NULL, 0, context.stream);
	for (i = 0; i < 3; i++)
		cublasLtMatrixLayoutDestroy(layouts[i]);
	cublasLtMatmulDescDestroy(operation);
	return result;
}

LIBRARY_EXPORT int cublasGemmEx(void *handle, int transa, int transb, int m,
	int n, int k, const void *alpha, const void *a, int atype, int lda,
	const void *b, int btype, int ldb, const void *beta, void *c,
	int ctype, int ldc, int compute, int algorithm)
{
	int result = multiply(handle, m, 1);

	return result ? result : multiply_inside(m, n, k, a, b, c);
}

LIBRARY_EXPORT int cublasHgemmStridedBatched(void *handle, int transa,
	int transb, int m, int n, int k, const void *alpha, const void *a,
	int lda, long long stridea, const void *b, int ldb, long long strideb,
	const void *beta, void *c, int ldc, long long stridec, int batch)
{
	return multiply(handle, m, 1);
}

LIBRARY_EXPORT int cublasCgemmBatched(void *handle, int transa, int transb,
	int m, int n, int k, const void *alpha, const void *const *a, int lda,
	const void *const *b, int ldb, const void *beta, void *const *c,
	int ldc, int batch)
{
	return multiply(handle, m, 1);
}

LIBRARY_EXPORT int cublasDgemv_v2(void *handle, int trans, int m, int n,
	const double *alpha, const double *a, int lda, const double *x,
	int incx, const double *beta, double *y, int incy)
{
	return multiply(handle, m, 1);
}

#if MAJOR >= 12
LIBRARY_EXPORT int cublasGemmStridedBatchedEx_64(void *handle, int transa,
	int transb, int64_t m, int64_t n, int64_t k, const void *alpha,
	const void *a, int atype, int64_t lda, long long stridea,
	const void *b, int btype, int64_t ldb, long long strideb,
	const void *beta, void *c, int ctype, int64_t ldc, long long stridec,
	int64_t batch, int compute, int algorithm)
{
	return multiply(handle, m, 1);
}

LIBRARY_EXPORT int cublasSgemmGroupedBatched(void *handle, const int *transa,
	const int *transb, const int *m, const int *n, const int *k,
	const float *alpha, const float *const *a, const int *lda,
	const float *const *b, const int *ldb, const float *beta,
	float *const *c, const int *ldc, int nr, const int *sizes)
{
	return multiply(handle, m[0], nr);
}
#endif
