/* SPDX-License-Identifier: MIT */
#include "collector/cublas_call.h"

#include <stdbool.h>
#include <stddef.h>

#define NR(array) (sizeof(array) / sizeof *(array))

/* cudaDataType. */
static const struct call_word types_of_data[] = {
	CALL_WORD("R_32F"), CALL_WORD("R_64F"), CALL_WORD("R_16F"),
	CALL_WORD("R_8I"), CALL_WORD("C_32F"), CALL_WORD("C_64F"),
	CALL_WORD("C_16F"), CALL_WORD("C_8I"), CALL_WORD("R_8U"),
	CALL_WORD("C_8U"), CALL_WORD("R_32I"), CALL_WORD("C_32I"),
	CALL_WORD("R_32U"), CALL_WORD("C_32U"), CALL_WORD("R_16BF"),
	CALL_WORD("C_16BF"), CALL_WORD("R_4I"), CALL_WORD("C_4I"),
	CALL_WORD("R_4U"), CALL_WORD("C_4U"), CALL_WORD("R_16I"),
	CALL_WORD("C_16I"), CALL_WORD("R_16U"), CALL_WORD("C_16U"),
	CALL_WORD("R_64I"), CALL_WORD("C_64I"), CALL_WORD("R_64U"),
	CALL_WORD("C_64U"), CALL_WORD("R_8F_E4M3"), CALL_WORD("R_8F_E5M2"),
	CALL_WORD("R_8F_UE8M0"), CALL_WORD("R_6F_E2M3"),
	CALL_WORD("R_6F_E3M2"), CALL_WORD("R_4F_E2M1"),
};

/* cublasComputeType_t from 64 on; below, before cuBLAS 11, a cudaDataType. */
#define FIRST_COMPUTE 64
static const struct call_word types_of_compute[] = {
	[64 - 64] = CALL_WORD("16F"),
	[65 - 64] = CALL_WORD("16F_PEDANTIC"),
	[68 - 64] = CALL_WORD("32F"),
	[69 - 64] = CALL_WORD("32F_PEDANTIC"),
	[70 - 64] = CALL_WORD("64F"),
	[71 - 64] = CALL_WORD("64F_PEDANTIC"),
	[72 - 64] = CALL_WORD("32I"),
	[73 - 64] = CALL_WORD("32I_PEDANTIC"),
	[74 - 64] = CALL_WORD("32F_FAST_16F"),
	[75 - 64] = CALL_WORD("32F_FAST_16BF"),
	[77 - 64] = CALL_WORD("32F_FAST_TF32"),
	[78 - 64] = CALL_WORD("32F_EMULATED_16BFX9"),
	[79 - 64] = CALL_WORD("64F_EMULATED_FIXEDPOINT"),
};

/* cublasOperation_t. */
static const struct call_word operations[] = {
	CALL_WORD("N"), CALL_WORD("T"), CALL_WORD("C"), CALL_WORD("CONJG"),
};

/* The word, or NULL where there is none. */
static const struct call_word *word_of(const struct call_word *words,
				       size_t nr, uint32_t i)
{
	return i < nr && words[i].len ? &words[i] : NULL;
}

static const struct call_word *type_word(uint32_t type)
{
	return word_of(types_of_data, NR(types_of_data), type);
}

static const struct call_word *compute_word(uint32_t type)
{
	return type < FIRST_COMPUTE ? type_word(type) :
		word_of(types_of_compute, NR(types_of_compute),
			type - FIRST_COMPUTE);
}

static inline __attribute__((always_inline)) void
add_word(struct call_args *args, struct call_key key,
	 const struct call_word *word)
{
	if (word)
		call_args_word(args, key, word);
}

static inline __attribute__((always_inline)) void
add_operation(struct call_args *args, struct call_key key, int operation)
{
	add_word(args, key, word_of(operations, NR(operations),
				    (uint32_t)operation));
}

/* What is negative is an error that cuBLAS will return. */
static inline __attribute__((always_inline)) void
add_size(struct call_args *args, struct call_key key, int64_t size)
{
	if (size >= 0)
		call_args_number(args, key, (uint64_t)size);
}

static void add_types(struct call_args *args, uint32_t types)
{
	add_word(args, CALL_KEY("A type"), type_word(types & 255));
	add_word(args, CALL_KEY("B type"), type_word(types >> 8 & 255));
	add_word(args, CALL_KEY("C type"), type_word(types >> 16 & 255));
	add_word(args, CALL_KEY("compute type"), compute_word(types >> 24));
}

/* A complex multiplication and addition are four of each. */
static int64_t flop_of_one(uint32_t types)
{
	const struct call_word *word = type_word(types & 255);

	return word && word->text[1] == 'C' ? 8 : 2;
}

static void add_flop(struct call_args *args, uint32_t types, int64_t m,
		     int64_t n, int64_t k, int64_t batch)
{
	int64_t factors[] = { flop_of_one(types), m, n, k, batch };
	uint64_t flop;

	if (type_word(types & 255) && call_product(&flop, factors, 5))
		call_args_number(args, CALL_KEY("FLOP"), flop);
}

int cublas_begin_gemm(const struct real_symbol *symbol, uint32_t types,
		      int transa, int transb, int64_t m, int64_t n,
		      int64_t k, int64_t batch)
{
	struct call_args args;

	args.len = 0;
	add_size(&args, CALL_KEY("m"), m);
	add_size(&args, CALL_KEY("n"), n);
	add_size(&args, CALL_KEY("k"), k);
	add_size(&args, CALL_KEY("batch"), batch);
	add_operation(&args, CALL_KEY("transA"), transa);
	add_operation(&args, CALL_KEY("transB"), transb);
	add_types(&args, types);
	add_flop(&args, types, m, n, k, batch);
	return library_call_begin(LIBRARY_CUBLAS, symbol, &args);
}

