/* SPDX-License-Identifier: MIT */
/*
 * A cublasLt that multiplies nothing: descriptors that remember, and a kernel.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/library_gpu.h"

struct layout {
	uint32_t type;
	int32_t batch;
	uint64_t rows, cols;
	int64_t ld;
};

struct operation {
	int32_t compute, scale, transa, transb;
};

static int give(void *value, size_t size, const void *from, size_t from_size,
		size_t *written)
{
	if (size < from_size)
		return 7;
	memcpy(value, from, from_size);
	*written = from_size;
	return 0;
}

LIBRARY_EXPORT int cublasLtMatrixLayoutCreate(void **layout, int type,
	uint64_t rows, uint64_t cols, int64_t ld)
{
	struct layout *it = calloc(1, sizeof(*it));

	if (!it)
		return 3;
	*it = (struct layout){ type, 1, rows, cols, ld };
	*layout = it;
	return 0;
}

LIBRARY_EXPORT int cublasLtMatrixLayoutDestroy(void *layout)
{
	free(layout);
	return 0;
}

LIBRARY_EXPORT int cublasLtMatrixLayoutSetAttribute(void *layout,
	int attribute, const void *value, size_t size)
{
	if (attribute != 5 || size != 4)
		return 7;
	((struct layout *)layout)->batch = *(const int32_t *)value;
	return 0;
}

LIBRARY_EXPORT int cublasLtMatrixLayoutGetAttribute(void *layout,
	int attribute, void *value, size_t size, size_t *written)
{
	struct layout *it = layout;

	switch (attribute) {
	case 0:
		return give(value, size, &it->type, 4, written);
	case 2:
		return give(value, size, &it->rows, 8, written);
	case 3:
		return give(value, size, &it->cols, 8, written);
	case 5:
		return give(value, size, &it->batch, 4, written);
	}
	return 7;
}

LIBRARY_EXPORT int cublasLtMatmulDescCreate(void **operation, int compute,
	int scale)
{
	struct operation *it = calloc(1, sizeof(*it));

	if (!it)
		return 3;
	*it = (struct operation){ compute, scale, 0, 0 };
	*operation = it;
	return 0;
}

LIBRARY_EXPORT int cublasLtMatmulDescDestroy(void *operation)
{
	free(operation);
	return 0;
}

LIBRARY_EXPORT int cublasLtMatmulDescSetAttribute(void *operation,
	int attribute, const void *value, size_t size)
{
	struct operation *it = operation;

	if ((attribute != 3 && attribute != 4) || size != 4)
		return 7;
	*(attribute == 3 ? &it->transa : &it->transb) =
		*(const int32_t *)value;
	return 0;
}

LIBRARY_EXPORT int cublasLtMatmulDescGetAttribute(void *operation,
	int attribute, void *value, size_t size, size_t *written)
{
	struct operation *it = operation;

	switch (attribute) {
	case 0:
		return give(value, size, &it->compute, 4, written);
	case 3:
		return give(value, size, &it->transa, 4, written);
	case 4:
		return give(value, size, &it->transb, 4, written);
	}
	return 7;
}

LIBRARY_EXPORT int cublasLtMatmul(void *handle, void *operation,
	const void *alpha, const void *a, void *alayout, const void *b,
	void *blayout, const void *beta, const void *c, void *clayout,
	void *d, void *dlayout, const void *algorithm, void *workspace,
	size_t size, void *stream)
{
	if (((struct layout *)dlayout)->rows == 13)
		return 7;
	library_launch(KERNEL_GEMM_UP, stream, 1);
	return 0;
}
