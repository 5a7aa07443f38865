/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_ELF_SYMBOLS_H
#define GPUTRACE_WRITER_ELF_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The functions of an ELF file by address: of .symtab, where that was not
 * stripped, else of .dynsym.  Kept are 8 bytes a function; names are read from
 * the file when they are asked for.  Nothing is mapped: a file that shrinks
 * meanwhile has no names.
 * Context: writer thread.
 */
struct elf_symbols {
	char *path;                     /* "[vdso]": in memory */
	struct elf_function {
		uint32_t address;       /* the file's own, below 4 GiB */
		uint32_t index;         /* in the table */
	} *functions;
	uint32_t nr;
	uint64_t table, names, names_size;      /* in the file */
};

/* At most `max` functions, then none: 0 or -errno; fini takes what is there. */
int elf_symbols_init(struct elf_symbols *symbols, const char *path,
		     uint32_t max);
void elf_symbols_fini(struct elf_symbols *symbols);

/* The function that holds the address.  False: none, or its name is longer. */
bool elf_symbols_find(const struct elf_symbols *symbols, uint64_t address,
		      char *name, size_t size);

#endif
