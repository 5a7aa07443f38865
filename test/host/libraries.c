/* SPDX-License-Identifier: MIT */
/*
 * libraries: calls of cuBLAS, cuDNN and NCCL, as a program or (test/shim) as a
 * plugin that a program loads, each linked to them.
 *
 *	libraries [--threads N] [--rounds N] [--absent] [--only cublas]
 *	libraries --burst NAME
 *
 * Shows: each call with what it was given, a JSON object a line:
 * {"call": NAME, "status": N, ...}, numbers as the library has them.  With
 * --threads only cublasGemmEx, from each, and no lines.  --absent calls
 * functions that only the wrapper of a tool has (dlsym finds them there) and
 * says what they return, or null.  --burst measures calls that do nothing
 * (gemm, matmul, allreduce), in bursts that a ring holds: the median, in ns.
 */
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "test/host/libraries.h"

/* Addresses that nobody follows. */
#define A ((void *)0x1000)
#define B ((void *)0x2000)
#define C ((void *)0x3000)

static void *cublas;

/* ---- cuBLAS ---- */

static void tell(const char *call, int status, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	printf("{\"call\": \"%s\", \"status\": %d, ", call, status);
	vprintf(format, list);
	printf("}\n");
	va_end(list);
}

#define SHAPE "\"transa\": %d, \"transb\": %d, \"m\": %d, \"n\": %d, " \
	"\"k\": %d, \"batch\": %d, \"a\": %d, \"b\": %d, \"c\": %d"

static int gemm_ex(int transa, int transb, int m, int n, int k, int a, int c,
		   int compute)
{
	return cublasGemmEx(cublas, transa, transb, m, n, k, A, A, a, 64, B, a,
			    64, B, C, c, 64, compute, -1);
}

static void tell_gemm_ex(int transa, int transb, int m, int n, int k, int a,
			 int c, int compute)
{
	int status = gemm_ex(transa, transb, m, n, k, a, c, compute);

	tell("cublasGemmEx", status, SHAPE ", \"compute\": %d", transa, transb,
	     m, n, k, 1, a, a, c, compute);
}

static void call_gemms(void)
{
	int status;

	tell_gemm_ex(1, 0, 4096, 3, 1024, 14, 14, 68);
	tell_gemm_ex(0, 2, 128, 256, 64, 28, 2, 77);
	tell_gemm_ex(0, 0, 13, 1, 1, 0, 0, 68);         /* refused */
	tell_gemm_ex(3, 0, 7, 8, 9, 99, 2, 64);         /* no such type */
	status = cublasSgemm_v2(cublas, 0, 1, 100, 200, 300, A, A, 64, B, 64,
				B, C, 64);
	tell("cublasSgemm_v2", status, SHAPE, 0, 1, 100, 200, 300, 1, 0, 0, 0);
	status = cublasZgemm_v2(cublas, 0, 1, 11, 17, 19, A, A, 64, B, 64, B,
				C, 64);
	tell("cublasZgemm_v2", status, SHAPE, 0, 1, 11, 17, 19, 1, 5, 5, 5);
	status = cublasHgemmStridedBatched(cublas, 0, 1, 21, 22, 23, A, A, 64,
					   5, B, 64, 6, B, C, 64, 7, 24);
	tell("cublasHgemmStridedBatched", status, SHAPE, 0, 1, 21, 22, 23, 24,
	     2, 2, 2);
	status = cublasCgemmBatched(cublas, 2, 0, 31, 32, 33, A, A, 64, B, 64,
				    B, C, 64, 34);
	tell("cublasCgemmBatched", status, SHAPE, 2, 0, 31, 32, 33, 34, 4, 4,
	     4);
	status = cublasDgemv_v2(cublas, 1, 41, 42, A, A, 64, B, 1, B, C, 1);
	tell("cublasDgemv_v2", status, "\"transa\": 1, \"m\": 41, \"n\": 42, "
	     "\"batch\": 1, \"a\": 1, \"b\": 1, \"c\": 1");
}

