/* SPDX-License-Identifier: MIT */
#include "collector/python.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "collector/log.h"
#include "collector/peek.h"
#include "collector/pin.h"
#include "collector/python_interpreter.h"
#include "collector/python_lines.h"
#include "collector/python_loop.h"
#include "collector/python_text.h"

/* Frames that are not told (calls of the loop from C, functions not begun):
 * seldom more than those that are.  Bounds the walk round a ring of garbage. */
#define STEPS_MAX (4 * PYTHON_FRAMES_MAX)

/* Bytes of tables of lines a walk: 256 KiB are read in 0.3 ms, and are the
 * tables of 64 functions of 500 lines each. */
#define LINES_MAX (256u << 10)

/* Who owns a frame's memory. */
enum { OWNER_THREAD, OWNER_GENERATOR, OWNER_OBJECT, OWNER_C };

/* What is known of the interpreter; written once, before `is_known`. */
static struct python_interpreter python;
static _Atomic bool is_known;
/* And of its loop, which few ask for. */
static struct code_range loop[2];
static _Atomic bool has_loop;
/* For whoever looks first. */
static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;

/* ---- Finding the interpreter ---- */

#define SYMBOLS(X) \
	X(version, "Py_GetVersion") \
	X(runtime, "_PyRuntime") \
	X(this_thread, "PyGILState_GetThisThreadState") \
	X(is_initialized, "Py_IsInitialized") \
	X(loop, "_PyEval_EvalFrameDefault") \
	X(code_type, "PyCode_Type") \
	X(text_type, "PyUnicode_Type") \
	X(bytes_type, "PyBytes_Type") \
	X(cell_type, "PyCell_Type")

struct symbols {
#define X(field, name) void *field;
	SYMBOLS(X)
#undef X
};

static bool find_symbols(struct symbols *symbols, void *handle)
{
#define X(field, name) symbols->field = dlsym(handle, name);
	SYMBOLS(X)
#undef X
	return symbols->version && symbols->runtime && symbols->this_thread &&
	       symbols->is_initialized && symbols->loop &&
	       symbols->code_type && symbols->text_type &&
	       symbols->bytes_type && symbols->cell_type;
}

static int take_library(struct dl_phdr_info *info, size_t size, void *path)
{
	const char *base = strrchr(info->dlpi_name, '/');

	(void)size;
	if (!base || strncmp(base, "/libpython3.", 12) ||
	    strlen(info->dlpi_name) >= PATH_MAX)
		return 0;
	strcpy(path, info->dlpi_name);
	return 1;
}

/* In the program and its libraries, or in one that a plugin brought along for
 * itself. */
static bool find_interpreter(struct symbols *symbols)
{
	char path[PATH_MAX] = "";
	void *library;

	if (find_symbols(symbols, RTLD_DEFAULT))
		return true;
	dl_iterate_phdr(take_library, path);
	library = path[0] ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	return library && find_symbols(symbols, library);
}

/* "3.12.1 (main, ...": 12; 0 for others and for what is not released yet,
 * whose structures still change ("3.14.0a1", "3.14.0b2+"). */
static unsigned int minor_version(const char *text)
{
	char *end;
	unsigned long minor;

	if (strncmp(text, "3.", 2))
		return 0;
	minor = strtoul(text + 2, &end, 10);
	if (*end == '.')
		strtoul(end + 1, &end, 10);
	if (*end == 'a' || *end == 'b' || minor > 255)
		return 0;
	return (unsigned int)minor;
}

static int learn(const struct symbols *symbols, const char *version,
		 const char **why)
{
	int err;

	python.types.code = (uintptr_t)symbols->code_type;
	python.types.text = (uintptr_t)symbols->text_type;
	python.types.bytes = (uintptr_t)symbols->bytes_type;
	python.types.cell = (uintptr_t)symbols->cell_type;
	err = python_layout_find(&python.layout, minor_version(version),
				 (uintptr_t)symbols->runtime, &python.types,
				 why);
	if (err)
		return err;
	(void)pin_library(symbols->runtime);
	python.is_initialized = (int (*)(void))symbols->is_initialized;
	python.loop = (uintptr_t)symbols->loop;
	/* The first call may go through the loader. */
	python.this_thread = (void *(*)(void))symbols->this_thread;
	python.this_thread();
	return 0;
}

