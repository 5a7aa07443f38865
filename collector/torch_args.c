/* SPDX-License-Identifier: MIT */
#include "collector/torch_api.h"

#include <string.h>

#include "collector/decimal.h"

/*
 * What PyTorch says of an operator, as members of a JSON object, with the keys
 * of its own profiler:
 *
 *   "Sequence number":7,"Input Dims":[[2,3],[]],"Input type":["float","Scalar"]
 *
 * An input is a c10::IValue: 8 bytes, the value or a pointer to it, and what
 * it is.  A tensor is a pointer to its c10::TensorImpl, where its sizes are an
 * at most 5 long array, or a pointer to a longer one.
 */
enum { INPUTS_MAX = 24, DIMS_MAX = 16, DIMS_INSIDE = 5 };
enum { TAG_TENSOR = 1, TAG_DOUBLE = 3, TAG_INT = 5 };

struct value {
	union {
		const void *tensor;
		int64_t number;
	};
	uint32_t tag;
	uint32_t reserved;
};

struct values {
	const struct value *value;
	size_t nr;
};

struct sizes {
	size_t nr;
	union {
		const int64_t *outside;
		int64_t inside[DIMS_INSIDE];
	};
};

/* at::ScalarType, by the names that the profiler writes.  (Their numbers never
 * change: they are in files.) */
static const char *const types[] = {
	"unsigned char", "signed char", "short", "int", "long int", "c10::Half",
	"float", "double", "c10::complex<c10::Half>", "c10::complex<float>",
	"c10::complex<double>", "bool", "c10::qint8", "c10::quint8",
	"c10::qint32", "c10::BFloat16",
};
enum { NR_TYPES = sizeof types / sizeof *types, TYPE_E5M2 = 23 };
static const char *const eights[] = {
	"c10::Float8_e5m2", "c10::Float8_e4m3fn",
};

/* ---- Text that may not fit: then the whole member is taken back ---- */

struct text {
	char *at, *end;
};

static void add(struct text *text, const char *what, size_t len)
{
	if (!text->at || len > (size_t)(text->end - text->at)) {
		text->at = NULL;
		return;
	}
	memcpy(text->at, what, len);
	text->at += len;
}

static void add_word(struct text *text, const char *word)
{
	add(text, word, strlen(word));
}

static void add_number(struct text *text, int64_t number)
{
	uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
	char digits[DECIMAL_MAX];

	if (number < 0)
		add(text, "-", 1);
	add(text, digits, decimal_put(digits, rest));
}

static void add_member(struct text *text, bool is_first, const char *key)
{
	add_word(text, is_first ? "\"" : ",\"");
	add_word(text, key);
	add_word(text, "\":");
}

/* ---- Inputs ---- */

static const char *type_of(const struct torch_api *api,
			   const struct value *value)
{
	const void *tensor = value->tensor;
	uint16_t type;

	if (value->tag == TAG_DOUBLE || value->tag == TAG_INT)
		return "Scalar";
	if (value->tag != TAG_TENSOR || !tensor)
		return "";
	memcpy(&type, torch_at(tensor, api->layout->type), sizeof type);
	if (type < NR_TYPES)
		return types[type];
	type = (uint16_t)(type - TYPE_E5M2);
	return type < sizeof eights / sizeof *eights ? eights[type] : "";
}

/* An undefined tensor has no type, and no sizes. */
static void add_sizes(struct text *text, const struct torch_api *api,
		      const struct value *value)
{
	const struct sizes *sizes;
	const int64_t *size;

	add_word(text, "[");
	if (value->tag == TAG_TENSOR && *type_of(api, value)) {
		sizes = torch_at(value->tensor, api->layout->sizes);
		size = sizes->nr > DIMS_INSIDE ? sizes->outside :
			sizes->inside;
		for (size_t i = 0; i < sizes->nr && i < DIMS_MAX; i++) {
			if (i)
				add_word(text, ",");
			add_number(text, size[i]);
		}
	}
	add_word(text, "]");
}

static void add_inputs(struct text *text, const struct torch_api *api,
		       const struct values *inputs, bool is_first)
{
	add_member(text, is_first, "Input Dims");
	for (size_t i = 0; i < inputs->nr; i++) {
		add_word(text, i ? "," : "[");
		add_sizes(text, api, &inputs->value[i]);
	}
	add_word(text, "]");
	add_member(text, false, "Input type");
	for (size_t i = 0; i < inputs->nr; i++) {
		add_word(text, i ? ",\"" : "[\"");
		add_word(text, type_of(api, &inputs->value[i]));
		add_word(text, "\"");
	}
	add_word(text, "]");
}

static int64_t number_at(const void *function, size_t offset)
{
	int64_t number;

	memcpy(&number, torch_at(function, offset), sizeof number);
	return number;
}

static int64_t forward_of(const struct torch_api *api, const void *function)
{
	return api->layout->forward ?
		number_at(function, api->layout->forward - api->shift) : 0;
}

size_t torch_args(const struct torch_api *api, const void *function,
		  char *out, size_t size)
{
	int64_t sequence = number_at(function, TORCH_SEQUENCE - api->shift);
	int64_t forward = forward_of(api, function);
	const struct values *inputs = torch_at(function, TORCH_INPUTS -
					       api->shift);
	struct text text = { out, out + size };
	char *kept;

	/* Together they name the forward function of a backward one. */
	if (sequence >= 0) {
		add_member(&text, true, "Sequence number");
		add_number(&text, sequence);
	}
	if (sequence >= 0 && forward > 0) {
		add_member(&text, false, "Fwd thread id");
		add_number(&text, forward);
	}
	kept = text.at ? text.at : out;
	if (inputs->nr && inputs->nr <= INPUTS_MAX && api->layout->sizes)
		add_inputs(&text, api, inputs, kept == out);
	return (size_t)((text.at ? text.at : kept) - out);
}