#ifndef OLD_CUBLAS
/* Sizes beyond 32 bits, and several shapes. */
static void call_new_gemms(void)
{
	static const int m[] = { 2, 3, 5 }, n[] = { 7, 11, 13 },
		k[] = { 17, 19, 23 }, sizes[] = { 1, 2, 4 },
		trans[] = { 0, 0, 0 };
	int status = cublasGemmStridedBatchedEx_64(cublas, 0, 0, 5000000000, 3,
		2, A, A, 2, 64, 8, B, 2, 64, 9, B, C, 0, 64, 10, 6, 68, -1);

	tell("cublasGemmStridedBatchedEx_64", status, "\"transa\": 0, "
	     "\"transb\": 0, \"m\": 5000000000, \"n\": 3, \"k\": 2, "
	     "\"batch\": 6, \"a\": 2, \"b\": 2, \"c\": 0, \"compute\": 68");
	status = cublasSgemmGroupedBatched(cublas, trans, trans, m, n, k, A, A,
					   m, B, n, B, C, m, 3, sizes);
	tell("cublasSgemmGroupedBatched", status, "\"groups\": 3, \"m\": "
	     "[2, 3, 5], \"n\": [7, 11, 13], \"k\": [17, 19, 23], "
	     "\"sizes\": [1, 2, 4], \"a\": 0, \"b\": 0, \"c\": 0");
}
#else
static void call_new_gemms(void) {}
#endif

static void call_matmul(void)
{
	int32_t transposed = 1, batch = 8;
	void *operation, *layouts[3];
	int i, status;

	cublasLtMatmulDescCreate(&operation, 64, 2);
	cublasLtMatmulDescSetAttribute(operation, 3, &transposed, 4);
	cublasLtMatrixLayoutCreate(&layouts[0], 2, 30, 50, 30);
	cublasLtMatrixLayoutCreate(&layouts[1], 2, 30, 60, 30);
	cublasLtMatrixLayoutCreate(&layouts[2], 2, 50, 60, 50);
	for (i = 0; i < 3; i++)
		cublasLtMatrixLayoutSetAttribute(layouts[i], 5, &batch, 4);
	status = cublasLtMatmul(cublas, operation, A, A, layouts[0], B,
				layouts[1], B, C, layouts[2], C, layouts[2],
				NULL, NULL, 0, NULL);
	tell("cublasLtMatmul", status, SHAPE ", \"compute\": 64", 1, 0, 50, 60,
	     30, 8, 2, 2, 2);
	for (i = 0; i < 3; i++)
		cublasLtMatrixLayoutDestroy(layouts[i]);
	cublasLtMatmulDescDestroy(operation);
}

/* ---- cuDNN ---- */

static void *tensor(int n, int c, int h, int w)
{
	int dims[] = { n, c, h, w }, strides[] = { c * h * w, h * w, w, 1 };
	void *it;

	cudnnCreateTensorDescriptor(&it);
	cudnnSetTensorNdDescriptor(it, 2, 4, dims, strides);
	return it;
}

static void *filter(int k, int c, int r, int s)
{
	int dims[] = { k, c, r, s };
	void *it;

	cudnnCreateFilterDescriptor(&it);
	cudnnSetFilterNdDescriptor(it, 2, 0, 4, dims);
	return it;
}

#define CONVOLUTION "\"x\": [4, 32, 28, 30], \"w\": [64, 16, 3, 5], " \
	"\"y\": [4, 64, 14, 15], \"groups\": 2"

static void call_convolutions(void *handle)
{
	int pad[] = { 1, 2 }, stride[] = { 2, 2 }, dilation[] = { 1, 1 };
	void *x = tensor(4, 32, 28, 30), *y = tensor(4, 64, 14, 15);
	void *w = filter(64, 16, 3, 5), *how;
	int status;

	cudnnCreateConvolutionDescriptor(&how);
	cudnnSetConvolutionNdDescriptor(how, 2, pad, stride, dilation, 1, 0);
	cudnnSetConvolutionGroupCount(how, 2);
	status = cudnnConvolutionForward(handle, A, x, A, w, B, how, 1, NULL,
					 0, B, y, C);
	tell("cudnnConvolutionForward", status, CONVOLUTION);
	status = cudnnConvolutionBackwardData(handle, A, w, B, y, C, how, 1,
					      NULL, 0, B, x, A);
	tell("cudnnConvolutionBackwardData", status, CONVOLUTION);
	status = cudnnConvolutionBackwardFilter(handle, A, x, A, y, C, how, 1,
						NULL, 0, B, w, B);
	tell("cudnnConvolutionBackwardFilter", status, CONVOLUTION);
	status = cudnnSoftmaxForward(handle, 0, 0, A, x, A, B, x, C);
	tell("cudnnSoftmaxForward", status, "\"x\": [4, 32, 28, 30]");
}

