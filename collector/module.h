/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_MODULE_H
#define GPUTRACE_COLLECTOR_MODULE_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* Does the program or library have the address, in a part with these flags
 * (PF_X; 0: any)?  Context: any; for dl_iterate_phdr(). */
static inline bool module_has(const struct dl_phdr_info *module,
			      uintptr_t address, ElfW(Word) flags)
{
	for (size_t i = 0; i < module->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &module->dlpi_phdr[i];

		if (part->p_type == PT_LOAD &&
		    (part->p_flags & flags) == flags &&
		    address - (module->dlpi_addr + part->p_vaddr) <
		    part->p_memsz)
			return true;
	}
	return false;
}

#endif
