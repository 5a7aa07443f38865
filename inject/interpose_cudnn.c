/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/cudnn_call.h"
#include "inject/interpose_library.h"

/*
 * cuDNN: what launches work, by version 9's prototypes, which version 8 has
 * too.  Not here: the recurrent functions that 9 removed.
 */

/* CUDNN_STATUS_NOT_SUPPORTED has another number in 8. */
static int not_supported(void)
{
	int saved = errno;
	void *library = dlopen("libcudnn.so.8", RTLD_LAZY | RTLD_NOLOAD);

	if (library)
		dlclose(library);
	errno = saved;
	return library ? 9 : 3000;
}

#define CUDNN(...) \
	LIBRARY_CALL(LIBRARY_CUDNN, cudnn_libraries, not_supported(), \
		     __VA_ARGS__)

/* ---- Convolutions ---- */

#define BEGIN_CONVOLUTION(direction) \
	cudnn_begin_convolution(symbol, caller, direction, xd, wd, \
				convolution, yd)

CUDNN(cudnnConvolutionForward,
      (void *handle, const void *alpha, void *xd, const void *x, void *wd,
       const void *w, void *convolution, int algorithm, void *workspace,
       size_t workspace_size, const void *beta, void *yd, void *y),
      (handle, alpha, xd, x, wd, w, convolution, algorithm, workspace,
       workspace_size, beta, yd, y),
      BEGIN_CONVOLUTION(CUDNN_FORWARD))
CUDNN(cudnnConvolutionBiasActivationForward,
      (void *handle, const void *alpha1, void *xd, const void *x, void *wd,
       const void *w, void *convolution, int algorithm, void *workspace,
       size_t workspace_size, const void *alpha2, void *zd, const void *z,
       void *bd, const void *b, void *activation, void *yd, void *y),
      (handle, alpha1, xd, x, wd, w, convolution, algorithm, workspace,
       workspace_size, alpha2, zd, z, bd, b, activation, yd, y),
      BEGIN_CONVOLUTION(CUDNN_FORWARD))
CUDNN(cudnnConvolutionBackwardData,
      (void *handle, const void *alpha, void *wd, const void *w, void *yd,
       const void *dy, void *convolution, int algorithm, void *workspace,
       size_t workspace_size, const void *beta, void *xd, void *dx),
      (handle, alpha, wd, w, yd, dy, convolution, algorithm, workspace,
       workspace_size, beta, xd, dx),
      BEGIN_CONVOLUTION(CUDNN_BACKWARD_DATA))
CUDNN(cudnnConvolutionBackwardFilter,
      (void *handle, const void *alpha, void *xd, const void *x, void *yd,
       const void *dy, void *convolution, int algorithm, void *workspace,
       size_t workspace_size, const void *beta, void *wd, void *dw),
      (handle, alpha, xd, x, yd, dy, convolution, algorithm, workspace,
       workspace_size, beta, wd, dw),
      BEGIN_CONVOLUTION(CUDNN_BACKWARD_FILTER))

/* Trials: what torch.backends.cudnn.benchmark does at a new shape. */
#define FOUND int wanted, int *found, void *results, void *workspace, \
	size_t workspace_size
#define FOUND_ARGUMENTS wanted, found, results, workspace, workspace_size

CUDNN(cudnnFindConvolutionForwardAlgorithmEx,
      (void *handle, void *xd, const void *x, void *wd, const void *w,
       void *convolution, void *yd, void *y, FOUND),
      (handle, xd, x, wd, w, convolution, yd, y, FOUND_ARGUMENTS),
      BEGIN_CONVOLUTION(CUDNN_FORWARD))
CUDNN(cudnnFindConvolutionBackwardDataAlgorithmEx,
      (void *handle, void *wd, const void *w, void *yd, const void *dy,
       void *convolution, void *xd, void *dx, FOUND),
      (handle, wd, w, yd, dy, convolution, xd, dx, FOUND_ARGUMENTS),
      BEGIN_CONVOLUTION(CUDNN_BACKWARD_DATA))
