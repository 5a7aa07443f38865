/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_LIBRARY_CALL_H
#define GPUTRACE_COLLECTOR_LIBRARY_CALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "collector/real_symbol.h"
#include "collector/source.h"

/*
 * Calls of NVIDIA's libraries (GPUTRACE_TRACE=cublas,cudnn,nccl) as slices on
 * the calling thread, around what the library launches.
 *
 *   inject/interpose_cublas.c   one wrapper for each function
 *       -> collector/cublas_call.c   what its arguments say, as JSON members
 *           -> library_call_begin()
 *       -> the real function
 *       -> library_call_end()
 *
 * A wrapper allocates nothing and takes no lock, but for the first call from
 * a place (real_symbol.h) and a thread's first record.  While its library is
 * not recorded it tests a flag and jumps.
 */
enum library { LIBRARY_CUBLAS, LIBRARY_CUDNN, LIBRARY_NCCL, NR_LIBRARIES };

/* Their sources, for the table in inject/sources.c. */
extern const struct source library_call_cublas, library_call_cudnn,
	library_call_nccl;

/* Bits: whose window is open.  (Visible here because it is tested inline.) */
extern _Atomic uint32_t library_call_open __attribute__((visibility("hidden")));

/* Context: any thread, signal-safe. */
static inline bool library_is_recorded(enum library library)
{
	return atomic_load_explicit(&library_call_open,
				    memory_order_relaxed) & 1u << library;
}

/* Wanted at attach, also while no window is open. */
bool library_is_armed(enum library library);

/* The members of a JSON object, on the caller's stack.  What does not fit any
 * more is left out: 640 holds the longest, which cuDNN's dimensions are. */
#define CALL_ARGS_MAX 640
struct call_args {
	uint32_t len;
	char text[CALL_ARGS_MAX];
};

/* A word, quoted; `what` is a name with its quotes and colon, so that nothing
 * is to be done to it: CALL_KEY("m"). */
struct call_key {
	const char *text;
	uint32_t len;
};
#define CALL_KEY(name) ((struct call_key){ ",\"" name "\":", \
		sizeof(",\"" name "\":") - 1 })

/* Context of all: any thread. */
void call_args_number(struct call_args *args, struct call_key key,
		      uint64_t value);
void call_args_word(struct call_args *args, struct call_key key,
		    const char *word);
void call_args_pointer(struct call_args *args, struct call_key key,
		       const void *pointer);
/* As [1,2,3]. */
void call_args_list(struct call_args *args, struct call_key key,
		    const int *values, uint32_t nr_values);

/* The product, or false where a factor is negative or it has no room. */
bool call_product(uint64_t *product, const int64_t *factors,
		  uint32_t nr_factors);

/* Opens the slice; returns what library_call_end() needs.  Both keep errno.
 * Context: any thread, not signal-safe. */
int library_call_begin(enum library library,
		       const struct real_symbol *symbol,
		       const struct call_args *args);
void library_call_end(enum library library, int level);

#endif
