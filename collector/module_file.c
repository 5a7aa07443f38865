/* SPDX-License-Identifier: MIT */
#include "collector/module_file.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of headers and notes; larger ones are not looked at. */
enum { HEADERS_MAX = 64, NOTE_MAX = 4096 };

struct source_of {
	int fd;                         /* -1: it lies in memory */
	const uint8_t *memory;
	uint64_t size;
};

static bool read_at(const struct source_of *from, uint64_t offset, void *to,
		    size_t size)
{
	if (offset > from->size || size > from->size - offset)
		return false;
	if (from->fd < 0) {
		memcpy(to, from->memory + offset, size);
		return true;
	}
	return pread(from->fd, to, size, (off_t)offset) == (ssize_t)size;
}

/* Notes: name, kind and content, each padded to 4 bytes. */
static void take_build_id(struct module_file *file, const uint8_t *note,
			  size_t size)
{
	ElfW(Nhdr) head;
	size_t at = 0, content;

	while (size - at >= sizeof head) {
		memcpy(&head, note + at, sizeof head);
		content = at + sizeof head + ((head.n_namesz + 3u) & ~3u);
		if (content > size || head.n_descsz > size - content)
			return;
		if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
		    head.n_descsz <= MODULE_ID_MAX &&
		    !memcmp(note + at + sizeof head, "GNU", 4)) {
			file->build_id_len = head.n_descsz;
			memcpy(file->build_id, note + content, head.n_descsz);
			return;
		}
		at = content + ((head.n_descsz + 3u) & ~3u);
		if (at > size)
			return;
	}
}

static void take_note(struct module_file *file, const struct source_of *from,
		      const ElfW(Phdr) *part)
{
	uint8_t note[NOTE_MAX];

	if (!file->build_id_len && part->p_filesz <= sizeof note &&
	    read_at(from, part->p_offset, note, part->p_filesz))
		take_build_id(file, note, part->p_filesz);
}

static void take_part(struct module_file *file, const ElfW(Phdr) *part)
{
	if (file->nr_parts < MODULE_PARTS_MAX)
		file->parts[file->nr_parts++] = (struct module_part){
			part->p_offset, part->p_filesz, part->p_vaddr,
			part->p_flags & PF_X,
		};
}

/* The loaded part that holds the tables, as a mapping of its own. */
static void map_tables(struct module_file *file, const struct source_of *from)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), into;
	const struct module_part *part = file->parts;
	void *mapped;

	while (part < file->parts + file->nr_parts &&
	       file->table - part->address >= part->size)
		part++;
	if (part == file->parts + file->nr_parts ||
	    part->offset > from->size || part->size > from->size - part->offset)
		return;
	file->part_address = part->address;
	file->part_size = part->size;
	if (from->fd < 0) {
		file->part = from->memory + part->offset;
		return;
	}
	into = part->offset % page;
	mapped = mmap(NULL, part->size + into, PROT_READ, MAP_PRIVATE,
		      from->fd, (off_t)(part->offset - into));
	if (mapped == MAP_FAILED)
		return;
	file->mapped = mapped;
	file->mapped_size = part->size + into;
	file->part = (const uint8_t *)mapped + into;
}

static bool read_headers(struct module_file *file, const struct source_of *from)
{
	ElfW(Ehdr) head;
	ElfW(Phdr) parts[HEADERS_MAX];
	size_t i;

	if (!read_at(from, 0, &head, sizeof head) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_phentsize != sizeof parts[0] ||
	    head.e_phnum > HEADERS_MAX ||
	    !read_at(from, head.e_phoff, parts,
		     head.e_phnum * sizeof parts[0]))
		return false;
	for (i = 0; i < head.e_phnum; i++) {
		if (parts[i].p_type == PT_LOAD)
			take_part(file, &parts[i]);
		else if (parts[i].p_type == PT_NOTE)
			take_note(file, from, &parts[i]);
		else if (parts[i].p_type == PT_GNU_EH_FRAME)
			file->table = parts[i].p_vaddr;
	}
	if (file->table)
		map_tables(file, from);
	return file->nr_parts > 0;
}

/* Another file of that name, put there since, tells nothing of this one. */
static bool open_source(const struct maps_entry *entry,
			struct source_of *source)
{
	struct stat found;

	if (entry->path[0] == '[') {
		source->fd = -1;
		source->memory = (const uint8_t *)entry->start;
		source->size = entry->end - entry->start;
		return true;
	}
	source->fd = open(entry->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (source->fd < 0)
		return false;
	if (!fstat(source->fd, &found) && S_ISREG(found.st_mode) &&
	    found.st_ino == entry->inode) {
		source->size = (uint64_t)found.st_size;
		return true;
	}
	close(source->fd);
	return false;
}

struct module_file *module_file_open(const struct maps_entry *entry)
{
	size_t len = strlen(entry->path);
	struct source_of source = { 0 };
	struct module_file *file = calloc(1, sizeof *file + len + 1);

	if (!file)
		return NULL;
	file->holders = 1;
	file->inode = entry->inode;
	memcpy(file->path, entry->path, len);
	if (!open_source(entry, &source)) {
		free(file);
		return NULL;
	}
	if (!read_headers(file, &source)) {
		module_file_put(file);
		file = NULL;
	}
	if (source.fd >= 0)
		close(source.fd);
	return file;
}

struct module_file *module_file_get(struct module_file *file)
{
	file->holders++;
	return file;
}

void module_file_put(struct module_file *file)
{
	if (--file->holders)
		return;
	if (file->mapped)
		munmap(file->mapped, file->mapped_size);
	free(file);
}

/* The mapping begins at a page, its part of the file somewhere in it. */
uintptr_t module_file_bias(const struct module_file *file,
			   const struct maps_entry *entry)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const struct module_part *part = file->parts;
	size_t i;

	for (i = 0; i < file->nr_parts; i++, part++)
		if (part->is_code &&
		    part->offset / page * page <= entry->offset &&
		    entry->offset < part->offset + part->size)
			return entry->start - (entry->offset +
				(part->address - part->offset));
	return entry->start - entry->offset;
}