CUDNN(cudnnFindConvolutionBackwardFilterAlgorithmEx,
      (void *handle, void *xd, const void *x, void *yd, const void *dy,
       void *convolution, void *wd, void *dw, FOUND),
      (handle, xd, x, yd, dy, convolution, wd, dw, FOUND_ARGUMENTS),
      BEGIN_CONVOLUTION(CUDNN_BACKWARD_FILTER))

/* ---- Plans of the graph interface ---- */

CUDNN(cudnnBackendExecute, (void *handle, void *plan, void *variants),
      (handle, plan, variants), cudnn_begin_plan(symbol, caller, plan))

/* ---- From one tensor to another ---- */

#define BEGIN_TENSORS cudnn_begin_tensors(symbol, caller, xd, yd)

#define MAPS(function) \
	CUDNN(function, \
	      (void *handle, void *kind, const void *alpha, void *xd, \
	       const void *x, const void *beta, void *yd, void *y), \
	      (handle, kind, alpha, xd, x, beta, yd, y), BEGIN_TENSORS)
MAPS(cudnnPoolingForward)
MAPS(cudnnActivationForward)

CUDNN(cudnnSoftmaxForward,
      (void *handle, int algorithm, int mode, const void *alpha, void *xd,
       const void *x, const void *beta, void *yd, void *y),
      (handle, algorithm, mode, alpha, xd, x, beta, yd, y), BEGIN_TENSORS)
CUDNN(cudnnSoftmaxBackward,
      (void *handle, int algorithm, int mode, const void *alpha, void *yd,
       const void *y, void *dyd, const void *dy, const void *beta, void *xd,
       void *dx),
      (handle, algorithm, mode, alpha, yd, y, dyd, dy, beta, xd, dx),
      BEGIN_TENSORS)

#define MAPS_BACK(function) \
	CUDNN(function, \
	      (void *handle, void *kind, const void *alpha, void *yd, \
	       const void *y, void *dyd, const void *dy, void *xd, \
	       const void *x, const void *beta, void *dxd, void *dx), \
	      (handle, kind, alpha, yd, y, dyd, dy, xd, x, beta, dxd, dx), \
	      BEGIN_TENSORS)
MAPS_BACK(cudnnPoolingBackward)
MAPS_BACK(cudnnActivationBackward)

CUDNN(cudnnBatchNormalizationForwardInference,
      (void *handle, int mode, const void *alpha, const void *beta, void *xd,
       const void *x, void *yd, void *y, void *pd, const void *scale,
       const void *bias, const void *mean, const void *variance,
       double epsilon),
      (handle, mode, alpha, beta, xd, x, yd, y, pd, scale, bias, mean,
       variance, epsilon),
      BEGIN_TENSORS)
CUDNN(cudnnBatchNormalizationForwardTrainingEx,
      (void *handle, int mode, int ops, const void *alpha, const void *beta,
       void *xd, const void *x, void *zd, const void *z, void *yd, void *y,
       void *pd, const void *scale, const void *bias, double factor,
       void *mean, void *variance, double epsilon, void *saved_mean,
       void *saved_variance, void *activation, void *workspace,
       size_t workspace_size, void *reserve, size_t reserve_size),
      (handle, mode, ops, alpha, beta, xd, x, zd, z, yd, y, pd, scale, bias,
       factor, mean, variance, epsilon, saved_mean, saved_variance,
       activation, workspace, workspace_size, reserve, reserve_size),
      BEGIN_TENSORS)
CUDNN(cudnnBatchNormalizationBackwardEx,
      (void *handle, int mode, int ops, const void *alpha, const void *beta,
       const void *alpha2, const void *beta2, void *xd, const void *x,
       void *yd, const void *y, void *dyd, const void *dy, void *dzd,
       void *dz, void *dxd, void *dx, void *pd, const void *scale,
       const void *bias, void *dscale, void *dbias, double epsilon,
       const void *saved_mean, const void *saved_variance, void *activation,
       void *workspace, size_t workspace_size, void *reserve,
       size_t reserve_size),
      (handle, mode, ops, alpha, beta, alpha2, beta2, xd, x, yd, y, dyd, dy,
       dzd, dz, dxd, dx, pd, scale, bias, dscale, dbias, epsilon,
       saved_mean, saved_variance, activation, workspace, workspace_size,
       reserve, reserve_size),
      cudnn_begin_tensors(symbol, caller, xd, dyd))

