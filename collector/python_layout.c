/* SPDX-License-Identifier: MIT */
#include "collector/python_layout.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "collector/peek.h"

static const struct python_layout layouts[] = {
#define X(...) { __VA_ARGS__ },
	PYTHON_LAYOUTS(X)
#undef X
};

/* Places in the interpreter's own table, in 8 bytes. */
static const struct debug_places {
	uint8_t minor;
	uint8_t state, code, back, instr, owner;
	uint8_t file, name, lines, first, bytes, ascii, locals;
} debug_places[] = {
#define X(...) { __VA_ARGS__ },
	PYTHON_DEBUG_OFFSETS(X)
#undef X
};

enum { DEBUG_COOKIE, DEBUG_VERSION, DEBUG_FREE_THREADED, NR_DEBUG = 96 };

static bool take(uint16_t *field, uint64_t offset)
{
	*field = (uint16_t)offset;
	return offset < 4096;
}

static bool take_all(struct python_layout *layout, const uint64_t *words,
		     const struct debug_places *at)
{
	layout->minor = at->minor;
	layout->run = PYTHON_NONE;
	return take(&layout->state, words[at->state]) &&
	       take(&layout->code, words[at->code]) &&
	       take(&layout->back, words[at->back]) &&
	       take(&layout->instr, words[at->instr]) &&
	       take(&layout->owner, words[at->owner]) &&
	       take(&layout->file, words[at->file]) &&
	       take(&layout->name, words[at->name]) &&
	       take(&layout->lines, words[at->lines]) &&
	       take(&layout->first, words[at->first]) &&
	       take(&layout->bytes, words[at->bytes]) &&
	       take(&layout->ascii, words[at->ascii]) &&
	       take(&layout->wide, words[at->ascii] + 16) &&
	       take(&layout->locals, words[at->locals]);
}

static int from_interpreter(struct python_layout *layout,
			    const struct debug_places *at, uintptr_t runtime,
			    struct peek *peek, const char **why)
{
	uint64_t words[NR_DEBUG];

	if (!peek_copy(peek, words, runtime, sizeof(words)) ||
	    memcmp(&words[DEBUG_COOKIE], "xdebugpy", 8) ||
	    words[DEBUG_VERSION] >> 16 != (0x300 | at->minor) ||
	    !take_all(layout, words, at)) {
		*why = "its table of offsets is not the one we know";
		return -ENOTSUP;
	}
	if (words[DEBUG_FREE_THREADED]) {
		*why = "free-threaded interpreters are not supported";
		return -ENOTSUP;
	}
	return 0;
}

static int find_version(struct python_layout *layout, unsigned int minor,
			uintptr_t runtime, struct peek *peek, const char **why)
{
	size_t i;

	for (i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
		if (layouts[i].minor == minor) {
			*layout = layouts[i];
			return 0;
		}
	for (i = 0; i < sizeof(debug_places) / sizeof(debug_places[0]); i++)
		if (debug_places[i].minor == minor)
			return from_interpreter(layout, &debug_places[i],
						runtime, peek, why);
	*why = "its version is not one we know (3.9 to 3.14)";
	return -ENOTSUP;
}

/* Where the type of code objects says that this member lies; -1: it has none
 * of that name. */
static int64_t member_offset(struct peek *peek, uintptr_t type,
			     const char *name)
{
	size_t size = strlen(name) + 1;
	uintptr_t member, text;
	int64_t offset;
	char found[32];
	int i;

	if (!peek_word(peek, type + PYTHON_TYPE_MEMBERS, &member))
		return -1;
	for (i = 0; i < 64; i++, member += PYTHON_MEMBER_SIZE) {
		if (!peek_word(peek, member, &text) || !text)
			break;
		if (peek_copy(peek, found, text, size) &&
		    !memcmp(found, name, size) &&
		    peek_copy(peek, &offset, member + PYTHON_MEMBER_OFFSET,
			      sizeof(offset)))
			return offset;
	}
	return -1;
}

int python_layout_find(struct python_layout *layout, unsigned int minor,
		       uintptr_t runtime, const struct python_types *types,
		       const char **why)
{
	struct peek peek = { 0 };
	int err = find_version(layout, minor, runtime, &peek, why);

	if (err)
		return err;
	if (member_offset(&peek, types->code, "co_filename") == layout->file &&
	    member_offset(&peek, types->code, "co_firstlineno") ==
		    layout->first)
		return 0;
	*why = "its structures are not those of its version (a debug build?)";
	return -ENOTSUP;
}
