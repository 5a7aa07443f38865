/* SPDX-License-Identifier: MIT */
#include "collector/osrt_next.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "collector/module.h"

/* glibc 2.36 defines 38; a symbol of one beyond does not fit. */
enum { NR_VERSIONS = 128 };

/* Of a symbol's version: not the default one; VER_NDX_GLOBAL is none. */
#define VERSION_HIDDEN 0x8000

/* The dynamic table of a program or library. */
struct dynamic {
	const char *strings;
	const ElfW(Sym) *symbols;
	const uint32_t *gnu_hash, *sysv_hash;
	const uint16_t *versions;
	const ElfW(Verdef) *defined;
	const char *version_names[NR_VERSIONS]; /* by number; NULL: none */
};

struct search {
	struct next_symbol *symbols;
	uint32_t nr;
	bool is_behind;         /* this library has been passed */
};

/* The C library has put the address in, or left the offset (musl, the vdso).
 */
static const void *address(const struct dl_phdr_info *module,
			   const ElfW(Dyn) *entry)
{
	uintptr_t value = entry->d_un.d_ptr;

	return (const void *)(value < module->dlpi_addr ?
			      value + module->dlpi_addr : value);
}

static void take_entry(struct dynamic *d, const struct dl_phdr_info *module,
		       const ElfW(Dyn) *entry)
{
	switch (entry->d_tag) {
	case DT_STRTAB:
		d->strings = address(module, entry);
		break;
	case DT_SYMTAB:
		d->symbols = address(module, entry);
		break;
	case DT_GNU_HASH:
		d->gnu_hash = address(module, entry);
		break;
	case DT_HASH:
		d->sysv_hash = address(module, entry);
		break;
	case DT_VERSYM:
		d->versions = address(module, entry);
		break;
	case DT_VERDEF:
		d->defined = address(module, entry);
		break;
	}
}

static void name_versions(struct dynamic *d)
{
	const char *at = (const void *)d->defined;

	while (at) {
		const ElfW(Verdef) *def = (const void *)at;
		const ElfW(Verdaux) *aux = (const void *)(at + def->vd_aux);

		if (def->vd_ndx < NR_VERSIONS)
			d->version_names[def->vd_ndx] =
				d->strings + aux->vda_name;
		at = def->vd_next ? at + def->vd_next : NULL;
	}
}

static bool read_dynamic(const struct dl_phdr_info *module, struct dynamic *d)
{
	const ElfW(Dyn) *entry = NULL;

	memset(d, 0, sizeof *d);
	for (size_t i = 0; i < module->dlpi_phnum; i++)
		if (module->dlpi_phdr[i].p_type == PT_DYNAMIC)
			entry = (const void *)(module->dlpi_addr +
				module->dlpi_phdr[i].p_vaddr);
	for (; entry && entry->d_tag != DT_NULL; entry++)
		take_entry(d, module, entry);
	if (!d->strings || !d->symbols || (!d->gnu_hash && !d->sysv_hash))
		return false;
	if (d->versions)
		name_versions(d);
	return true;
}

/* A library without versions, and a symbol without one, serve any. */
static bool version_fits(const struct dynamic *d, uint32_t i,
			 const struct next_symbol *symbol)
{
	uint16_t number = d->versions ? d->versions[i] : VER_NDX_GLOBAL;
	const char *name;

	if (number <= VER_NDX_GLOBAL || !d->defined)
		return number != VER_NDX_LOCAL;
	number &= (uint16_t)~VERSION_HIDDEN;
	name = number < NR_VERSIONS ? d->version_names[number] : NULL;
	return name && (!strcmp(name, symbol->versions[0]) ||
			!strcmp(name, symbol->versions[1]));
}

static bool fits(const struct dynamic *d, uint32_t i,
		 const struct next_symbol *symbol)
{
	const ElfW(Sym) *s = &d->symbols[i];

	return s->st_shndx != SHN_UNDEF && s->st_value &&
		ELF64_ST_TYPE(s->st_info) == STT_FUNC &&
		!strcmp(d->strings + s->st_name, symbol->name) &&
		version_fits(d, i, symbol);
}

/* Words: buckets, first symbol, Bloom filter's size (of 64 bits each), its
 * shift; the filter; the buckets; the chains.  0: not there. */
static uint32_t look_up_gnu(const struct dynamic *d,
			    const struct next_symbol *symbol)
{
	const uint32_t *head = d->gnu_hash, hash = symbol->gnu_hash;
	const uint64_t *filter = (const void *)(head + 4);
	const uint32_t *buckets = (const void *)(filter + head[2]);
	const uint32_t *chains = buckets + head[0];
	uint64_t word;
	uint32_t i;

	if (!head[0] || !head[2])
		return 0;
	word = filter[hash / 64 % head[2]];
	if (!(word >> hash % 64 & word >> (hash >> head[3]) % 64 & 1))
		return 0;
	i = buckets[hash % head[0]];
	if (i < head[1])
		return 0;
	do {
		if (!((chains[i - head[1]] ^ hash) >> 1) && fits(d, i, symbol))
			return i;
	} while (!(chains[i++ - head[1]] & 1));
	return 0;
}

/* Words: buckets, symbols; the buckets; the chains. */
static uint32_t look_up_sysv(const struct dynamic *d,
			     const struct next_symbol *symbol)
{
	const uint32_t *head = d->sysv_hash;
	const uint32_t *buckets = head + 2, *chains = buckets + head[0];
	uint32_t i = head[0] ? buckets[symbol->sysv_hash % head[0]] : 0;

	while (i && !fits(d, i, symbol))
		i = chains[i];
	return i;
}

static int look(struct dl_phdr_info *module, size_t size, void *search_)
{
	struct search *search = search_;
	struct dynamic d;

	(void)size;
	if (module_has(module, (uintptr_t)look, 0)) {
		search->is_behind = true;
		return 0;
	}
	if (!read_dynamic(module, &d))
		return 0;
	for (uint32_t i = 0; i < search->nr; i++) {
		struct next_symbol *symbol = &search->symbols[i];
		uint32_t found;

		if (symbol->next || (symbol->direct && !search->is_behind))
			continue;
		found = d.gnu_hash ? look_up_gnu(&d, symbol) :
			look_up_sysv(&d, symbol);
		if (!found)
			continue;
		if (search->is_behind)
			symbol->next = (void *)(module->dlpi_addr +
				d.symbols[found].st_value);
		if (!symbol->direct)
			symbol->direct = (void *)(module->dlpi_addr +
				d.symbols[found].st_value);
	}
	return 0;
}

static void hash(struct next_symbol *symbol)
{
	uint32_t gnu = 5381, sysv = 0;

	for (const char *at = symbol->name; *at; at++) {
		gnu = gnu * 33 + (uint8_t)*at;
		sysv = (sysv << 4) + (uint8_t)*at;
		sysv = (sysv ^ (sysv >> 24 & 0xf0)) & 0x0fffffff;
	}
	symbol->gnu_hash = gnu;
	symbol->sysv_hash = sysv;
}

void osrt_next_find(struct next_symbol *symbols, uint32_t nr)
{
	struct search search = { .symbols = symbols, .nr = nr };

	for (uint32_t i = 0; i < nr; i++)
		hash(&symbols[i]);
	dl_iterate_phdr(look, &search);
}
