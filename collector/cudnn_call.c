/* SPDX-License-Identifier: MIT */
#include "collector/cudnn_call.h"

#include <stddef.h>

/* 9 and 8 are made of parts; a program may be linked to one alone. */
const char *const cudnn_libraries[] = {
	"libcudnn.so.9", "libcudnn_graph.so.9", "libcudnn_ops.so.9",
	"libcudnn_cnn.so.9", "libcudnn_adv.so.9",
	"libcudnn.so.8", "libcudnn_ops_infer.so.8", "libcudnn_cnn_infer.so.8",
	"libcudnn_adv_infer.so.8", "libcudnn_ops_train.so.8",
	"libcudnn_cnn_train.so.8", "libcudnn_adv_train.so.8", NULL,
};

#define GETTER(function) REAL_SYMBOL(function, cudnn_libraries)

/* cudnnDataType_t. */
static const struct call_word types[] = {
	CALL_WORD("FLOAT"), CALL_WORD("DOUBLE"), CALL_WORD("HALF"),
	CALL_WORD("INT8"), CALL_WORD("INT32"), CALL_WORD("INT8x4"),
	CALL_WORD("UINT8"), CALL_WORD("UINT8x4"), CALL_WORD("INT8x32"),
	CALL_WORD("BFLOAT16"), CALL_WORD("INT64"), CALL_WORD("BOOLEAN"),
	CALL_WORD("FP8_E4M3"), CALL_WORD("FP8_E5M2"),
	CALL_WORD("FAST_FLOAT_FOR_FP8"), CALL_WORD("FP8_E8M0"),
	CALL_WORD("FP4_E2M1"), CALL_WORD("INT4"), CALL_WORD("UINT4"),
	CALL_WORD("UINT32"), CALL_WORD("COMPLEX_FP32"),
	CALL_WORD("COMPLEX_FP64"),
};

static inline __attribute__((always_inline)) void
add_type(struct call_args *args, struct call_key key, int type)
{
	if (type >= 0 && type < (int)(sizeof types / sizeof *types))
		call_args_word(args, key, &types[type]);
}

/* ---- Dimensions ---- */

/* CUDNN_DIM_MAX. */
#define MAX_DIMS 8

struct dims {
	int nr;                         /* 0: not known */
	int type;
	int of[MAX_DIMS];
};

typedef int get_tensor(void *descriptor, int wanted, int *type, int *nr,
		       int *dims, int *strides);
typedef int get_filter(void *descriptor, int wanted, int *type, int *format,
		       int *nr, int *dims);

static bool is_sane(const struct dims *dims)
{
	return dims->nr > 0 && dims->nr <= MAX_DIMS;
}

static struct dims tensor_dims(const void *caller, void *descriptor)
{
	static const struct real_symbol getter =
		GETTER("cudnnGetTensorNdDescriptor");
	get_tensor *get = descriptor ?
		(get_tensor *)real_symbol_find(&getter, caller) : NULL;
	struct dims dims = { .nr = 0 };
	int strides[MAX_DIMS];

	if (!get || get(descriptor, MAX_DIMS, &dims.type, &dims.nr, dims.of,
			strides) || !is_sane(&dims))
		dims.nr = 0;
	return dims;
}

static struct dims filter_dims(const void *caller, void *descriptor)
{
	static const struct real_symbol getter =
		GETTER("cudnnGetFilterNdDescriptor");
	get_filter *get = descriptor ?
		(get_filter *)real_symbol_find(&getter, caller) : NULL;
	struct dims dims = { .nr = 0 };
	int format;

	if (!get || get(descriptor, MAX_DIMS, &dims.type, &format, &dims.nr,
			dims.of) || !is_sane(&dims))
		dims.nr = 0;
	return dims;
}

static inline __attribute__((always_inline)) void
add_dims(struct call_args *args, struct call_key key, const struct dims *dims)
{
	if (dims->nr)
		call_args_list(args, key, dims->of, (uint32_t)dims->nr);
}

int cudnn_begin_tensors(const struct real_symbol *symbol, const void *caller,
			void *x, void *y)
{
	struct dims of_x = tensor_dims(caller, x), of_y = tensor_dims(caller,
								      y);
	struct call_args args;

	args.len = 0;
	add_dims(&args, CALL_KEY("x"), &of_x);
	add_dims(&args, CALL_KEY("y"), &of_y);
	if (of_x.nr)
		add_type(&args, CALL_KEY("type"), of_x.type);
	return library_call_begin(LIBRARY_CUDNN, symbol, &args);
}

/* ---- Convolutions ---- */

typedef int get_convolution(void *descriptor, int wanted, int *nr, int *pad,
			    int *stride, int *dilation, int *mode, int *type);
