/* SPDX-License-Identifier: MIT */
#include "tools/doctor_elf.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#define OWN_MACHINE EM_X86_64
#endif

enum {
	NAMES_MAX = 64 << 20,   /* libtorch_cuda.so has 9 MB */
	DYNAMIC_MAX = 1024,
	NOTE_MAX = 64 << 10,
};

static bool read_at(int fd, void *to, size_t size, uint64_t offset)
{
	return offset < INT64_MAX &&
		pread(fd, to, size, (off_t)offset) == (ssize_t)size;
}

/* Where the byte that is loaded at `address` is in the file. */
static bool file_offset(const struct elf *e, uint64_t address,
			uint64_t *offset)
{
	for (unsigned i = 0; i < e->nr_program; i++) {
		const Elf64_Phdr *p = &e->program[i];

		if (p->p_type != PT_LOAD || address < p->p_vaddr ||
		    address - p->p_vaddr >= p->p_filesz)
			continue;
		*offset = p->p_offset + (address - p->p_vaddr);
		return true;
	}
	return false;
}

static void read_names(struct elf *e, const Elf64_Phdr *p)
{
	size_t nr = p->p_filesz / sizeof(Elf64_Dyn);
	uint64_t table = 0, size = 0, offset;
	Elf64_Dyn dynamic[DYNAMIC_MAX];

	if (nr > DYNAMIC_MAX)
		nr = DYNAMIC_MAX;
	if (!read_at(e->fd, dynamic, nr * sizeof(*dynamic), p->p_offset))
		return;
	for (size_t i = 0; i < nr && dynamic[i].d_tag != DT_NULL; i++) {
		if (dynamic[i].d_tag == DT_STRTAB)
			table = dynamic[i].d_un.d_ptr;
		if (dynamic[i].d_tag == DT_STRSZ)
			size = dynamic[i].d_un.d_val;
	}
	if (!size || size > NAMES_MAX || e->names ||
	    !file_offset(e, table, &offset))
		return;
	e->names = malloc(size + 1);
	if (e->names && !read_at(e->fd, e->names, size, offset)) {
		free(e->names);
		e->names = NULL;
	}
	if (e->names)
		e->names[size] = '\0';
	e->names_len = e->names ? size : 0;
}

/* Ours, among others' (build ids, ABI). */
static void read_notes(struct elf *e, const Elf64_Phdr *p)
{
	char *notes = p->p_filesz < NOTE_MAX ? malloc(p->p_filesz + 1) : NULL;
	size_t at = 0, size = p->p_filesz;

	if (notes && !read_at(e->fd, notes, size, p->p_offset))
		size = 0;
	while (notes && at < size && size - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		uint64_t name = at + sizeof(note), text, end;

		memcpy(&note, notes + at, sizeof(note));
		text = name + ((uint64_t)note.n_namesz + 3) / 4 * 4;
		end = text + ((uint64_t)note.n_descsz + 3) / 4 * 4;
		if (text + note.n_descsz > size)
			break;
		if (note.n_namesz == sizeof("gputrace") && note.n_descsz &&
		    !memcmp(notes + name, "gputrace", sizeof("gputrace")))
			snprintf(e->version, sizeof(e->version), "%.*s",
				 (int)(note.n_descsz < 31 ? note.n_descsz :
				       31), notes + text);
		at = end;
	}
	free(notes);
}

static void read_interp(struct elf *e, const Elf64_Phdr *p)
{
	size_t size = p->p_filesz;

	if (size >= sizeof(e->interp))
		size = sizeof(e->interp) - 1;
	if (!read_at(e->fd, e->interp, size, p->p_offset))
		size = 0;
	e->interp[size] = '\0';
}

int elf_open(struct elf *e, int fd)
{
	Elf64_Ehdr head;

	memset(e, 0, sizeof(*e));
	e->fd = fd;
	if (!read_at(fd, &head, sizeof(head), 0) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_machine != OWN_MACHINE ||
	    head.e_phentsize != sizeof(*e->program))
		return -ENOEXEC;
	e->nr_program = head.e_phnum < 64 ? head.e_phnum : 64;
	if (!read_at(fd, e->program, e->nr_program * sizeof(*e->program),
		     head.e_phoff))
		return -ENOEXEC;
	for (unsigned i = 0; i < e->nr_program; i++) {
		const Elf64_Phdr *p = &e->program[i];

		if (p->p_type == PT_DYNAMIC)
			read_names(e, p);
		else if (p->p_type == PT_NOTE)
			read_notes(e, p);
		else if (p->p_type == PT_INTERP)
			read_interp(e, p);
	}
	return 0;
}

void elf_close(struct elf *e)
{
	if (e->fd >= 0)
		close(e->fd);
	free(e->names);
	e->names = NULL;
}

bool elf_has_name(const struct elf *e, const char *name)
{
	size_t len = strlen(name) + 1;
	const char *at = e->names ? e->names : "", *end = at + e->names_len;

	for (; at < end; at++) {
		at = memmem(at, (size_t)(end - at), name, len);
		if (!at)
			return false;
		if (at == e->names || !at[-1])
			return true;
	}
	return false;
}

int elf_newest_glibc(const struct elf *e)
{
	const char *at = e->names ? e->names : "", *end = at + e->names_len;
	int newest = -1, minor;

	while (at < end) {
		at = memmem(at, (size_t)(end - at), "GLIBC_2.", 8);
		if (!at)
			break;
		at += 8;
		minor = atoi(at);
		newest = minor > newest && minor < 1000 ? minor : newest;
	}
	return newest;
}
