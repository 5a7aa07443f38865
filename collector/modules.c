/* SPDX-License-Identifier: MIT */
#include "collector/modules.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "collector/maps.h"
#include "collector/module_file.h"

/* A program with more has no stacks through the rest. */
enum { MODULES_MAX = 8192 };

static struct modules *_Atomic current;
static _Atomic uint32_t readers, wanted;

/* Tables that a reader may be in still, the newest first. */
static struct retired {
	struct retired *next;
	struct modules *modules;
} *retired;

const struct modules *modules_enter(void)
{
	/* Pairs with the load in free_retired(): who is not counted there
	 * loads the table that took the retired one's place. */
	atomic_fetch_add(&readers, 1);
	return atomic_load(&current);
}

void modules_leave(void)
{
	atomic_fetch_sub_explicit(&readers, 1, memory_order_release);
}

/* In one generation they only become more. */
uint64_t modules_version(void)
{
	const struct modules *modules = modules_enter();
	uint64_t version = modules ?
		(uint64_t)modules->generation << 32 | modules->nr : 0;

	modules_leave();
	return version;
}

const struct module *modules_find(const struct modules *modules, uintptr_t pc)
{
	uint32_t from = 0, to = modules ? modules->nr : 0, middle;

	while (from < to) {             /* the last that starts by pc */
		middle = from + (to - from) / 2;
		if (modules->list[middle].start <= pc)
			from = middle + 1;
		else
			to = middle;
	}
	if (from && pc < modules->list[from - 1].end)
		return &modules->list[from - 1];
	atomic_store_explicit(&wanted, 1, memory_order_relaxed);
	return NULL;
}

bool modules_are_wanted(void)
{
	return atomic_load_explicit(&wanted, memory_order_relaxed);
}

const char *module_path(const struct module *module)
{
	return module->file->path;
}

uint32_t module_build_id(const struct module *module, uint8_t id[BUILD_ID_MAX])
{
	memcpy(id, module->file->build_id, module->file->build_id_len);
	return module->file->build_id_len;
}

/* ---- The refresh ---- */

static void release(struct modules *modules)
{
	for (uint32_t i = 0; i < modules->nr; i++)
		module_file_put(modules->list[i].file);
	free(modules);
}

static void free_retired(void)
{
	struct retired *old;

	if (atomic_load(&readers))
		return;                 /* the next time, then */
	while ((old = retired)) {
		retired = old->next;
		release(old->modules);
		free(old);
	}
}

static bool retire(struct modules *modules)
{
	struct retired *old = malloc(sizeof *old);

	if (!old)
		return false;
	old->modules = modules;
	old->next = retired;
	retired = old;
	return true;
}

/* The file that the last table has for the same mapping. */
static struct module_file *known(const struct modules *last,
				 const struct maps_entry *entry)
{
	for (uint32_t i = 0; last && i < last->nr; i++)
		if (last->list[i].start == entry->start &&
		    last->list[i].file->inode == entry->inode &&
		    !strcmp(last->list[i].file->path, entry->path))
			return module_file_get(last->list[i].file);
	return NULL;
}

static void take_entry(struct modules *modules, const struct modules *last,
		       const struct maps_entry *entry)
{
	struct module *module = &modules->list[modules->nr];
	struct module_file *file;

	if (modules->nr == MODULES_MAX)
		return;
	file = known(last, entry);
	if (!file)
		file = module_file_open(entry);
	if (!file)
		return;
	*module = (struct module){
		.start = entry->start, .end = entry->end, .file = file,
		.bias = module_file_bias(file, entry),
		.part = file->part, .part_address = file->part_address,
		.part_size = file->part_size, .table = file->table,
	};
	modules->nr++;
}

/* All modules of `last` are there still. */
static bool has_all(const struct modules *modules, const struct modules *last)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < last->nr; i++) {
		while (at < modules->nr &&
		       modules->list[at].start < last->list[i].start)
			at++;
		if (at == modules->nr ||
		    modules->list[at].file != last->list[i].file)
			return false;
	}
	return true;
}

int modules_refresh(void)
{
	struct modules *last = atomic_load(&current), *now;
	struct maps maps;
	struct maps_entry entry;
	int error;

	atomic_store_explicit(&wanted, 0, memory_order_relaxed);
	free_retired();
	error = maps_open(&maps);
	if (error)
		return error;
	now = calloc(1, sizeof *now + MODULES_MAX * sizeof now->list[0]);
	while (now && maps_next_code(&maps, &entry))
		take_entry(now, last, &entry);
	maps_close(&maps);
	if (!now)
		return -ENOMEM;
	now->generation = last ? last->generation + !has_all(now, last) : 0;
	if (last && now->nr == last->nr &&
	    now->generation == last->generation) {
		release(now);           /* nothing has changed */
		return 0;
	}
	if (last && !retire(last)) {
		release(now);
		return -ENOMEM;
	}
	atomic_store(&current, now);
	return 1;
}

void modules_forget(void)
{
	atomic_store(&readers, 0);
}
