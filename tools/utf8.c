/* SPDX-License-Identifier: MIT */
#include "tools/utf8.h"

#include <stdbool.h>

static bool is_tail(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

unsigned utf8_char(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;

	if (!len)
		return 0;
	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		return len > 1 && is_tail(s[1]) ? 2 : 0;
	if (s[0] >= 0xe0 && s[0] <= 0xef) {
		if (len < 3 || !is_tail(s[1]) || !is_tail(s[2]))
			return 0;
		if (s[0] == 0xe0 && s[1] < 0xa0)
			return 0;
		return s[0] == 0xed && s[1] > 0x9f ? 0 : 3;
	}
	if (s[0] >= 0xf0 && s[0] <= 0xf4) {
		if (len < 4 || !is_tail(s[1]) || !is_tail(s[2]) ||
		    !is_tail(s[3]))
			return 0;
		if (s[0] == 0xf0 && s[1] < 0x90)
			return 0;
		return s[0] == 0xf4 && s[1] > 0x8f ? 0 : 4;
	}
	return 0;
}

size_t utf8_valid(const char *text, size_t len)
{
	size_t i = 0;

	while (i < len) {
		unsigned n = utf8_char(text + i, len - i);

		if (!n)
			break;
		i += n;
	}
	return i;
}

unsigned utf8_encode(uint32_t c, char out[4])
{
	if (c < 0x80) {
		out[0] = c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = 0xc0 | c >> 6;
		out[1] = 0x80 | (c & 0x3f);
		return 2;
	}
	if (c < 0x10000) {
		out[0] = 0xe0 | c >> 12;
		out[1] = 0x80 | (c >> 6 & 0x3f);
		out[2] = 0x80 | (c & 0x3f);
		return 3;
	}
	out[0] = 0xf0 | c >> 18;
	out[1] = 0x80 | (c >> 12 & 0x3f);
	out[2] = 0x80 | (c >> 6 & 0x3f);
	out[3] = 0x80 | (c & 0x3f);
	return 4;
}
