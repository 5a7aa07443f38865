/* SPDX-License-Identifier: MIT */
/*
 * Compiled against the headers of one version of CPython: the rows of
 * collector/python_layout.h for it are what the headers say.  Exits 0, or says
 * what differs.
 */
#define Py_BUILD_CORE
#include <Python.h>
#include <frameobject.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <structmember.h>

#if PY_MINOR_VERSION >= 14
#include "internal/pycore_code.h"
#include "internal/pycore_interpframe_structs.h"
#include "internal/pycore_runtime.h"
#elif PY_MINOR_VERSION >= 11
#include "internal/pycore_code.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_runtime.h"
#endif

#include "collector/python_layout.h"

static int faults, rows;

static void is(const char *what, long got, long want)
{
	if (got == want)
		return;
	printf("%s is %ld, not %ld\n", what, want, got);
	faults++;
}
#define IS(got, want) is(#want, (long)(got), (long)(want))
#define AT(type, field) offsetof(type, field)

static void check_text(void)
{
	union {
		PyASCIIObject text;
		unsigned char bytes[sizeof(PyASCIIObject)];
	} it;
	unsigned int state;

	memset(&it, 0, sizeof(it));
	it.text.state.kind = 5;
	memcpy(&state, it.bytes + PYTHON_TEXT_STATE, sizeof(state));
	IS(state, 5 << 2);
	memset(&it, 0, sizeof(it));
	it.text.state.compact = 1;
	memcpy(&state, it.bytes + PYTHON_TEXT_STATE, sizeof(state));
	IS(state, 32);
	memset(&it, 0, sizeof(it));
	it.text.state.ascii = 1;
	memcpy(&state, it.bytes + PYTHON_TEXT_STATE, sizeof(state));
	IS(state, 64);
}

static void check_same(void)
{
	IS(PYTHON_OBJECT_TYPE, AT(PyObject, ob_type));
	IS(PYTHON_OBJECT_SIZE, AT(PyVarObject, ob_size));
	IS(PYTHON_OBJECT_SIZE, AT(PyASCIIObject, length));
	IS(PYTHON_BYTES_DATA, AT(PyBytesObject, ob_sval));
	IS(PYTHON_TYPE_MEMBERS, AT(PyTypeObject, tp_members));
	IS(PYTHON_MEMBER_SIZE, sizeof(PyMemberDef));
	IS(PYTHON_MEMBER_OFFSET, AT(PyMemberDef, offset));
	IS(PYTHON_TYPE_NAME, AT(PyTypeObject, tp_name));
	IS(PYTHON_CELL_CONTENT, AT(PyCellObject, ob_ref));
#if PY_MINOR_VERSION >= 14
	IS(PYTHON_TUPLE_ITEMS_314, AT(PyTupleObject, ob_item));
#else
	IS(PYTHON_TUPLE_ITEMS, AT(PyTupleObject, ob_item));
	IS(PYTHON_DICT_VERSION, AT(PyDictObject, ma_version_tag));
#endif
}

#if PY_MINOR_VERSION >= 13

static void check_row(int minor, int state, int code, int back, int instr,
		      int owner, int file, int name, int lines, int first,
		      int bytes, int ascii, int locals)
{
	if (minor != PY_MINOR_VERSION)
		return;
	rows++;
	IS(8, AT(_Py_DebugOffsets, version));
	IS(16, AT(_Py_DebugOffsets, free_threaded));
	IS(8 * state, AT(_Py_DebugOffsets, thread_state.current_frame));
	IS(8 * code, AT(_Py_DebugOffsets, interpreter_frame.executable));
	IS(8 * back, AT(_Py_DebugOffsets, interpreter_frame.previous));
	IS(8 * instr, AT(_Py_DebugOffsets, interpreter_frame.instr_ptr));
	IS(8 * owner, AT(_Py_DebugOffsets, interpreter_frame.owner));
	IS(8 * file, AT(_Py_DebugOffsets, code_object.filename));
	IS(8 * name, AT(_Py_DebugOffsets, code_object.qualname));
	IS(8 * lines, AT(_Py_DebugOffsets, code_object.linetable));
	IS(8 * first, AT(_Py_DebugOffsets, code_object.firstlineno));
	IS(8 * bytes, AT(_Py_DebugOffsets, code_object.co_code_adaptive));
	IS(8 * ascii, AT(_Py_DebugOffsets, unicode_object.asciiobject_size));
	IS(8 * locals, AT(_Py_DebugOffsets, interpreter_frame.localsplus));
	IS(sizeof(PyASCIIObject) + 16, sizeof(PyCompactUnicodeObject));
	IS(AT(PyCodeObject, co_code_adaptive) - 16,
	   AT(PyCodeObject, _co_firsttraceable));
}
#define ROWS PYTHON_DEBUG_OFFSETS

#else

#if PY_MINOR_VERSION >= 11
typedef _PyInterpreterFrame frame_type;
#define STATE AT(PyThreadState, cframe)
#define RUN AT(_PyCFrame, current_frame)
#define BACK previous
#define INSTR prev_instr
#define OWNER AT(frame_type, owner)
#define NAME co_qualname
#define BYTES AT(PyCodeObject, co_code_adaptive)
#define LOCALS localsplus
#else
typedef struct _frame frame_type;
#define STATE AT(PyThreadState, frame)
#define RUN PYTHON_NONE
#define BACK f_back
#define INSTR f_lasti
#define OWNER PYTHON_NONE
#define NAME co_name
#define BYTES PYTHON_NONE
#define LOCALS f_localsplus
#endif
#if PY_MINOR_VERSION >= 10
#define LINES co_linetable
#else
#define LINES co_lnotab
#endif

static void check_row(int minor, int state, int run, int code, int back,
		      int instr, int owner, int file, int name, int lines,
		      int first, int bytes, int ascii, int wide, int locals)
{
	if (minor != PY_MINOR_VERSION)
		return;
	rows++;
	IS(state, STATE);
	IS(run, RUN);
	IS(code, AT(frame_type, f_code));
	IS(back, AT(frame_type, BACK));
	IS(instr, AT(frame_type, INSTR));
	IS(owner, OWNER);
	IS(file, AT(PyCodeObject, co_filename));
	IS(name, AT(PyCodeObject, NAME));
	IS(lines, AT(PyCodeObject, LINES));
	IS(first, AT(PyCodeObject, co_firstlineno));
	IS(bytes, BYTES);
	IS(ascii, sizeof(PyASCIIObject));
	IS(wide, sizeof(PyCompactUnicodeObject));
	IS(locals, AT(frame_type, LOCALS));
#if PY_MINOR_VERSION < 11
	IS(PYTHON_CODE_NR_LOCALS, AT(PyCodeObject, co_nlocals));
	IS(PYTHON_CODE_LOCALS, AT(PyCodeObject, co_varnames));
	IS(PYTHON_CODE_CELLS, AT(PyCodeObject, co_cellvars));
#endif
#if PY_MINOR_VERSION >= 11
	IS(bytes - 16, AT(PyCodeObject, _co_firsttraceable));
#endif
#if PY_MINOR_VERSION == 11
	IS(owner - 1, AT(frame_type, is_entry));
#endif
}
#define ROWS PYTHON_LAYOUTS

#endif

int main(void)
{
#define X(...) check_row(__VA_ARGS__);
	ROWS(X)
#undef X
	IS(rows, 1);
	check_same();
	check_text();
	return faults != 0;
}
