/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_LIBRARY_CALL_H
#define GPUTRACE_COLLECTOR_LIBRARY_CALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "collector/decimal.h"
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

/*
 * The members of a JSON object, on the caller's stack.  What does not fit any
 * more is left out: 640 holds the longest, which cuDNN's dimensions are.
 *
 * Written in copies of a constant length, which are moves: a call of memcpy()
 * for each key and word was half of what a slice costs.
 */
#define CALL_ARGS_MAX 640
struct call_args {
	uint32_t len;
	char text[CALL_ARGS_MAX];
};

/* ,"m": */
struct call_key {
	const char *text;
	uint32_t len;
};
#define CALL_KEY(name) ((struct call_key){ ",\"" name "\":", \
		sizeof(",\"" name "\":") - 1 })

/* "R_32F", with its quotes. */
struct call_word {
	char text[31];
	uint8_t len;
};
#define CALL_WORD(word) { "\"" word "\"", sizeof(word) + 1 }

/* Where the value goes, or NULL: no room for `value_len` bytes behind it. */
static inline __attribute__((always_inline)) char *
call_args_key(struct call_args *args, struct call_key key, uint32_t value_len)
{
	char *at = args->text + args->len;

	if (key.len + value_len > sizeof args->text - args->len)
		return NULL;
	memcpy(at, key.text, key.len);
	args->len += key.len;
	return at + key.len;
}

/* Context of both: any thread.  In digits of 16, quoted: "0x...". */
uint32_t call_put_pointer(char *at, const void *pointer);
/* [1,2,3]. */
uint32_t call_put_list(char *at, const int *values, uint32_t nr_values);

static inline __attribute__((always_inline)) void
call_args_number(struct call_args *args, struct call_key key, uint64_t value)
{
	char *at = call_args_key(args, key, DECIMAL_MAX);

	if (at)
		args->len += decimal_put(at, value);
}

static inline __attribute__((always_inline)) void
call_args_word(struct call_args *args, struct call_key key,
	       const struct call_word *word)
{
	char *at = call_args_key(args, key, sizeof word->text);

	if (!at)
		return;
	memcpy(at, word->text, sizeof word->text);
	args->len += word->len;
}

static inline __attribute__((always_inline)) void
call_args_pointer(struct call_args *args, struct call_key key,
		  const void *pointer)
{
	char *at = call_args_key(args, key, DECIMAL_MAX);

	if (at)
		args->len += call_put_pointer(at, pointer);
}

/* 12: the longest int, and a comma. */
static inline __attribute__((always_inline)) void
call_args_list(struct call_args *args, struct call_key key, const int *values,
	       uint32_t nr_values)
{
	char *at = call_args_key(args, key, nr_values * 12 + 2);

	if (at)
		args->len += call_put_list(at, values, nr_values);
}

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
