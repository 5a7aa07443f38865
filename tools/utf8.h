/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_UTF8_H
#define GPUTRACE_TOOLS_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* How many bytes from the start are valid UTF-8 (RFC 3629: no overlong forms,
 * no surrogates, nothing above U+10FFFF). */
size_t utf8_valid(const char *text, size_t len);

/* The length of the valid character at text, or 0. */
unsigned utf8_char(const char *text, size_t len);

/* Writes a code point; returns 1 .. 4. */
unsigned utf8_encode(uint32_t c, char out[4]);

#endif