static void call_cudnn(void)
{
	void *handle;

	cudnnCreate(&handle);
	call_convolutions(handle);
	tell("cudnnBackendExecute", cudnnBackendExecute(handle, handle, A),
	     "\"plan\": %lu", (unsigned long)handle);
	tell("cudnnBackendExecute", cudnnBackendExecute(handle, NULL, A),
	     "\"plan\": 0");
	tell("cudnnMultiHeadAttnForward",
	     cudnnMultiHeadAttnForward(handle, handle, 0, NULL, NULL, NULL,
				       NULL, A, A, A, A, A, A, A, A, A, 0, A,
				       0, A, 0, A), "\"heads\": 12");
	tell("cudnnRNNForward",
	     cudnnRNNForward(handle, handle, 0, NULL, A, A, A, A, A, A, A, A,
			     A, A, 0, A, 0, A, 0, A), "\"hidden\": 48");
	free(handle);
}

/* ---- NCCL ---- */

#define COMM "\"count\": %d, \"type\": %d, \"ranks\": %d, \"rank\": %d, " \
	"\"comm\": %lu"

static void call_collectives(void *comm, int ranks, int rank)
{
	unsigned long it = (unsigned long)comm;

	tell("ncclAllReduce", ncclAllReduce(A, C, 1000, 7, 0, comm, NULL),
	     COMM ", \"op\": 0", 1000, 7, ranks, rank, it);
	tell("ncclReduceScatter",
	     ncclReduceScatter(A, C, 300, 9, 4, comm, NULL),
	     COMM ", \"op\": 4", 300, 9, ranks, rank, it);
	tell("ncclAllGather", ncclAllGather(A, C, 70, 6, comm, NULL), COMM, 70,
	     6, ranks, rank, it);
	tell("ncclBroadcast", ncclBroadcast(A, C, 11, 8, 3, comm, NULL),
	     COMM ", \"root\": 3", 11, 8, ranks, rank, it);
	tell("ncclSend", ncclSend(A, 5, 0, 1, comm, NULL),
	     COMM ", \"peer\": 1", 5, 0, ranks, rank, it);
	tell("ncclRecv", ncclRecv(C, 6, 4, 2, comm, NULL),
	     COMM ", \"peer\": 2", 6, 4, ranks, rank, it);
}

static void call_nccl(void)
{
	struct unique_id id = { .bytes = { [0] = 1, [127] = 127 } };
	void *comms[4], *one, *child;
	int i;

	ncclCommInitAll(comms, 4, NULL);
	call_collectives(comms[2], 4, 2);
	tell("ncclCommInitRank", ncclCommInitRank(&one, 8, id, 5),
	     "\"ranks\": 8, \"rank\": 5");
	call_collectives(one, 8, 5);
	ncclCommSplit(one, 0, 0, &child, NULL);
	call_collectives(child, 4, 2);
	ncclCommDestroy(one);
	ncclCommDestroy(child);
	ncclGroupStart();
	for (i = 0; i < 4; i++)
		ncclAllReduce(A, C, 10, 7, 2, comms[i], NULL);
	ncclGroupEnd();
	tell("ncclAllReduce", ncclAllReduce(A, C, 10, 7, 2, NULL, NULL),
	     "\"questions\": %ld", ncclSimQuestions());
	for (i = 0; i < 4; i++)
		ncclCommDestroy(comms[i]);
}

/* ---- Ways to be run ---- */

