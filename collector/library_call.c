/* SPDX-License-Identifier: MIT */
#include "collector/library_call.h"

#include <errno.h>
#include <string.h>

#include "collector/log.h"
#include "collector/record.h"

/* ---- The sources ---- */

_Atomic uint32_t library_call_open;
static _Atomic uint32_t armed;

static struct nvtx_domain cublas = {
	.recorded = 1, .cat = "cublas", .len = 6, .name = "cublas",
};
static struct nvtx_domain cudnn = {
	.recorded = 1, .cat = "cudnn", .len = 5, .name = "cudnn",
};
static struct nvtx_domain nccl = {
	.recorded = 1, .cat = "nccl", .len = 4, .name = "nccl",
};
static struct nvtx_domain *const domains[NR_LIBRARIES] = {
	[LIBRARY_CUBLAS] = &cublas, [LIBRARY_CUDNN] = &cudnn,
	[LIBRARY_NCCL] = &nccl,
};

/* By one function of each. */
static int arm(enum library library, const char *function, const char *file)
{
	const char *const files[] = { file, NULL };
	struct real_symbol symbol = { .name = function, .libraries = files };

	if (!real_symbol_is_behind(&symbol)) {
		log_line(LOG_WARN, "%s: its calls are seen only where "
			 "LD_PRELOAD brought the library; this process has no "
			 "slices of them", domains[library]->cat);
		return -ENOTSUP;
	}
	atomic_fetch_or(&armed, 1u << library);
	return 0;
}

bool library_is_armed(enum library library)
{
	return atomic_load_explicit(&armed, memory_order_relaxed) &
		1u << library;
}

static void forget(void)
{
	atomic_store(&library_call_open, 0);
}

#define SOURCE(library, bit, function, file)				\
	static int arm_##library(const struct source_options *options)	\
	{								\
		(void)options;						\
		return arm(bit, function, file);			\
	}								\
	static void open_##library(void)				\
	{								\
		atomic_fetch_or(&library_call_open, 1u << (bit));	\
	}								\
	static void close_##library(void)				\
	{								\
		atomic_fetch_and(&library_call_open, ~(1u << (bit)));	\
	}								\
	const struct source library_call_##library = {			\
		.name = #library, .arm = arm_##library,			\
		.open = open_##library, .close = close_##library,	\
		.forget = forget,					\
	}
SOURCE(cublas, LIBRARY_CUBLAS, "cublasGemmEx", "libcublas.so");
SOURCE(cudnn, LIBRARY_CUDNN, "cudnnBackendExecute",
       "libcudnn.so");
SOURCE(nccl, LIBRARY_NCCL, "ncclAllReduce", "libnccl.so");

/* ---- The arguments ---- */

static char *room_for(struct call_args *args, struct call_key key,
		      uint32_t value_len)
{
	char *at = args->text + args->len;

	if (key.len + value_len > sizeof args->text - args->len)
		return NULL;
	memcpy(at, key.text, key.len);
	args->len += key.len;
	return at + key.len;
}

/* 20: the digits of UINT64_MAX. */
#define MAX_DIGITS 20

static uint32_t put_number(char *at, uint64_t value)
{
	char digits[MAX_DIGITS];
	uint32_t nr = 0, i;

	do
		digits[nr++] = (char)('0' + value % 10);
	while (value /= 10);
	for (i = 0; i < nr; i++)
		at[i] = digits[nr - 1 - i];
	return nr;
}

void call_args_number(struct call_args *args, struct call_key key,
		      uint64_t value)
{
	char *at = room_for(args, key, MAX_DIGITS);

	if (at)
		args->len += put_number(at, value);
}

void call_args_word(struct call_args *args, struct call_key key,
		    const char *word)
{
	uint32_t len = (uint32_t)strlen(word);
	char *at = room_for(args, key, len + 2);

	if (!at)
		return;
	at[0] = '"';
	memcpy(at + 1, word, len);
	at[len + 1] = '"';
	args->len += len + 2;
}

/* 0x and 16 digits. */
#define POINTER_LEN 18

void call_args_pointer(struct call_args *args, struct call_key key,
		       const void *pointer)
{
	char word[POINTER_LEN + 1] = "0x";
	uintptr_t value = (uintptr_t)pointer;
	uint32_t nr = 1, i;

	while (nr < 16 && value >> 4 * nr)
		nr++;
	for (i = 0; i < nr; i++)
		word[2 + i] = "0123456789abcdef"[value >> 4 * (nr - 1 - i) &
						 15];
	call_args_word(args, key, word);
}

void call_args_list(struct call_args *args, struct call_key key,
		    const int *values, uint32_t nr_values)
{
	/* 12: the longest int, and a comma. */
	char *at = room_for(args, key, nr_values * 12 + 2);
	char *first = at;
	uint32_t i;

	if (!at)
		return;
	*at++ = '[';
	for (i = 0; i < nr_values; i++) {
		if (i)
			*at++ = ',';
		if (values[i] < 0)
			*at++ = '-';
		at += put_number(at, values[i] < 0 ? -(int64_t)values[i] :
				 values[i]);
	}
	*at++ = ']';
	args->len += (uint32_t)(at - first);
}

bool call_product(uint64_t *product, const int64_t *factors,
		  uint32_t nr_factors)
{
	uint32_t i;

	*product = 1;
	for (i = 0; i < nr_factors; i++)
		if (factors[i] < 0 ||
		    __builtin_mul_overflow(*product, (uint64_t)factors[i],
					   product))
			return false;
	return true;
}

/* ---- The slice ---- */

int library_call_begin(enum library library, const struct real_symbol *symbol,
		       const struct call_args *args)
{
	int saved = errno, level;
	/* Each member begins with a comma. */
	uint32_t len = args && args->len ? args->len - 1 : 0;

	level = source_range_push(domains[library], symbol->name,
				  symbol->name_len,
				  len ? args->text + 1 : NULL, len);
	errno = saved;
	return level;
}

/* A push that was dropped has no pop. */
void library_call_end(enum library library, int level)
{
	int saved = errno;

	if (level >= 0)
		source_range_pop(domains[library]);
	errno = saved;
}