/* ---- Attention and recurrent networks ---- */

#define BEGIN_ATTENTION cudnn_begin_attention(symbol, caller, attention)
#define SPACES size_t workspace_size, void *workspace, size_t reserve_size, \
	void *reserve
#define SPACES_ARGUMENTS workspace_size, workspace, reserve_size, reserve

CUDNN(cudnnMultiHeadAttnForward,
      (void *handle, void *attention, int current, const int *low,
       const int *high, const int *q_lengths, const int *k_lengths, void *qd,
       const void *q, const void *residuals, void *kd, const void *k,
       void *vd, const void *v, void *od, void *o, size_t weight_size,
       const void *weights, SPACES),
      (handle, attention, current, low, high, q_lengths, k_lengths, qd, q,
       residuals, kd, k, vd, v, od, o, weight_size, weights,
       SPACES_ARGUMENTS),
      BEGIN_ATTENTION)
CUDNN(cudnnMultiHeadAttnBackwardData,
      (void *handle, void *attention, const int *low, const int *high,
       const int *q_lengths, const int *k_lengths, void *od, const void *o,
       void *dqd, void *dq, const void *q, void *dkd, void *dk,
       const void *k, void *dvd, void *dv, const void *v, size_t weight_size,
       const void *weights, SPACES),
      (handle, attention, low, high, q_lengths, k_lengths, od, o, dqd, dq, q,
       dkd, dk, k, dvd, dv, v, weight_size, weights, SPACES_ARGUMENTS),
      BEGIN_ATTENTION)
CUDNN(cudnnMultiHeadAttnBackwardWeights,
      (void *handle, void *attention, int add, void *qd, const void *q,
       void *kd, const void *k, void *vd, const void *v, void *od,
       const void *o, size_t weight_size, const void *weights,
       void *dweights, SPACES),
      (handle, attention, add, qd, q, kd, k, vd, v, od, o, weight_size,
       weights, dweights, SPACES_ARGUMENTS),
      BEGIN_ATTENTION)

#define BEGIN_RNN cudnn_begin_rnn(symbol, caller, rnn, xd)

CUDNN(cudnnRNNForward,
      (void *handle, void *rnn, int mode, const int32_t *lengths, void *xd,
       const void *x, void *yd, void *y, void *hd, const void *hx, void *hy,
       void *cd, const void *cx, void *cy, size_t weight_size,
       const void *weights, SPACES),
      (handle, rnn, mode, lengths, xd, x, yd, y, hd, hx, hy, cd, cx, cy,
       weight_size, weights, SPACES_ARGUMENTS),
      BEGIN_RNN)
CUDNN(cudnnRNNBackwardData_v8,
      (void *handle, void *rnn, const int32_t *lengths, void *yd,
       const void *y, const void *dy, void *xd, void *dx, void *hd,
       const void *hx, const void *dhy, void *dhx, void *cd, const void *cx,
       const void *dcy, void *dcx, size_t weight_size, const void *weights,
       SPACES),
      (handle, rnn, lengths, yd, y, dy, xd, dx, hd, hx, dhy, dhx, cd, cx,
       dcy, dcx, weight_size, weights, SPACES_ARGUMENTS),
      BEGIN_RNN)
CUDNN(cudnnRNNBackwardWeights_v8,
      (void *handle, void *rnn, int add, const int32_t *lengths, void *xd,
       const void *x, void *hd, const void *hx, void *yd, const void *y,
       size_t weight_size, void *dweights, SPACES),
      (handle, rnn, add, lengths, xd, x, hd, hx, yd, y, weight_size,
       dweights, SPACES_ARGUMENTS),
      BEGIN_RNN)