static void call_absent(void)
{
	static const char *const names[] = { "cublasZgemmBatched",
		"cudnnRNNBackwardData_v8", "ncclAlltoAll" };
	int (*call)(void *, int, int, int, int, int, void *, void *, int,
		    void *, int, void *, void *, int, int);
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		call = (__typeof__(call))dlsym(RTLD_DEFAULT, names[i]);
		errno = 77;
		printf("{\"absent\": \"%s\", \"status\": ", names[i]);
		if (call)
			printf("%d", call(NULL, 0, 0, 1, 1, 1, A, A, 1, B, 1,
					  B, C, 1, 1));
		else
			printf("null");
		printf(", \"errno\": %d}\n", errno);
	}
}

static long rounds = 1;

static void *many(void *unused)
{
	long i;

	for (i = 0; i < rounds; i++)
		gemm_ex(0, 0, 64, 64, 64, 14, 14, 68);
	return unused;
}

static void call_from_threads(int nr)
{
	pthread_t threads[64];
	int i;

	for (i = 0; i < nr; i++)
		pthread_create(&threads[i], NULL, many, NULL);
	for (i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
}

/* ---- What a call costs ---- */

#define WARM_UP 50
#define BURST 200
#define BURSTS 101
#define PAUSE_US 25000

static void *nothing[4];        /* an operation, three layouts; a comm */

/* Refused before anything is done, and a part of a group without an end. */
static void call_nothing(const char *name)
{
	if (*name == 'g')
		gemm_ex(1, 0, 13, 4096, 4096, 14, 14, 68);
	else if (*name == 'm')
		cublasLtMatmul(cublas, nothing[0], A, A, nothing[1], B,
			       nothing[2], B, C, nothing[3], C, nothing[3],
			       NULL, NULL, 0, NULL);
	else
		ncclAllReduce(A, C, 1 << 20, 7, 0, nothing[0], NULL);
}

static void prepare(const char *name)
{
	int i;

	if (*name == 'a') {
		ncclCommInitAll(nothing, 1, NULL);
		ncclGroupStart();
		return;
	}
	cublasLtMatmulDescCreate(&nothing[0], 68, 0);
	for (i = 1; i < 4; i++)
		cublasLtMatrixLayoutCreate(&nothing[i], 14, 13, 13, 13);
}

static double burst(const char *name)
{
	struct timespec start, end;
	int i;

	for (i = 0; i < WARM_UP; i++)
		call_nothing(name);
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (i = 0; i < BURST; i++)
		call_nothing(name);
	clock_gettime(CLOCK_MONOTONIC, &end);
	return ((end.tv_sec - start.tv_sec) * 1e9 + end.tv_nsec -
		start.tv_nsec) / BURST;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(const char *name)
{
	double ns[BURSTS];
	int i;

	prepare(name);
	burst(name);
	for (i = 0; i < BURSTS; i++) {
		usleep(PAUSE_US);
		ns[i] = burst(name);
	}
	qsort(ns, BURSTS, sizeof(ns[0]), compare);
	printf("%.2f\n", ns[BURSTS / 2]);
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "threads", required_argument, NULL, 't' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "absent", no_argument, NULL, 'a' },
		{ "only", required_argument, NULL, 'o' },
		{ "burst", required_argument, NULL, 'b' },
		{ NULL, 0, NULL, 0 },
	};
	const char *only = "", *burst_of = NULL;
	int c, threads = 0, absent = 0, version = 0;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (c == 't' && atoi(optarg) <= 64)
			threads = atoi(optarg);
		else if (c == 'r')
			rounds = atol(optarg);
		else if (c == 'a')
			absent = 1;
		else if (c == 'o')
			only = optarg;
		else if (c == 'b')
			burst_of = optarg;
		else
			return 2;
	}
	cublasCreate_v2(&cublas);
	cublasGetVersion_v2(cublas, &version);
	if (!burst_of)
		printf("{\"cublas\": %d}\n", version);
	/* Brings the GPU: what traces it may not see this one. */
	cublasSgemm_v2(cublas, 0, 0, 1, 1, 1, A, A, 1, B, 1, B, C, 1);
	if (burst_of) {
		measure(burst_of);
	} else if (absent) {
		call_absent();
	} else if (threads) {
		call_from_threads(threads);
	} else {
		call_gemms();
		call_new_gemms();
		call_matmul();
		if (!*only) {
			call_cudnn();
			call_nccl();
		}
	}
	return EXIT_SUCCESS;
}