typedef int get_groups(void *descriptor, int *groups);

static void add_convolution(struct call_args *args, const void *caller,
			    void *descriptor)
{
	static const struct real_symbol
		of_dims = GETTER("cudnnGetConvolutionNdDescriptor"),
		of_groups = GETTER("cudnnGetConvolutionGroupCount");
	get_convolution *get = (get_convolution *)real_symbol_find(&of_dims,
								   caller);
	get_groups *count = (get_groups *)real_symbol_find(&of_groups, caller);
	int nr, groups, mode, type;
	struct dims pad, stride, dilation;

	if (!descriptor)
		return;
	/* 6: it has the spatial ones, two less than a tensor. */
	if (get && !get(descriptor, MAX_DIMS - 2, &nr, pad.of, stride.of,
			dilation.of, &mode, &type) && nr > 0 &&
	    nr <= MAX_DIMS - 2) {
		pad.nr = stride.nr = dilation.nr = nr;
		add_dims(args, CALL_KEY("pad"), &pad);
		add_dims(args, CALL_KEY("stride"), &stride);
		add_dims(args, CALL_KEY("dilation"), &dilation);
		add_type(args, CALL_KEY("compute type"), type);
	}
	if (count && !count(descriptor, &groups) && groups > 0)
		call_args_number(args, CALL_KEY("groups"), (uint64_t)groups);
}

/* Each element of y is a sum over the channels of its group and the window:
 * all but the first dimension of w.  The gradients are of as many products. */
static void add_flop(struct call_args *args, const struct dims *w,
		     const struct dims *y)
{
	int64_t factors[2 * MAX_DIMS + 1] = { 2 };
	uint32_t nr = 1;
	uint64_t flop;
	int i;

	for (i = 0; i < y->nr; i++)
		factors[nr++] = y->of[i];
	for (i = 1; i < w->nr; i++)
		factors[nr++] = w->of[i];
	if (y->nr && w->nr && call_product(&flop, factors, nr))
		call_args_number(args, CALL_KEY("FLOP"), flop);
}

int cudnn_begin_convolution(const struct real_symbol *symbol,
			    const void *caller, enum cudnn_direction direction,
			    void *x, void *w, void *convolution, void *y)
{
	static const struct call_word directions[] = { CALL_WORD("forward"),
		CALL_WORD("backward data"), CALL_WORD("backward filter") };
	struct dims of_x = tensor_dims(caller, x), of_y = tensor_dims(caller,
								      y);
	struct dims of_w = filter_dims(caller, w);
	struct call_args args;

	args.len = 0;
	call_args_word(&args, CALL_KEY("direction"), &directions[direction]);
	add_dims(&args, CALL_KEY("x"), &of_x);
	add_dims(&args, CALL_KEY("w"), &of_w);
	add_dims(&args, CALL_KEY("y"), &of_y);
	if (of_x.nr)
		add_type(&args, CALL_KEY("type"), of_x.type);
	add_flop(&args, &of_w, &of_y);
	add_convolution(&args, caller, convolution);
	return library_call_begin(LIBRARY_CUDNN, symbol, &args);
}

/* ---- Plans ---- */

/* CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64. */
enum { PLAN_WORKSPACE = 402, TYPE_INT64 = 3 };

typedef int get_plan(void *descriptor, int name, int type, int64_t wanted,
		     int64_t *nr, void *values);

int cudnn_begin_plan(const struct real_symbol *symbol, const void *caller,
		     void *plan)
{
	static const struct real_symbol getter =
		GETTER("cudnnBackendGetAttribute");
	get_plan *get = (get_plan *)real_symbol_find(&getter, caller);
	int64_t nr = 0, bytes = -1;
	struct call_args args;

	args.len = 0;
	call_args_pointer(&args, CALL_KEY("plan"), plan);
	if (get && plan && !get(plan, PLAN_WORKSPACE, TYPE_INT64, 1, &nr,
				&bytes) && nr == 1 && bytes >= 0)
		call_args_number(&args, CALL_KEY("workspace bytes"),
				 (uint64_t)bytes);
	return library_call_begin(LIBRARY_CUDNN, symbol, &args);
}

/* ---- Attention and recurrent networks ---- */

static void add_sizes(struct call_args *args, const struct call_key *keys,
		      const int *values, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		if (values[i] > 0)
			call_args_number(args, keys[i], (uint64_t)values[i]);
}

/* cudnnGetAttnDescriptor: mode, heads, scale, three types, two dropouts, and
 * eleven sizes. */
enum { NR_ATTENTION = 11 };
typedef int get_attention(void *descriptor, unsigned *mode, int *heads,
			  double *scale, int *type, int *compute, int *math,
			  void **dropout, void **post_dropout, int *q, int *k,
			  int *v, int *q_projected, int *k_projected,
			  int *v_projected, int *o_projected, int *q_length,
			  int *k_length, int *batch, int *beams);

