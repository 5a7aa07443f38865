/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CUDNN_CALL_H
#define GPUTRACE_COLLECTOR_CUDNN_CALL_H

#include "collector/library_call.h"

/*
 * What a call of cuDNN says, as its descriptors' own getters tell: dimensions
 * and types; of a convolution also
 *
 *   FLOP = 2 (elements of y) (channels of a group) (elements of the window)
 *
 * for each of its three directions.  Of a plan (cudnnBackendExecute) what
 * costs no allocation: its address and its workspace.
 *
 * Numbers are cuDNN's own (9.19; the same in 8).  `caller` as in
 * real_symbol_find(); each returns the level for library_call_end().
 * Context: any thread, not signal-safe.
 */
enum cudnn_direction { CUDNN_FORWARD, CUDNN_BACKWARD_DATA,
	CUDNN_BACKWARD_FILTER };

/* x, w, y: those of the forward direction, or their gradients. */
int cudnn_begin_convolution(const struct real_symbol *symbol,
			    const void *caller, enum cudnn_direction direction,
			    void *x, void *w, void *convolution, void *y);
/* One that maps x to y (NULL: not said). */
int cudnn_begin_tensors(const struct real_symbol *symbol, const void *caller,
			void *x, void *y);
int cudnn_begin_plan(const struct real_symbol *symbol, const void *caller,
		     void *plan);
int cudnn_begin_attention(const struct real_symbol *symbol, const void *caller,
			  void *attention);
int cudnn_begin_rnn(const struct real_symbol *symbol, const void *caller,
		    void *rnn, void *x);

extern const char *const cudnn_libraries[]
	__attribute__((visibility("hidden")));

#endif
