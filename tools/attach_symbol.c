/* SPDX-License-Identifier: MIT */
/* The dynamic table of a library, as it lies in another process's memory. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "tools/attach_memory.h"

enum {
	PROGRAM_MAX = 64,
	DYNAMIC_MAX = 256,
	CHAIN_MAX = 4096,               /* names of one hash value's bucket */
	NAME_MAX_LEN = 128,
	STRINGS_MAX = 16 << 20,
	CODE_MAX = 16 << 20,            /* libc's has 1.5 MB */
};

#define HIDDEN_VERSION 0x8000           /* not the default one */

struct dynamic {
	uint64_t strings, strings_size, symbols, hash, versions;
};

/* Most C libraries put addresses into their table when they load it, for the
 * kernel's own (vdso) they are still offsets. */
static uint64_t address_of(uint64_t base, uint64_t value)
{
	return value < base ? base + value : value;
}

static void take_entry(struct dynamic *d, uint64_t base, const Elf64_Dyn *e)
{
	uint64_t value = e->d_un.d_val;

	switch (e->d_tag) {
	case DT_STRTAB:
		d->strings = address_of(base, value);
		break;
	case DT_STRSZ:
		d->strings_size = value;
		break;
	case DT_SYMTAB:
		d->symbols = address_of(base, value);
		break;
	case DT_GNU_HASH:
		d->hash = address_of(base, value);
		break;
	case DT_VERSYM:
		d->versions = address_of(base, value);
		break;
	}
}

/* *bias: what is added to the addresses in the file. */
static bool read_dynamic(const struct memory *m, uint64_t base,
			 struct dynamic *d, uint64_t *bias)
{
	Elf64_Phdr program[PROGRAM_MAX];
	Elf64_Dyn entries[DYNAMIC_MAX];
	Elf64_Ehdr head;
	uint64_t at = 0;
	size_t nr = 0;

	memset(d, 0, sizeof(*d));
	if (!memory_read(m, base, &head, sizeof(head)) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) ||
	    head.e_phentsize != sizeof(*program) ||
	    head.e_phnum > PROGRAM_MAX ||
	    !memory_read(m, base + head.e_phoff, program,
			 head.e_phnum * sizeof(*program)))
		return false;
	*bias = base;
	for (int i = head.e_phnum - 1; i >= 0; i--) {
		if (program[i].p_type == PT_LOAD)
			*bias = base - (program[i].p_vaddr & ~4095ull);
		if (program[i].p_type != PT_DYNAMIC)
			continue;
		at = program[i].p_vaddr;
		nr = program[i].p_memsz / sizeof(*entries);
	}
	if (nr > DYNAMIC_MAX)
		nr = DYNAMIC_MAX;
	if (!nr || !memory_read(m, *bias + at, entries, nr * sizeof(*entries)))
		return false;
	for (size_t i = 0; i < nr && entries[i].d_tag != DT_NULL; i++)
		take_entry(d, *bias, &entries[i]);
	return d->strings && d->symbols && d->hash;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (uint8_t)*name;
	return h;
}

/* Symbol i, if it is a function of that name which is defined here. */
static uint64_t value_of(const struct memory *m, const struct dynamic *d,
			 uint32_t i, const char *name, bool *is_default)
{
	size_t len = strlen(name) + 1;
	char text[NAME_MAX_LEN];
	uint16_t version = 0;
	Elf64_Sym s;

	if (!memory_read(m, d->symbols + i * sizeof(s), &s, sizeof(s)) ||
	    s.st_shndx == SHN_UNDEF ||
	    ELF64_ST_TYPE(s.st_info) != STT_FUNC ||
	    s.st_name >= d->strings_size || len > sizeof(text) ||
	    !memory_read(m, d->strings + s.st_name, text, len) ||
	    memcmp(text, name, len))
		return 0;
	if (d->versions)
		memory_read(m, d->versions + i * sizeof(version), &version,
			    sizeof(version));
	*is_default = !(version & HIDDEN_VERSION);
	return s.st_value;
}

/* Words: buckets, first symbol, Bloom filter's size (of 64 bits each), its
 * shift; the filter; the buckets; the chains. */
uint64_t memory_symbol(const struct memory *m, uint64_t base, const char *name)
{
	uint32_t head[4], i, hash = gnu_hash(name), entry;
	uint64_t bias, found = 0, value, buckets, chains;
	struct dynamic d;
	bool is_default;

	if (!read_dynamic(m, base, &d, &bias) ||
	    !memory_read(m, d.hash, head, sizeof(head)) || !head[0])
		return 0;
	buckets = d.hash + sizeof(head) + head[2] * 8ull;
	chains = buckets + head[0] * 4ull;
	if (!memory_read(m, buckets + hash % head[0] * 4ull, &i, sizeof(i)) ||
	    i < head[1])
		return 0;
	for (int n = 0; n < CHAIN_MAX; n++, i++) {
		if (!memory_read(m, chains + (i - head[1]) * 4ull, &entry,
				 sizeof(entry)))
			break;
		is_default = false;
		value = (entry | 1) == (hash | 1) ?
			value_of(m, &d, i, name, &is_default) : 0;
		if (value && (!found || is_default))
			found = bias + value;
		if (is_default || (entry & 1))
			break;
	}
	return found;
}

bool memory_has_string(const struct memory *m, uint64_t base,
		       const char *string)
{
	struct dynamic d;
	uint64_t bias;
	bool found;
	char *text;

	if (!read_dynamic(m, base, &d, &bias) || d.strings_size > STRINGS_MAX)
		return false;
	text = malloc(d.strings_size + 1);
	found = text && memory_read(m, d.strings, text, d.strings_size) &&
		memmem(text, d.strings_size, string, strlen(string) + 1);
	free(text);
	return found;
}

static uint64_t find_in(const struct memory *m, const struct region *r,
			const uint8_t *bytes, size_t size)
{
	size_t len = r->end - r->start;
	const uint8_t *at = NULL;
	uint64_t found = 0;
	uint8_t *code;

	if (len > CODE_MAX)
		return 0;
	code = malloc(len);
	if (code && memory_read(m, r->start, code, len))
		at = memmem(code, len, bytes, size);
	if (at)
		found = r->start + (uint64_t)(at - code);
	free(code);
	return found;
}

uint64_t memory_find(const struct memory *m, uint64_t base,
		     const uint8_t *bytes, size_t size)
{
	uint64_t found = 0;

	for (size_t i = 0; i < m->nr && !found; i++)
		if (m->regions[i].base == base && m->regions[i].is_exec)
			found = find_in(m, &m->regions[i], bytes, size);
	return found;
}