static int look(void)
{
	struct symbols symbols;
	const char *version, *why = "its frames are recorded";
	int err;

	if (atomic_load_explicit(&is_known, memory_order_acquire))
		return 0;
	if (!find_interpreter(&symbols)) {
		log_line(LOG_INFO, "Python: no CPython in this process");
		return -ENOENT;
	}
	if (!peek_works()) {
		log_line(LOG_INFO, "Python: no frames: this system does not "
			 "tell what memory can be read");
		return -ENOSYS;
	}
	version = ((const char *(*)(void))symbols.version)();
	err = learn(&symbols, version, &why);
	log_line(LOG_INFO, "Python %.*s: %s", (int)strcspn(version, " "),
		 version, why);
	if (!err) /* Pairs with the acquire loads in this file. */
		atomic_store_explicit(&is_known, true, memory_order_release);
	return err;
}

/* What native stacks need. */
static void look_for_loop(void)
{
	if (atomic_load_explicit(&has_loop, memory_order_relaxed))
		return;
	if (python_loop_find(python.loop, loop))
		log_line(LOG_INFO, "Python: no unwind table for its loop: its "
			 "frames are not put into native stacks");
	/* Pairs with the acquire load in python_is_eval_frame(). */
	atomic_store_explicit(&has_loop, true, memory_order_release);
}

int python_prepare_frames(void)
{
	int err;

	pthread_mutex_lock(&looking);
	err = look();
	pthread_mutex_unlock(&looking);
	return err;
}

int python_prepare(void)
{
	int err;

	pthread_mutex_lock(&looking);
	err = look();
	if (!err)
		look_for_loop();
	pthread_mutex_unlock(&looking);
	return err;
}

const struct python_interpreter *python_interpreter(void)
{
	return atomic_load_explicit(&is_known, memory_order_acquire) ?
		&python : NULL;
}

bool python_is_eval_frame(uintptr_t pc)
{
	return atomic_load_explicit(&has_loop, memory_order_acquire) &&
	       (pc - loop[0].start < loop[0].size ||
		pc - loop[1].start < loop[1].size);
}

/* ---- Walking ---- */

struct frame {
	uintptr_t address, code, back, instr;
	uint8_t owner;
	uint8_t is_entry;       /* 3.11: its call of the loop began with it */
};

struct walk {
	struct peek peek;
	struct python_text text;
	uint64_t ends;
	uint32_t lines_left;
	int nr;
};

uintptr_t python_first_frame(struct peek *peek)
{
	const struct python_layout *layout = &python.layout;
	uintptr_t state = (uintptr_t)python.this_thread(), frame;

	if (!state || !peek_word(peek, state + layout->state, &frame))
		return 0;
	if (layout->run != PYTHON_NONE &&
	    (!frame || !peek_word(peek, frame + layout->run, &frame)))
		return 0;
	return frame;
}

static bool read_frame(struct walk *walk, uintptr_t address,
		       struct frame *frame)
{
	const struct python_layout *layout = &python.layout;
	struct peek *peek = &walk->peek;
	int32_t last;

	frame->address = address;
	frame->owner = OWNER_THREAD;
	frame->is_entry = 0;
	if (address % sizeof(void *) ||
	    !peek_word(peek, address + layout->code, &frame->code) ||
	    !peek_word(peek, address + layout->back, &frame->back))
		return false;
	/* 3.14 keeps marks in the low bits of a reference. */
	frame->code &= ~(uintptr_t)7;
	if (layout->owner == PYTHON_NONE) {
		if (!peek_copy(peek, &last, address + layout->instr, 4))
			return false;
		frame->instr = (uintptr_t)(intptr_t)last;
		return true;
	}
	return peek_word(peek, address + layout->instr, &frame->instr) &&
	       peek_copy(peek, &frame->owner, address + layout->owner, 1) &&
	       peek_copy(peek, &frame->is_entry, address + layout->owner - 1,
			 1);
}

/* How many bytes into its code the frame is. */
static int64_t frame_at(const struct frame *frame)
{
	const struct python_layout *layout = &python.layout;

	if (layout->minor == 9)
		return (intptr_t)frame->instr;
	if (layout->minor == 10)
		return 2 * (intptr_t)frame->instr;
	return (intptr_t)(frame->instr - frame->code - layout->bytes);
}

