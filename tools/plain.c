/* SPDX-License-Identifier: MIT */
#include "tools/plain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/utf8.h"

/* Marks that turn the direction of the text around them. */
static bool turns_text(const char *at, unsigned len)
{
	const unsigned char *b = (const unsigned char *)at;

	return len == 3 && b[0] == 0xe2 &&
		((b[1] == 0x80 && (b[2] == 0x8e || b[2] == 0x8f ||
				   (b[2] >= 0xa8 && b[2] <= 0xae))) ||
		 (b[1] == 0x81 && b[2] >= 0xa6 && b[2] <= 0xa9));
}

/* U+0080 to U+009F steer terminals as well. */
static bool is_control(const char *at, unsigned len)
{
	unsigned char c = *at;

	return c < 0x20 || c == 0x7f ||
		(len == 2 && c == 0xc2 && (unsigned char)at[1] < 0xa0);
}

bool plain_is(const char *at, unsigned len)
{
	return len && !is_control(at, len) && !turns_text(at, len);
}

void plain_make(char *text, size_t size)
{
	char *copy = strdup(text);
	size_t len = copy ? strlen(copy) : 0, at = 0, out = 0;

	while (at < len && out + 5 < size) {
		unsigned n = utf8_char(copy + at, len - at);

		if (plain_is(copy + at, n)) {
			memcpy(text + out, copy + at, n);
			out += n;
			at += n;
			continue;
		}
		out += (size_t)sprintf(text + out, "\\x%02x",
				       (unsigned char)copy[at++]);
	}
	text[out] = '\0';
	free(copy);
}
