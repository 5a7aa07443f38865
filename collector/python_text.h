/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_PYTHON_TEXT_H
#define GPUTRACE_COLLECTOR_PYTHON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/peek.h"
#include "collector/python_layout.h"

/* Lines of text in a buffer of fixed size; a line that does not fit whole is
 * not there.  Context of all: signal-safe. */
struct python_text {
	char *text;
	size_t size, len;       /* size leaves room for the terminating 0 */
	bool is_full;
};

void python_text_byte(struct python_text *text, char byte);
void python_text_number(struct python_text *text, unsigned int number);

/*
 * A Python string as UTF-8; what would break a line or is no character (lone
 * surrogates) becomes '?'; so does an object that is no string.  Of a long one
 * 128 characters (512 if they are ASCII) are told: of a file's name what
 * python.h says, of others the start.
 */
void python_text_string(struct python_text *text, struct peek *peek,
			const struct python_layout *layout,
			uintptr_t text_type, uintptr_t object, bool is_file);

#endif
