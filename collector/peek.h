/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_PEEK_H
#define GPUTRACE_COLLECTOR_PEEK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads memory that may not be there: pointers found in somebody else's
 * structures while they are being changed.
 *
 * A page is asked for once a struct peek, which lives as long as one walk:
 * rt_sigprocmask() with an impossible `how` reads 8 bytes and then refuses,
 * with EFAULT if they cannot be read and EINVAL if they can.  It changes
 * nothing, and no filter of system calls refuses it, as one may
 * process_vm_readv(), which also waits for the process's memory map to be
 * free.  Between question and read another thread could unmap the page;
 * whoever walks says why it does not.
 */
#define PEEK_PAGES 64           /* a power of two */

struct peek {
	uintptr_t pages[PEEK_PAGES];    /* numbers of pages that are there */
};

/* False where the trick does not work (an emulated kernel): do not peek. */
bool peek_works(void);

/* False if the bytes cannot be read; *to is then undefined.
 * Context: any thread, signal-safe; sets errno. */
bool peek_copy(struct peek *peek, void *to, uintptr_t from, size_t size);

bool peek_word(struct peek *peek, uintptr_t from, uintptr_t *word);

#endif
