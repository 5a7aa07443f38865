/* SPDX-License-Identifier: MIT */
#include "collector/python_lines.h"

#include <stdbool.h>

#define NO_LINE (-128)
#define WINDOW 64

/* A table of lines, read in pieces. */
struct table {
	struct peek *peek;
	uintptr_t next, end;
	unsigned int at, len;           /* in the window */
	uint8_t window[WINDOW];
};

static bool fill(struct table *table)
{
	size_t left = table->end - table->next;
	size_t len = left < WINDOW ? left : WINDOW;

	table->at = 0;
	table->len = 0;
	if (!len || !peek_copy(table->peek, table->window, table->next, len))
		return false;
	table->next += len;
	table->len = (unsigned int)len;
	return true;
}

/* -1 at the end, which stays the end. */
static inline int next_byte(struct table *table)
{
	if (table->at == table->len && !fill(table))
		return -1;
	return table->window[table->at++];
}

/* On to the next byte with bit 7 set. */
static void skip_to_entry(struct table *table)
{
	do {
		for (; table->at < table->len; table->at++)
			if (table->window[table->at] & 128)
				return;
	} while (fill(table));
}

static bool open_table(struct table *table, struct peek *peek, uintptr_t object,
		       uintptr_t bytes_type, uint32_t *budget)
{
	uintptr_t type, size;

	if (!peek_word(peek, object + PYTHON_OBJECT_TYPE, &type) ||
	    type != bytes_type ||
	    !peek_word(peek, object + PYTHON_OBJECT_SIZE, &size) ||
	    size > *budget)
		return false;
	*budget -= (uint32_t)size;
	table->peek = peek;
	table->next = object + PYTHON_BYTES_DATA;
	table->end = table->next + size;
	table->at = table->len = 0;
	return true;
}

static int line_39(struct table *table, int line, int64_t at)
{
	int64_t address = 0;
	int bytes, lines;

	while ((bytes = next_byte(table)) >= 0 &&
	       (lines = next_byte(table)) >= 0) {
		address += bytes;
		if (address > at)
			break;
		line += (int8_t)lines;
	}
	return line;
}

static int line_310(struct table *table, int line, int64_t at)
{
	int64_t end = 0;
	int bytes, lines;

	while ((bytes = next_byte(table)) >= 0 &&
	       (lines = next_byte(table)) >= 0) {
		end += bytes;
		if ((int8_t)lines != NO_LINE)
			line += (int8_t)lines;
		if (at < end)
			return (int8_t)lines == NO_LINE ? 0 : line;
	}
	return 0;
}

static int signed_number(struct table *table)
{
	unsigned int number = 0, shift = 0;
	int byte;

	do {
		byte = next_byte(table);
		if (byte < 0 || shift > 24)
			return 0;
		number |= (unsigned int)(byte & 63) << shift;
		shift += 6;
	} while (byte & 64);
	return number & 1 ? -(int)(number >> 1) : (int)(number >> 1);
}

static int lines_on(struct table *table, int kind)
{
	if (kind >= 10 && kind <= 12)
		return kind - 10;
	return kind == 13 || kind == 14 ? signed_number(table) : 0;
}

static int line_311(struct table *table, int line, int64_t at)
{
	int64_t end = 0;
	int first, kind;

	while ((first = next_byte(table)) >= 0) {
		kind = first >> 3 & 15;
		line += lines_on(table, kind);
		end += 2 * ((first & 7) + 1);
		if (at < end)
			return kind == 15 ? 0 : line;
		skip_to_entry(table);
	}
	return 0;
}

int python_line(struct peek *peek, const struct python_layout *layout,
		uintptr_t bytes_type, uintptr_t code, int64_t at,
		uint32_t *budget)
{
	struct table table;
	uintptr_t object;
	int32_t line;

	if (!peek_copy(peek, &line, code + layout->first, sizeof(line)))
		return 0;
	if (at < 0)
		return line;
	if (!peek_word(peek, code + layout->lines, &object) ||
	    !open_table(&table, peek, object, bytes_type, budget))
		return 0;
	if (layout->minor == 9)
		return line_39(&table, line, at);
	if (layout->minor == 10)
		return line_310(&table, line, at);
	return line_311(&table, line, at);
}
