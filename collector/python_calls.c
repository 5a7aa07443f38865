/* SPDX-License-Identifier: MIT */
#include "collector/python_calls.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "collector/python.h"
#include "collector/python_interpreter.h"

/* Frames of one look: also ends a ring of garbage. */
#define STEPS_MAX 512

/* In 3.14 the low bits of a reference are marks. */
#define OBJECT(word) ((word) & ~(uintptr_t)7)

static const struct python_interpreter *python;
static const struct python_function *sought;

int python_calls_prepare(const struct python_function *function)
{
	int error = python_prepare_frames();

	if (error)
		return error;
	sought = function;
	python = python_interpreter();
	return 0;
}

bool python_calls_are_exact(void)
{
	return python->layout.minor <= 13;
}

uintptr_t python_calls_top(struct peek *peek)
{
	return python->is_initialized() ? python_first_frame(peek) : 0;
}

/* ---- Whose code is it? ---- */

/* Code objects that were met, with bit 0 for those of the function: of some
 * hundreds in a program, few share a place, and are looked at again. */
enum { NR_CODES = 8192, IS_SOUGHT = 1 };
static _Atomic uintptr_t codes[NR_CODES];

/* A string of ASCII characters that is `text`, or ends so. */
static bool reads(struct peek *peek, uintptr_t object, const char *text,
		  bool is_end)
{
	const struct python_layout *layout = &python->layout;
	size_t size = strlen(text);
	uintptr_t type, len;
	uint32_t state;
	char found[64];

	if (!peek_word(peek, object + PYTHON_OBJECT_TYPE, &type) ||
	    type != python->types.text ||
	    !peek_word(peek, object + PYTHON_OBJECT_SIZE, &len) ||
	    !peek_copy(peek, &state, object + PYTHON_TEXT_STATE,
		       sizeof state) || (state & 96) != 96)
		return false;
	if (size > sizeof found || (is_end ? len < size : len != size))
		return false;
	return peek_copy(peek, found, object + layout->ascii + len - size,
			 size) && !memcmp(found, text, size);
}

static bool look_at_code(struct peek *peek, uintptr_t code)
{
	const struct python_layout *layout = &python->layout;
	const char *name = layout->minor < 11 ? sought->name :
		sought->qualified;
	uintptr_t type, object;

	return peek_word(peek, code + PYTHON_OBJECT_TYPE, &type) &&
	       type == python->types.code &&
	       peek_word(peek, code + layout->name, &object) &&
	       reads(peek, object, name, false) &&
	       peek_word(peek, code + layout->file, &object) &&
	       reads(peek, object, sought->file, true);
}

/* One that is gone may leave its place to another's: what is believed to be the
 * function's is looked at each time, in the end by its name alone. */
static bool is_still(struct peek *peek, uintptr_t code)
{
	static _Atomic uintptr_t last_name;
	uintptr_t name;

	if (!peek_word(peek, code + python->layout.name, &name))
		return false;
	if (name == atomic_load_explicit(&last_name, memory_order_relaxed))
		return true;
	if (!look_at_code(peek, code))
		return false;
	atomic_store_explicit(&last_name, name, memory_order_relaxed);
	return true;
}

static inline bool is_sought(struct peek *peek, uintptr_t code)
{
	_Atomic uintptr_t *place = &codes[(code >> 4 ^ code >> 17) % NR_CODES];
	uintptr_t seen = atomic_load_explicit(place, memory_order_relaxed);

	if (seen == code)
		return false;
	if (seen == (code | IS_SOUGHT))
		return is_still(peek, code);
	if (!look_at_code(peek, code)) {
		atomic_store_explicit(place, code, memory_order_relaxed);
		return false;
	}
	atomic_store_explicit(place, code | IS_SOUGHT, memory_order_relaxed);
	return true;
}

/* ---- What it was called with ---- */

/* 3.9 and 3.10 move an argument that an inner function sees into a cell behind
 * all local variables, in the order of co_cellvars. */
static bool find_cell(struct peek *peek, uintptr_t frame, uintptr_t code,
		      unsigned int argument, uintptr_t *cell)
{
	uintptr_t names, cells, nr, name, other, i;
	uint32_t nr_locals;

	if (!peek_copy(peek, &nr_locals, code + PYTHON_CODE_NR_LOCALS,
		       sizeof nr_locals) || nr_locals > 4096 ||
	    !peek_word(peek, code + PYTHON_CODE_LOCALS, &names) ||
	    !peek_word(peek, names + PYTHON_TUPLE_ITEMS + 8 * argument,
		       &name) ||
	    !peek_word(peek, code + PYTHON_CODE_CELLS, &cells) ||
	    !peek_word(peek, cells + PYTHON_OBJECT_SIZE, &nr))
		return false;
	for (i = 0; i < nr && i < 64; i++) {
		if (!peek_word(peek, cells + PYTHON_TUPLE_ITEMS + 8 * i,
			       &other))
			return false;
		if (other == name)
			return peek_word(peek, frame + python->layout.locals +
					 8 * (nr_locals + i), cell);
	}
	return false;
}

/* 0: there is none.  From 3.11 on a cell is in the argument's own place. */
static uintptr_t argument_of(struct peek *peek, uintptr_t frame,
			     uintptr_t code, unsigned int argument)
{
	uintptr_t object, type;

	if (!peek_word(peek, frame + python->layout.locals + 8 * argument,
		       &object))
		return 0;
	object = OBJECT(object);
	if (!object && (python->layout.minor > 10 ||
			!find_cell(peek, frame, code, argument, &object)))
		return 0;
	if (!peek_word(peek, object + PYTHON_OBJECT_TYPE, &type))
		return 0;
	if (type != python->types.cell)
		return object;
	return peek_word(peek, object + PYTHON_CELL_CONTENT, &object) ?
		object : 0;
}

static uint64_t serial_of(struct peek *peek, uintptr_t frame, uintptr_t code)
{
	bool is_exact = python_calls_are_exact();
	uintptr_t object = argument_of(peek, frame, code, is_exact ? 2 : 1);
	uintptr_t serial;

	if (!object || !peek_word(peek, object + (is_exact ?
			PYTHON_DICT_VERSION : PYTHON_TUPLE_ITEMS_314), &serial))
		return 0;
	return serial;
}

/* ---- Walking ---- */

int python_calls_walk(struct peek *peek, uintptr_t frame,
		      struct python_call *calls, int max,
		      bool (*stop)(const struct python_call *call, void *of),
		      void *of)
{
	const struct python_layout *layout = &python->layout;
	struct python_call call = { 0 };
	uintptr_t code;
	int nr = 0;

	for (int i = 0; frame && i < STEPS_MAX && nr < max; i++) {
		if (!peek_word(peek, frame + layout->code, &code))
			break;
		code = OBJECT(code);
		if (is_sought(peek, code)) {
			call.frame = frame;
			call.serial = serial_of(peek, frame, code);
			if (stop(&call, of))
				break;
			call.self = argument_of(peek, frame, code, 0);
			calls[nr++] = call;
		}
		if (!peek_word(peek, frame + layout->back, &frame))
			break;
	}
	return nr;
}
