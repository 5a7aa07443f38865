/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_PLAIN_H
#define GPUTRACE_TOOLS_PLAIN_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Paths, variables and command lines of a process may hold any bytes.  What a
 * terminal or JSON could take amiss (control characters, bytes that are no
 * UTF-8, marks that turn the direction of the text) becomes \xNN, in place.
 * Cut where `size`, the room at `text`, does not hold it.
 */
void plain_make(char *text, size_t size);

/* Is this character fit for a terminal?  len: its length, of utf8_char();
 * 0 is none. */
bool plain_is(const char *at, unsigned len);

#endif
