/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_PYTHON_LINES_H
#define GPUTRACE_COLLECTOR_PYTHON_LINES_H

#include <stdint.h>

#include "collector/peek.h"
#include "collector/python_layout.h"

/*
 * The line of source of an instruction, from the code object's table of lines:
 *
 *   3.9    pairs: how many bytes of code on, how many lines on (signed);
 *          the line is that of the last pair that is not beyond
 *   3.10   pairs: bytes of code that it covers, lines on (signed, -128: these
 *          bytes have no line)
 *   3.11   entries of 1 + n bytes, the first with bit 7 set:
 *          1 kkkk lll: covers l + 1 code units of 2 bytes; lines on, by kind:
 *            0..9 none, 10..12 k - 10, 13 and 14 a signed number in groups of
 *            6 bits (lowest first, bit 6: more follow), 15: no line
 */

/* at: bytes into the code.  *budget: bytes of tables that may still be read.
 * Returns 0 if there is none or it cannot be told.
 * Context: signal-safe. */
int python_line(struct peek *peek, const struct python_layout *layout,
		uintptr_t bytes_type, uintptr_t code, int64_t at,
		uint32_t *budget);

#endif
