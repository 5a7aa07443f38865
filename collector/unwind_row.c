/* SPDX-License-Identifier: MIT */
#include "collector/unwind_row.h"

#include <string.h>

#include "collector/cfi.h"

/* Of a sorted table of 32-bit places, relative to the table: what linkers
 * write.  Others are not searched. */
#define TABLE_ENCODING 0x3b
enum { TABLE_HEAD = 12, TABLE_ENTRY = 8 };

static struct cfi_reader reader_at(const struct module *module,
				   uintptr_t address)
{
	struct cfi_reader reader = {
		.base = module->part, .address = module->part_address,
		.at = address - module->part_address, .end = module->part_size,
	};

	if (reader.at > reader.end) {
		reader.at = reader.end;
		reader.is_bad = true;
	}
	return reader;
}

/* The i-th pair: first address of a function, address of its entry. */
static int32_t table_word(const struct module *module, uint32_t i, int which)
{
	size_t at = module->table - module->part_address + TABLE_HEAD +
		(size_t)i * TABLE_ENTRY + (size_t)which * 4;
	int32_t word;

	memcpy(&word, module->part + at, sizeof word);
	return word;
}

/* The entry of the last function that begins by `pc`; 0: none. */
static uintptr_t search(const struct module *module, uintptr_t pc)
{
	struct cfi_reader head = reader_at(module, module->table);
	uint8_t version = (uint8_t)cfi_read(&head, 1);
	uint8_t pointer = (uint8_t)cfi_read(&head, 1);
	uint8_t count = (uint8_t)cfi_read(&head, 1);
	uint8_t entries = (uint8_t)cfi_read(&head, 1);
	uint32_t from = 0, to, middle;

	(void)cfi_pointer(&head, pointer, module->table);
	to = (uint32_t)cfi_pointer(&head, count, module->table);
	if (head.is_bad || version != 1 || entries != TABLE_ENCODING ||
	    head.at != module->table - module->part_address + TABLE_HEAD ||
	    to > (head.end - head.at) / TABLE_ENTRY)
		return 0;
	while (from < to) {
		middle = from + (to - from) / 2;
		if (module->table + (uintptr_t)(intptr_t)
		    table_word(module, middle, 0) <= pc)
			from = middle + 1;
		else
			to = middle;
	}
	return from ? module->table + (uintptr_t)(intptr_t)
		table_word(module, from - 1, 1) : 0;
}

/* The length in front of an entry; the reader ends with it. */
static bool enter_entry(struct cfi_reader *reader)
{
	uint64_t length = cfi_read(reader, 4);

	if (reader->is_bad || !length || length > reader->end - reader->at)
		return false;           /* (64-bit ones as well) */
	reader->end = reader->at + length;
	return true;
}

/* "zPLR": which fields there are. */
static void read_augmentation(struct cfi_shared *shared, const uint8_t *letters,
			      struct cfi_reader *reader)
{
	uint64_t length;
	size_t end;

	if (*letters++ != 'z')
		return;
	shared->has_length = true;
	length = cfi_uleb(reader);
	end = reader->at + length;
	for (; *letters && !reader->is_bad; letters++) {
		if (*letters == 'R')
			shared->encoding = (uint8_t)cfi_read(reader, 1);
		else if (*letters == 'P')
			(void)cfi_pointer(reader, (uint8_t)
				cfi_read(reader, 1) & 0x7f, 0);
		else if (*letters == 'L')
			(void)cfi_read(reader, 1);
		else if (*letters == 'S')
			shared->is_signal = true;
		else if (*letters != 'B')
			break;
	}
	reader->is_bad |= length > reader->end || end > reader->end;
	if (!reader->is_bad)
		reader->at = end;
}

static bool read_shared(struct cfi_shared *shared, struct cfi_reader reader)
{
	const uint8_t *letters;
	uint8_t version;

	memset(shared, 0, sizeof *shared);
	if (!enter_entry(&reader) || cfi_read(&reader, 4))
		return false;           /* it is a function's */
	version = (uint8_t)cfi_read(&reader, 1);
	letters = reader.base + reader.at;
	while (cfi_read(&reader, 1))
		;
	if (reader.is_bad || (version != 1 && version != 3))
		return false;
	shared->code_align = cfi_uleb(&reader);
	shared->data_align = cfi_sleb(&reader);
	shared->return_reg = version == 1 ? cfi_read(&reader, 1) :
		cfi_uleb(&reader);
	read_augmentation(shared, letters, &reader);
	shared->program = reader;
	return !reader.is_bad && shared->return_reg == UNWIND_RA;
}

/* What the table says of a function. */
struct entry {
	struct cfi_shared shared;
	struct cfi_reader rest;         /* behind the addresses */
	uintptr_t start, size;          /* in the file's own addresses */
};

static bool find_entry(const struct module *module, uintptr_t address,
		       struct entry *entry)
{
	uintptr_t found = module->part ? search(module, address) : 0;
	struct cfi_reader *reader = &entry->rest;
	size_t here;

	if (!found)
		return false;
	*reader = reader_at(module, found);
	if (!enter_entry(reader))
		return false;
	here = reader->at;
	if (!read_shared(&entry->shared,
			 reader_at(module, reader->address + here -
				   cfi_read(reader, 4))))
		return false;
	entry->start = cfi_pointer(reader, entry->shared.encoding,
				   module->table);
	entry->size = cfi_pointer(reader, entry->shared.encoding & 0x0f, 0);
	return !reader->is_bad && address - entry->start < entry->size;
}

bool unwind_row_find(const struct module *module, uintptr_t pc,
		     struct unwind_row *row)
{
	uintptr_t address = pc - module->bias;
	struct entry entry;
	uint64_t size;

	if (!find_entry(module, address, &entry))
		return false;
	if (entry.shared.has_length) {
		size = cfi_uleb(&entry.rest);
		if (size > entry.rest.end - entry.rest.at)
			return false;
		entry.rest.at += size;
	}
	/* (What is written of that frame is the kernel's ucontext_t.) */
	if (entry.shared.is_signal) {
		row->flags = ROW_SIGNAL;
		return true;
	}
	return cfi_run(&entry.shared, &entry.rest, entry.start, address, row);
}

bool unwind_function_find(const struct module *module, uintptr_t pc,
			  uintptr_t *start, uintptr_t *size)
{
	struct entry entry;

	if (!find_entry(module, pc - module->bias, &entry))
		return false;
	*start = entry.start + module->bias;
	*size = entry.size;
	return true;
}
