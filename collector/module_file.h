/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_MODULE_FILE_H
#define GPUTRACE_COLLECTOR_MODULE_FILE_H

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/maps.h"

/*
 * What modules.c knows of a module's file: its build id, and the part with the
 * unwind tables, mapped a second time, for us alone.
 * Context: one of our own threads.
 */
enum { MODULE_PARTS_MAX = 16, MODULE_ID_MAX = 20 };

struct module_file {
	uint32_t holders;
	uint64_t inode;
	/* Of its loaded parts: offset in the file, address. */
	struct module_part {
		uint64_t offset, size, address;
		bool is_code;
	} parts[MODULE_PARTS_MAX];
	uint32_t nr_parts;
	const uint8_t *part;
	uintptr_t part_address;
	size_t part_size;
	uintptr_t table;
	void *mapped;                   /* NULL: not by us (the vDSO) */
	size_t mapped_size;
	uint32_t build_id_len;
	uint8_t build_id[MODULE_ID_MAX];
	char path[];
};

/* NULL: not an ELF file that is what was mapped there, or no memory. */
struct module_file *module_file_open(const struct maps_entry *entry);
struct module_file *module_file_get(struct module_file *file);
void module_file_put(struct module_file *file);

/* Of the mapping: its addresses in memory less those in the file. */
uintptr_t module_file_bias(const struct module_file *file,
			   const struct maps_entry *entry);

#endif