int cublas_begin_gemv(const struct real_symbol *symbol, uint32_t types,
		      int trans, int64_t m, int64_t n, int64_t batch)
{
	struct call_args args;

	args.len = 0;
	add_size(&args, CALL_KEY("m"), m);
	add_size(&args, CALL_KEY("n"), n);
	add_size(&args, CALL_KEY("batch"), batch);
	add_operation(&args, CALL_KEY("transA"), trans);
	add_types(&args, types);
	add_flop(&args, types, m, n, 1, batch);
	return library_call_begin(LIBRARY_CUBLAS, symbol, &args);
}

/* ---- Several shapes in one call ---- */

static int64_t group_value(const struct cublas_groups *groups,
			   const void *array, int64_t i)
{
	return groups->width == sizeof(int64_t) ? ((const int64_t *)array)[i] :
		((const int *)array)[i];
}

/* 4096 groups are 10 us; more have no sum. */
#define MAX_GROUPS 4096

static bool group_sums(const struct cublas_groups *groups, uint32_t types,
		       uint64_t *batch, uint64_t *flop)
{
	*batch = *flop = 0;
	if (groups->nr < 0 || groups->nr > MAX_GROUPS || !groups->m ||
	    !groups->n || !groups->k || !groups->sizes)
		return false;
	for (int64_t i = 0; i < groups->nr; i++) {
		int64_t factors[] = { flop_of_one(types),
			group_value(groups, groups->m, i),
			group_value(groups, groups->n, i),
			group_value(groups, groups->k, i),
			group_value(groups, groups->sizes, i) };
		uint64_t one;

		if (!call_product(&one, factors, 5) ||
		    __builtin_add_overflow(*flop, one, flop))
			return false;
		*batch += (uint64_t)factors[4];
	}
	return true;
}

int cublas_begin_grouped(const struct real_symbol *symbol, uint32_t types,
			 const struct cublas_groups *groups)
{
	struct call_args args;
	uint64_t batch, flop;

	args.len = 0;
	add_size(&args, CALL_KEY("groups"), groups->nr);
	add_types(&args, types);
	if (group_sums(groups, types, &batch, &flop)) {
		call_args_number(&args, CALL_KEY("batch"), batch);
		if (type_word(types & 255))
			call_args_number(&args, CALL_KEY("FLOP"), flop);
	}
	return library_call_begin(LIBRARY_CUBLAS, symbol, &args);
}

/* ---- cublasLtMatmul ---- */

const char *const cublas_lt_libraries[] = {
	"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", NULL,
};

#define GETTER(function) REAL_SYMBOL(function, cublas_lt_libraries)
typedef int get_attribute(void *object, int attribute, void *value,
			  size_t size, size_t *written);

/* cublasLtMatrixLayoutAttribute_t, cublasLtMatmulDescAttributes_t. */
enum { LAYOUT_TYPE = 0, LAYOUT_ROWS = 2, LAYOUT_COLS = 3, LAYOUT_BATCH = 5 };
enum { MATMUL_COMPUTE = 0, MATMUL_TRANSA = 3, MATMUL_TRANSB = 4 };

struct layout {
	int64_t rows, cols;
	int32_t batch;
	int32_t type;
};

/* -1 where it cannot be read. */
static int32_t read_int(get_attribute *get, void *object, int attribute)
{
	int32_t value;
	size_t written;

	return get && object && !get(object, attribute, &value, sizeof value,
				     &written) ? value : -1;
}

static int64_t read_long(get_attribute *get, void *object, int attribute)
{
	int64_t value;
	size_t written;

	return get && object && !get(object, attribute, &value, sizeof value,
				     &written) ? value : -1;
}

static struct layout read_layout(get_attribute *get, void *object)
{
	return (struct layout){
		.rows = read_long(get, object, LAYOUT_ROWS),
		.cols = read_long(get, object, LAYOUT_COLS),
		.batch = read_int(get, object, LAYOUT_BATCH),
		.type = read_int(get, object, LAYOUT_TYPE),
	};
}

int cublas_begin_matmul(const struct real_symbol *symbol,
			const struct cublas_matmul *matmul)
{
	static const struct real_symbol
		of_layout = GETTER("cublasLtMatrixLayoutGetAttribute"),
		of_matmul = GETTER("cublasLtMatmulDescGetAttribute");
	get_attribute *get = (get_attribute *)real_symbol_find(&of_layout,
		matmul->caller);
	get_attribute *ask = (get_attribute *)real_symbol_find(&of_matmul,
		matmul->caller);
	struct layout a = read_layout(get, matmul->a),
		b = read_layout(get, matmul->b),
		d = read_layout(get, matmul->d);
	int transa = read_int(ask, matmul->operation, MATMUL_TRANSA);
	int transb = read_int(ask, matmul->operation, MATMUL_TRANSB);
	uint32_t compute = cublas_type(read_int(ask, matmul->operation,
						MATMUL_COMPUTE));

	return cublas_begin_gemm(symbol,
		cublas_types(a.type, b.type, d.type, compute), transa, transb,
		d.rows, d.cols, transa < 0 ? -1 : transa ? a.rows : a.cols,
		d.batch);
}
