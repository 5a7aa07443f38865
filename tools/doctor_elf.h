/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_DOCTOR_ELF_H
#define GPUTRACE_TOOLS_DOCTOR_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * What an ELF file says of itself.  The file is hostile: all is read with
 * pread() and bounds, nothing is mapped.
 */
struct elf {
	int fd;
	Elf64_Phdr program[64];
	unsigned nr_program;
	char interp[128];       /* "" for a static program */
	char version[32];       /* of libgputrace.so (inject/version.c) */
	char *names;            /* the table of dynamic strings, or NULL */
	size_t names_len;
};

/* Takes fd over.  0, or -ENOEXEC: no 64-bit ELF file of this machine's kind.
 * elf_close() in every case. */
int elf_open(struct elf *e, int fd);
void elf_close(struct elf *e);

/* True if the name is a whole string of the dynamic table: a function that
 * the library has or needs. */
bool elf_has_name(const struct elf *e, const char *name);

/* The newest GLIBC_2.N that it has or needs: N, or -1. */
int elf_newest_glibc(const struct elf *e);

#endif
