/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TEST_HOST_LIBRARIES_H
#define GPUTRACE_TEST_HOST_LIBRARIES_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What host/libraries calls of cuBLAS, cuDNN and NCCL, with handles and
 * descriptors as pointers and enumerations as int: the headers are not there
 * where there is no toolkit.
 */
struct unique_id {
	char bytes[128];
};

int cublasCreate_v2(void **handle);
int cublasGetVersion_v2(void *handle, int *version);
int cublasSgemm_v2(void *handle, int transa, int transb, int m, int n, int k,
	const void *alpha, const void *a, int lda, const void *b, int ldb,
	const void *beta, void *c, int ldc);
int cublasZgemm_v2(void *handle, int transa, int transb, int m, int n, int k,
	const void *alpha, const void *a, int lda, const void *b, int ldb,
	const void *beta, void *c, int ldc);
int cublasGemmEx(void *handle, int transa, int transb, int m, int n, int k,
	const void *alpha, const void *a, int atype, int lda, const void *b,
	int btype, int ldb, const void *beta, void *c, int ctype, int ldc, int
	compute, int algorithm);
int cublasHgemmStridedBatched(void *handle, int transa, int transb, int m, int
	n, int k, const void *alpha, const void *a, int lda, long long stridea,
	const void *b, int ldb, long long strideb, const void *beta, void *c,
	int ldc, long long stridec, int batch);
int cublasCgemmBatched(void *handle, int transa, int transb, int m, int n, int
	k, const void *alpha, const void *a, int lda, const void *b, int ldb,
	const void *beta, void *c, int ldc, int batch);
int cublasDgemv_v2(void *handle, int trans, int m, int n, const void *alpha,
	const void *a, int lda, const void *x, int incx, const void *beta, void
	*y, int incy);
int cublasGemmStridedBatchedEx_64(void *handle, int transa, int transb, int64_t
	m, int64_t n, int64_t k, const void *alpha, const void *a, int atype,
	int64_t lda, long long stridea, const void *b, int btype, int64_t ldb,
	long long strideb, const void *beta, void *c, int ctype, int64_t ldc,
	long long stridec, int64_t batch, int compute, int algorithm);
int cublasSgemmGroupedBatched(void *handle, const int *transa, const int
	*transb, const int *m, const int *n, const int *k, const void *alpha,
	const void *a, const int *lda, const void *b, const int *ldb, const
	void *beta, void *c, const int *ldc, int nr, const int *sizes);

int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t
	cols, int64_t ld);
int cublasLtMatrixLayoutDestroy(void *layout);
int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void
	*value, size_t size);
int cublasLtMatmulDescCreate(void **operation, int compute, int scale);
int cublasLtMatmulDescDestroy(void *operation);
int cublasLtMatmulDescSetAttribute(void *operation, int attribute, const void
	*value, size_t size);
int cublasLtMatmul(void *handle, void *operation, const void *alpha, const void
	*a, void *alayout, const void *b, void *blayout, const void *beta,
	const void *c, void *clayout, void *d, void *dlayout, const void
	*algorithm, void *workspace, size_t size, void *stream);

int cudnnCreate(void **handle);
int cudnnCreateTensorDescriptor(void **descriptor);
int cudnnSetTensorNdDescriptor(void *tensor, int type, int nr, const int *dims,
	const int *strides);
int cudnnCreateFilterDescriptor(void **descriptor);
int cudnnSetFilterNdDescriptor(void *filter, int type, int format, int nr,
	const int *dims);
int cudnnCreateConvolutionDescriptor(void **descriptor);
int cudnnSetConvolutionNdDescriptor(void *convolution, int nr, const int *pad,
	const int *stride, const int *dilation, int mode, int type);
int cudnnSetConvolutionGroupCount(void *convolution, int groups);
int cudnnConvolutionForward(void *handle, const void *alpha, void *xd, const
	void *x, void *wd, const void *w, void *convolution, int algorithm,
	void *workspace, size_t size, const void *beta, void *yd, void *y);
int cudnnConvolutionBackwardData(void *handle, const void *alpha, void *wd,
	const void *w, void *dyd, const void *dy, void *convolution, int
	algorithm, void *workspace, size_t size, const void *beta, void *dxd,
	void *dx);
int cudnnConvolutionBackwardFilter(void *handle, const void *alpha, void *xd,
	const void *x, void *dyd, const void *dy, void *convolution, int
	algorithm, void *workspace, size_t size, const void *beta, void *dwd,
	void *dw);
int cudnnSoftmaxForward(void *handle, int algorithm, int mode, const void
	*alpha, void *xd, const void *x, const void *beta, void *yd, void *y);
int cudnnBackendExecute(void *handle, void *plan, void *variants);
int cudnnMultiHeadAttnForward(void *handle, void *attention, int current, const
	int *low, const int *high, const int *q_lengths, const int *k_lengths,
	void *qd, const void *q, const void *residuals, void *kd, const void
	*k, void *vd, const void *v, void *od, void *o, size_t weight_size,
	const void *weights, size_t size, void *workspace, size_t reserve_size,
	void *reserve);
int cudnnRNNForward(void *handle, void *rnn, int mode, const int32_t *lengths,
	void *xd, const void *x, void *yd, void *y, void *hd, const void *hx,
	void *hy, void *cd, const void *cx, void *cy, size_t weight_size, const
	void *weights, size_t size, void *workspace, size_t reserve_size, void
	*reserve);

long ncclSimQuestions(void);
int ncclCommInitAll(void **comms, int ranks, const int *devices);
int ncclCommInitRank(void **comm, int ranks, struct unique_id id, int rank);
int ncclCommSplit(void *comm, int color, int key, void **child, void *config);
int ncclCommDestroy(void *comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclAllReduce(const void *in, void *out, size_t count, int type, int op,
	void *comm, void *stream);
int ncclReduceScatter(const void *in, void *out, size_t count, int type, int
	op, void *comm, void *stream);
int ncclAllGather(const void *in, void *out, size_t count, int type, void
	*comm, void *stream);
int ncclBroadcast(const void *in, void *out, size_t count, int type, int root,
	void *comm, void *stream);
int ncclSend(const void *buffer, size_t count, int type, int peer, void *comm,
	void *stream);
int ncclRecv(void *buffer, size_t count, int type, int peer, void *comm, void
	*stream);

#endif