int cudnn_begin_attention(const struct real_symbol *symbol, const void *caller,
			  void *attention)
{
	static const struct real_symbol getter =
		GETTER("cudnnGetAttnDescriptor");
	const struct call_key keys[NR_ATTENTION] = {
		CALL_KEY("q size"), CALL_KEY("k size"), CALL_KEY("v size"),
		CALL_KEY("q projected"), CALL_KEY("k projected"),
		CALL_KEY("v projected"), CALL_KEY("o projected"),
		CALL_KEY("q max length"), CALL_KEY("k max length"),
		CALL_KEY("max batch"), CALL_KEY("max beams"),
	};
	get_attention *get = (get_attention *)real_symbol_find(&getter,
							       caller);
	int v[NR_ATTENTION], heads, type, compute, math;
	void *dropout, *post_dropout;
	struct call_args args;
	unsigned mode;
	double scale;

	args.len = 0;
	if (get && attention &&
	    !get(attention, &mode, &heads, &scale, &type, &compute, &math,
		 &dropout, &post_dropout, &v[0], &v[1], &v[2], &v[3], &v[4],
		 &v[5], &v[6], &v[7], &v[8], &v[9], &v[10])) {
		if (heads > 0)
			call_args_number(&args, CALL_KEY("heads"),
					 (uint64_t)heads);
		add_sizes(&args, keys, v, NR_ATTENTION);
		add_type(&args, CALL_KEY("type"), type);
		add_type(&args, CALL_KEY("compute type"), compute);
	}
	return library_call_begin(LIBRARY_CUDNN, symbol, &args);
}

typedef int get_rnn(void *descriptor, int *algorithm, int *cell, int *bias,
		    int *direction, int *input_mode, int *type, int *compute,
		    int *math, int32_t *input, int32_t *hidden,
		    int32_t *projected, int32_t *layers, void **dropout,
		    uint32_t *flags);
typedef int get_rnn_input(void *descriptor, int *type, int *layout,
			  int *length, int *batch, int *vector, int wanted,
			  int *lengths, void *fill);

static void add_rnn(struct call_args *args, const void *caller, void *rnn)
{
	static const struct real_symbol getter =
		GETTER("cudnnGetRNNDescriptor_v8");
	static const struct call_word cells[] = { CALL_WORD("RNN_RELU"),
		CALL_WORD("RNN_TANH"), CALL_WORD("LSTM"), CALL_WORD("GRU") };
	static const struct call_word directions[] = { CALL_WORD("one"),
		CALL_WORD("both") };
	get_rnn *get = (get_rnn *)real_symbol_find(&getter, caller);
	const struct call_key keys[] = { CALL_KEY("input size"),
		CALL_KEY("hidden size"), CALL_KEY("projected size"),
		CALL_KEY("layers") };
	int algorithm, cell, bias, direction, mode, type, compute, math;
	int32_t sizes[4];
	uint32_t flags;
	void *dropout;

	if (!get || !rnn ||
	    get(rnn, &algorithm, &cell, &bias, &direction, &mode, &type,
		&compute, &math, &sizes[0], &sizes[1], &sizes[2], &sizes[3],
		&dropout, &flags))
		return;
	if (cell >= 0 && cell < 4)
		call_args_word(args, CALL_KEY("cell"), &cells[cell]);
	call_args_word(args, CALL_KEY("directions"), &directions[!!direction]);
	add_sizes(args, keys, sizes, 4);
	add_type(args, CALL_KEY("type"), type);
	add_type(args, CALL_KEY("compute type"), compute);
}

static void add_rnn_input(struct call_args *args, const void *caller, void *x)
{
	static const struct real_symbol getter =
		GETTER("cudnnGetRNNDataDescriptor");
	get_rnn_input *get = (get_rnn_input *)real_symbol_find(&getter,
							       caller);
	const struct call_key keys[] = { CALL_KEY("max length"),
		CALL_KEY("batch"), CALL_KEY("vector size") };
	int type, layout, sizes[3], lengths[1];
	double fill;

	if (get && x && !get(x, &type, &layout, &sizes[0], &sizes[1],
			     &sizes[2], 0, lengths, &fill))
		add_sizes(args, keys, sizes, 3);
}

int cudnn_begin_rnn(const struct real_symbol *symbol, const void *caller,
		    void *rnn, void *x)
{
	struct call_args args;

	args.len = 0;
	add_rnn(&args, caller, rnn);
	add_rnn_input(&args, caller, x);
	return library_call_begin(LIBRARY_CUDNN, symbol, &args);
}
