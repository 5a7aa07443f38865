/* SPDX-License-Identifier: MIT */
#include "collector/python_text.h"

#include <string.h>

#include "collector/decimal.h"

#define RAW_SIZE 512

/* A piece of a string: `nr` characters of `kind` bytes each. */
struct piece {
	uint32_t nr, kind;
	char raw[RAW_SIZE];
};

void python_text_byte(struct python_text *text, char byte)
{
	if (text->len >= text->size)
		text->is_full = true;
	else
		text->text[text->len++] = byte;
}

void python_text_number(struct python_text *text, unsigned int number)
{
	char digits[DECIMAL_MAX];
	uint32_t len = decimal_put(digits, number);

	for (uint32_t i = 0; i < len; i++)
		python_text_byte(text, digits[i]);
}

static void put_character(struct python_text *text, uint32_t c)
{
	if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 ||
	    (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
		c = '?';
	if (c < 0x80) {
		python_text_byte(text, (char)c);
		return;
	}
	if (c < 0x800) {
		python_text_byte(text, (char)(0xc0 | c >> 6));
	} else {
		if (c < 0x10000) {
			python_text_byte(text, (char)(0xe0 | c >> 12));
		} else {
			python_text_byte(text, (char)(0xf0 | c >> 18));
			python_text_byte(text, (char)(0x80 | (c >> 12 & 63)));
		}
		python_text_byte(text, (char)(0x80 | (c >> 6 & 63)));
	}
	python_text_byte(text, (char)(0x80 | (c & 63)));
}

static uint32_t character(const struct piece *piece, uint32_t i)
{
	uint32_t wide;
	uint16_t half;

	switch (piece->kind) {
	case 1:
		return (uint8_t)piece->raw[i];
	case 2:
		memcpy(&half, piece->raw + 2 * i, sizeof(half));
		return half;
	default:
		memcpy(&wide, piece->raw + 4 * i, sizeof(wide));
		return wide;
	}
}

/*
 * The string's state: bits 2 to 4 how many bytes a character has, bit 5 that
 * the characters follow the object (all but those of subclasses), bit 6 that
 * they are ASCII.
 */
static bool read_piece(struct piece *piece, struct peek *peek,
		       const struct python_layout *layout, uintptr_t object,
		       bool is_end)
{
	uintptr_t nr, start = object;
	uint32_t state, max;

	if (!peek_word(peek, object + PYTHON_OBJECT_SIZE, &nr) ||
	    !peek_copy(peek, &state, object + PYTHON_TEXT_STATE, sizeof(state)))
		return false;
	piece->kind = state >> 2 & 7;
	if (!(state & 32) || !nr || nr > INT32_MAX ||
	    (piece->kind != 1 && piece->kind != 2 && piece->kind != 4))
		return false;
	start += state & 64 ? layout->ascii : layout->wide;
	max = RAW_SIZE / piece->kind;
	piece->nr = nr < max ? (uint32_t)nr : max;
	if (is_end)
		start += (nr - piece->nr) * piece->kind;
	return peek_copy(peek, piece->raw, start,
			 (size_t)piece->nr * piece->kind);
}

/* Behind the last '/' before `end`; 0: there is none. */
static uint32_t behind_slash(const struct piece *piece, uint32_t end)
{
	while (end && character(piece, end - 1) != '/')
		end--;
	return end;
}

static bool is_there(const struct piece *piece, uint32_t at, const char *text)
{
	for (; *text && at < piece->nr; at++, text++)
		if (character(piece, at) != (uint8_t)*text)
			return false;
	return !*text;
}

/* ".../lib/python3.12/threading.py", lib64 likewise: from "python3.12" on. */
static bool is_standard(const struct piece *piece, uint32_t at)
{
	return is_there(piece, at, "python3.") &&
		((at >= 5 && is_there(piece, at - 5, "/lib/")) ||
		 (at >= 7 && is_there(piece, at - 7, "/lib64/")));
}

/* Of what is installed (python.h) the path below the folder of packages; with
 * it for a module that is one file. */
static uint32_t installed_name(const struct piece *piece, uint32_t base)
{
	uint32_t below = base, folder;

	for (; base; base = folder) {
		folder = behind_slash(piece, base - 1);
		if (is_there(piece, folder, "site-packages/") ||
		    is_there(piece, folder, "dist-packages/"))
			return base == below ? folder : base;
		if (is_standard(piece, folder))
			return folder;
	}
	return below;
}

static uint32_t file_name(const struct piece *piece)
{
	uint32_t base = behind_slash(piece, piece->nr);

	/* All of "folder/". */
	return base < piece->nr ? installed_name(piece, base) : 0;
}

void python_text_string(struct python_text *text, struct peek *peek,
			const struct python_layout *layout,
			uintptr_t text_type, uintptr_t object, bool is_file)
{
	struct piece piece;
	uintptr_t type;
	uint32_t i;

	if (!peek_word(peek, object + PYTHON_OBJECT_TYPE, &type) ||
	    type != text_type ||
	    !read_piece(&piece, peek, layout, object, is_file)) {
		python_text_byte(text, '?');
		return;
	}
	for (i = is_file ? file_name(&piece) : 0; i < piece.nr; i++)
		put_character(text, character(&piece, i));
}
