/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_MODULES_H
#define GPUTRACE_COLLECTOR_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The program's modules (its file, its libraries, the vDSO) as a table that a
 * signal handler can read: by address, without a lock.
 *
 *   /proc/self/maps --modules_refresh()--> table ----> modules_find()
 *
 * Not dl_iterate_phdr(): that takes the loader's lock, which the interrupted
 * thread, or one that waits for it, may have.  Unwind tables are read in a
 * mapping of the file of our own: dlclose() takes the program's away, ours
 * stays until no reader can be in it.
 */
enum { BUILD_ID_MAX = 20 };

struct module {
	uintptr_t start, end;           /* of its code, in memory */
	uintptr_t bias;                 /* address in memory - in the file */
	struct module_file *file;
	/* The part of the file that holds the unwind tables: NULL: none. */
	const uint8_t *part;
	uintptr_t part_address;         /* in the file's own addresses */
	size_t part_size;
	uintptr_t table;                /* .eh_frame_hdr, likewise */
};

struct modules {
	uint32_t generation;            /* grows when one has gone */
	uint32_t nr;
	struct module list[];           /* by address */
};

/* Another one where anything has come or gone, 0 before the first refresh.
 * Context: any thread, signal-safe. */
uint64_t modules_version(void);

/* What is there now, until modules_leave(); NULL before the first refresh.
 * Context: any thread, signal-safe. */
const struct modules *modules_enter(void);
void modules_leave(void);

/* Whose code it is, or NULL: then modules_are_wanted() is true until the next
 * refresh.  Context: between enter and leave. */
const struct module *modules_find(const struct modules *modules,
				  uintptr_t pc);
bool modules_are_wanted(void);

/* The file it was loaded from, "[vdso]" for the vDSO. */
const char *module_path(const struct module *module);
/* Returns its length, 0 where it has none. */
uint32_t module_build_id(const struct module *module,
			 uint8_t id[BUILD_ID_MAX]);

/* Reads /proc/self/maps again, and what is new.  1: the table is another; 0:
 * it is as it was; or -errno.
 * Context: one of our own threads, one at a time. */
int modules_refresh(void);

/* In the child of a fork: no reader is left. */
void modules_forget(void);

#endif
