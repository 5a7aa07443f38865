/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_PYTHON_LAYOUT_H
#define GPUTRACE_COLLECTOR_PYTHON_LAYOUT_H

#include <stdint.h>

/*
 * Where CPython's structures keep what a walk needs, in bytes; PYTHON_NONE:
 * the version has no such field.
 *
 *   state  thread state: the running frame; or where `run` is there,
 *   run    the record of the running call of the loop: its frame
 *   code, back, instr, owner
 *          frame: code object, caller's frame, place in the code (3.9 and
 *          3.10: an index, then: a pointer), who owns the frame's memory
 *   file, name, lines, first
 *          code object: file, (qualified) name, table of lines, first line
 *   bytes  code object: the instructions (3.11); 16 before them stands how
 *          many of them come before the function has really begun
 *   ascii, wide
 *          string: characters, if they are all ASCII or not
 *   locals frame: local variables, the arguments first
 *
 * 3.13 and 3.14 say most of it themselves, at the start of _PyRuntime; the
 * second list has the places there, counted in 8 bytes.
 */
#define PYTHON_NONE 0xffff

/*        minor state run          code back instr owner
 *        file name lines first bytes        ascii wide locals */
#define PYTHON_LAYOUTS(X) \
	X(9,  24, PYTHON_NONE, 32, 24, 104, PYTHON_NONE, \
	  104, 112, 120, 40, PYTHON_NONE, 48, 72, 360) \
	X(10, 24, PYTHON_NONE, 32, 24, 96, PYTHON_NONE, \
	  104, 112, 120, 40, PYTHON_NONE, 48, 72, 352) \
	X(11, 56, 8, 32, 48, 56, 69, \
	  112, 128, 136, 72, 184, 48, 72, 72) \
	X(12, 56, 0, 0, 8, 56, 70, \
	  112, 128, 136, 68, 192, 40, 56, 72)

/*        minor state code back instr owner file name lines first bytes ascii
 *        locals */
#define PYTHON_DEBUG_OFFSETS(X) \
	X(13, 23, 30, 29, 31, 33, 35, 37, 38, 39, 43, 70, 32) \
	X(14, 26, 33, 32, 34, 36, 40, 42, 43, 44, 48, 80, 35)

struct python_layout {
	uint16_t minor;
	uint16_t state, run;
	uint16_t code, back, instr, owner;
	uint16_t file, name, lines, first, bytes;
	uint16_t ascii, wide;
	uint16_t locals;
};

/* Objects of these types are what the fields must point to. */
struct python_types {
	uintptr_t code, text, bytes, cell;
};

/* The same in all versions. */
enum {
	PYTHON_OBJECT_TYPE = 8,
	PYTHON_OBJECT_SIZE = 16,        /* strings and bytes: their length */
	PYTHON_TEXT_STATE = 32,
	PYTHON_BYTES_DATA = 32,
	PYTHON_TYPE_MEMBERS = 240,
	PYTHON_MEMBER_SIZE = 40,
	PYTHON_MEMBER_OFFSET = 16,
	PYTHON_TYPE_NAME = 24,
	PYTHON_CELL_CONTENT = 16,
	PYTHON_DICT_VERSION = 24,       /* up to 3.13 */
	PYTHON_TUPLE_ITEMS = 24,        /* likewise; in 3.14: */
	PYTHON_TUPLE_ITEMS_314 = 32,
};

/* Code objects of 3.9 and 3.10. */
enum {
	PYTHON_CODE_NR_LOCALS = 28, PYTHON_CODE_LOCALS = 72,
	PYTHON_CODE_CELLS = 88,
};

/*
 * The layout of version 3.`minor`; `runtime`: where _PyRuntime lies.  Compared
 * with what the type of code objects says of its members, so that an
 * interpreter with changed structures is not taken for one that we know.
 * Returns 0 or -ENOTSUP, with why.
 * Context: as python_prepare().
 */
int python_layout_find(struct python_layout *layout, unsigned int minor,
		       uintptr_t runtime, const struct python_types *types,
		       const char **why);

#endif
