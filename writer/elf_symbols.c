/* SPDX-License-Identifier: MIT */
#include "writer/elf_symbols.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "writer/bytes.h"

enum { SECTIONS_MAX = 4096, CHUNK = 1024, SIZELESS_MAX = 64 };

static int open_file(const char *path)
{
	return path[0] == '/' ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) :
		-1;
}

static bool read_at(int fd, uint64_t offset, void *to, size_t size)
{
	return pread(fd, to, size, (off_t)offset) == (ssize_t)size;
}

/* The section with symbols, and the one with their names. */
static bool find_table(int fd, Elf64_Shdr *table, Elf64_Shdr *names)
{
	Elf64_Ehdr head;
	Elf64_Shdr section;
	uint32_t i;

	memset(table, 0, sizeof(*table));
	if (!read_at(fd, 0, &head, sizeof(head)) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_shentsize != sizeof(section) ||
	    head.e_shnum > SECTIONS_MAX)
		return false;
	for (i = 0; i < head.e_shnum && table->sh_type != SHT_SYMTAB; i++) {
		if (!read_at(fd, head.e_shoff + i * sizeof(section), &section,
			     sizeof(section)))
			return false;
		if (section.sh_type == SHT_SYMTAB ||
		    section.sh_type == SHT_DYNSYM)
			*table = section;
	}
	return table->sh_type != SHT_NULL && table->sh_link < head.e_shnum &&
		table->sh_entsize == sizeof(Elf64_Sym) &&
		read_at(fd, head.e_shoff + table->sh_link * sizeof(*names),
			names, sizeof(*names));
}

static bool is_function(const Elf64_Sym *symbol)
{
	int type = ELF64_ST_TYPE(symbol->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) &&
		symbol->st_shndx != SHN_UNDEF && symbol->st_value &&
		symbol->st_value <= UINT32_MAX;
}

static int by_address(const void *a, const void *b)
{
	const struct elf_function *one = a, *other = b;

	if (one->address != other->address)
		return one->address < other->address ? -1 : 1;
	return one->index < other->index ? -1 : one->index > other->index;
}

/* Twice: to count, then to keep. */
static bool each_function(struct elf_symbols *symbols, int fd, uint64_t nr)
{
	Elf64_Sym chunk[CHUNK];
	uint64_t first, i, n;

	symbols->nr = 0;
	for (first = 0; first < nr; first += n) {
		n = nr - first < CHUNK ? nr - first : CHUNK;
		if (!read_at(fd, symbols->table + first * sizeof(chunk[0]),
			     chunk, n * sizeof(chunk[0])))
			return false;
		for (i = 0; i < n; i++) {
			if (!is_function(&chunk[i]))
				continue;
			if (symbols->functions)
				symbols->functions[symbols->nr] =
					(struct elf_function){
					(uint32_t)chunk[i].st_value,
					(uint32_t)(first + i) };
			symbols->nr++;
		}
	}
	return true;
}

static int load(struct elf_symbols *symbols, int fd, uint32_t max)
{
	Elf64_Shdr table, names;
	uint64_t nr;

	if (!find_table(fd, &table, &names))
		return -ENOEXEC;
	symbols->table = table.sh_offset;
	symbols->names = names.sh_offset;
	symbols->names_size = names.sh_size;
	nr = table.sh_size / sizeof(Elf64_Sym);
	if (nr > UINT32_MAX || !each_function(symbols, fd, nr))
		return -ENOEXEC;
	if (!symbols->nr || symbols->nr > max) {
		symbols->nr = 0;
		return -ENOSPC;
	}
	max = symbols->nr;
	symbols->functions = malloc(max * sizeof(*symbols->functions));
	if (!symbols->functions) {
		symbols->nr = 0;
		return -ENOMEM;
	}
	/* (The file is as it was, or has no names.) */
	if (!each_function(symbols, fd, nr) || symbols->nr != max) {
		symbols->nr = 0;
		return -EIO;
	}
	qsort(symbols->functions, symbols->nr, sizeof(*symbols->functions),
	      by_address);
	return 0;
}

int elf_symbols_init(struct elf_symbols *symbols, const char *path,
		     uint32_t max)
{
	int fd = open_file(path), err;

	memset(symbols, 0, sizeof(*symbols));
	symbols->path = bytes_copy(path, strlen(path));
	err = fd < 0 ? -ENOENT : symbols->path ? load(symbols, fd, max) :
		-ENOMEM;
	if (fd >= 0)
		close(fd);
	return err;
}

void elf_symbols_fini(struct elf_symbols *symbols)
{
	free(symbols->functions);
	free(symbols->path);
	memset(symbols, 0, sizeof(*symbols));
}

/* One that has no size (assembler) reaches to the next, if that is near. */
static bool holds(const Elf64_Sym *symbol, uint64_t address)
{
	return address - symbol->st_value < (symbol->st_size ?
					     symbol->st_size : SIZELESS_MAX);
}

static bool read_name(const struct elf_symbols *symbols, int fd,
		      uint32_t index, uint64_t address, char *name, size_t size)
{
	Elf64_Sym symbol;
	uint64_t left;
	ssize_t len;

	if (!read_at(fd, symbols->table + (uint64_t)index * sizeof(symbol),
		     &symbol, sizeof(symbol)) || !holds(&symbol, address) ||
	    symbol.st_name >= symbols->names_size)
		return false;
	left = symbols->names_size - symbol.st_name;
	len = pread(fd, name, left < size ? left : size,
		    (off_t)(symbols->names + symbol.st_name));
	return len > 0 && *name && memchr(name, 0, (size_t)len);
}

/* Of several at one address the first in the table, and one that holds the
 * address: a local one of no size may stand inside a function. */
enum { TRIES = 8 };

bool elf_symbols_find(const struct elf_symbols *symbols, uint64_t address,
		      char *name, size_t size)
{
	uint32_t from = 0, to = symbols->nr, middle, tries;
	bool is_found = false;
	int fd;

	while (from < to) {
		middle = from + (to - from) / 2;
		if (symbols->functions[middle].address <= address)
			from = middle + 1;
		else
			to = middle;
	}
	fd = from ? open_file(symbols->path) : -1;
	if (fd < 0)
		return false;
	for (tries = 0; from && tries < TRIES && !is_found; from--, tries++)
		is_found = read_name(symbols, fd,
				     symbols->functions[from - 1].index,
				     address, name, size);
	close(fd);
	return is_found;
}
