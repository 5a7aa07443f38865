/* SPDX-License-Identifier: MIT */
#include "collector/library_call.h"

#include <errno.h>
#include <string.h>

#include "collector/log.h"
#include "collector/nccl_event.h"
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

	bool is_behind = real_symbol_is_behind(&symbol);

	if (!is_behind && library == LIBRARY_NCCL && nccl_event_is_expected()) {
		log_line(LOG_WARN, "nccl: LD_PRELOAD did not bring the "
			 "library; its calls are seen only where NCCL, 2.23 or "
			 "later, makes a communicator from now on");
	} else if (!is_behind) {
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

static void nothing(void)
{
}

static void forget(void)
{
	atomic_store(&library_call_open, 0);
	nccl_event_close();
}

#define SOURCE(library, bit, function, file, also_open, also_close)	\
	static int arm_##library(const struct source_options *options)	\
	{								\
		(void)options;						\
		return arm(bit, function, file);			\
	}								\
	static void open_##library(void)				\
	{								\
		atomic_fetch_or(&library_call_open, 1u << (bit));	\
		also_open();						\
	}								\
	static void close_##library(void)				\
	{								\
		also_close();						\
		atomic_fetch_and(&library_call_open, ~(1u << (bit)));	\
	}								\
	const struct source library_call_##library = {			\
		.name = #library, .arm = arm_##library,			\
		.open = open_##library, .close = close_##library,	\
		.forget = forget,					\
	}
SOURCE(cublas, LIBRARY_CUBLAS, "cublasGemmEx", "libcublas.so", nothing,
       nothing);
SOURCE(cudnn, LIBRARY_CUDNN, "cudnnBackendExecute",
       "libcudnn.so", nothing, nothing);
SOURCE(nccl, LIBRARY_NCCL, "ncclAllReduce", "libnccl.so",
       nccl_event_open, nccl_event_close);

/* ---- The arguments ---- */

uint32_t call_put_pointer(char *at, const void *pointer)
{
	uintptr_t value = (uintptr_t)pointer;
	uint32_t nr = 1, len = 0;

	while (nr < 16 && value >> 4 * nr)
		nr++;
	at[len++] = '"';
	at[len++] = '0';
	at[len++] = 'x';
	while (nr--)
		at[len++] = "0123456789abcdef"[value >> 4 * nr & 15];
	at[len++] = '"';
	return len;
}

uint32_t call_put_list(char *at, const int *values, uint32_t nr_values)
{
	uint32_t i, len = 0;

	at[len++] = '[';
	for (i = 0; i < nr_values; i++) {
		if (i)
			at[len++] = ',';
		if (values[i] < 0)
			at[len++] = '-';
		len += decimal_put(at + len, values[i] < 0 ?
				       -(uint64_t)values[i] :
				       (uint64_t)values[i]);
	}
	at[len++] = ']';
	return len;
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
		(void)source_range_pop(domains[library]);
	errno = saved;
}