/* A call of the loop from C, which has a frame of its own since 3.12. */
static bool is_call(const struct frame *frame)
{
	return python.layout.minor >= 12 && frame->owner >= OWNER_C;
}

/* Not begun: its arguments are still being put in place. */
static bool is_incomplete(struct walk *walk, const struct frame *frame)
{
	const struct python_layout *layout = &python.layout;
	int32_t first;

	if (layout->owner == PYTHON_NONE || frame->owner == OWNER_GENERATOR)
		return false;
	return !peek_copy(&walk->peek, &first,
			  frame->code + layout->bytes - 16, sizeof(first)) ||
	       frame_at(frame) < 2 * (int64_t)first;
}

static bool is_code(struct walk *walk, uintptr_t object)
{
	uintptr_t type;

	return peek_word(&walk->peek, object + PYTHON_OBJECT_TYPE, &type) &&
	       type == python.types.code;
}

static void put_string(struct walk *walk, uintptr_t field, bool is_file)
{
	uintptr_t object = 0;

	peek_word(&walk->peek, field, &object);
	python_text_string(&walk->text, &walk->peek, &python.layout,
			   python.types.text, object, is_file);
}

static void mark_end(struct walk *walk)
{
	if (walk->nr)
		walk->ends |= UINT64_C(1) << (walk->nr - 1);
}

/* The loop's own frame, linked already and without its owner: a compiler may
 * store that last.  Seen with 3.12, one walk of 10,000. */
static bool is_new_call(const struct walk *walk, size_t start)
{
	static const char file[] = "<shim>";

	return python.layout.minor >= 12 &&
	       walk->text.len - start == sizeof file - 1 &&
	       !memcmp(walk->text.text + start, file, sizeof file - 1);
}

/* False when the text is full. */
static bool put_frame(struct walk *walk, const struct frame *frame)
{
	const struct python_layout *layout = &python.layout;
	size_t start = walk->text.len;
	int line = python_line(&walk->peek, layout, python.types.bytes,
			       frame->code, frame_at(frame),
			       &walk->lines_left);

	put_string(walk, frame->code + layout->file, true);
	if (is_new_call(walk, start)) {
		walk->text.len = start;
		mark_end(walk);
		return true;
	}
	python_text_byte(&walk->text, ':');
	python_text_number(&walk->text, line > 0 ? (unsigned int)line : 0);
	python_text_byte(&walk->text, ' ');
	put_string(walk, frame->code + layout->name, false);
	python_text_byte(&walk->text, '\n');
	if (walk->text.is_full)
		walk->text.len = start;
	else
		walk->nr++;
	return !walk->text.is_full;
}

static void walk_frames(struct walk *walk)
{
	struct frame frame;
	uintptr_t next;
	int steps;

	next = python_first_frame(&walk->peek);
	for (steps = 0; next && steps < STEPS_MAX; steps++, next = frame.back) {
		if (!read_frame(walk, next, &frame))
			return;
		if (is_call(&frame)) {
			mark_end(walk);
			continue;
		}
		if (!is_code(walk, frame.code))
			return;
		if (!is_incomplete(walk, &frame)) {
			if (walk->nr == PYTHON_FRAMES_MAX ||
			    !put_frame(walk, &frame))
				return;
		}
		if (python.layout.minor < 11 ||
		    (python.layout.minor == 11 && frame.is_entry))
			mark_end(walk);
	}
}

int python_walk_calls(char *text, size_t size, uint64_t *ends)
{
	struct walk walk = { .text = { text, size - 1, 0, false },
			     .lines_left = LINES_MAX };
	int saved = errno;

	*ends = 0;
	if (!size)
		return 0;
	/* Pairs with the release store in python_prepare(). */
	if (atomic_load_explicit(&is_known, memory_order_acquire))
		walk_frames(&walk);
	text[walk.text.len] = '\0';
	*ends = walk.ends;
	errno = saved;
	return walk.nr;
}

int python_walk(char *text, size_t size)
{
	uint64_t ends;

	return python_walk_calls(text, size, &ends);
}
