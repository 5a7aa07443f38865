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
 * A page is asked for once a struct peek, which lives as long as one walk, or
 * as what is read cannot go away (python_calls.h): rt_sigprocmask() with an
 * impossible `how` reads 8 bytes and then refuses, with EFAULT if they cannot
 * be read and EINVAL if they can.  It changes nothing, and no filter of system
 * calls refuses it, as one may process_vm_readv(), which also waits for the
 * process's memory map to be free.  Between question and read another thread
 * could unmap the page; whoever walks says why it does not.
 */
#define PEEK_PAGES 64           /* a power of two */
#define PEEK_MORE 512           /* the modules of a model, each in another */

struct peek {
	uintptr_t pages[PEEK_PAGES];    /* numbers of pages that are there */
	uintptr_t *more;                /* PEEK_MORE of them; NULL: none */
};

/* False where the trick does not work (an emulated kernel): do not peek. */
bool peek_works(void);

/* False if the bytes cannot be read; *to is then undefined.
 * Context: any thread, signal-safe; sets errno. */
bool peek_copy(struct peek *peek, void *to, uintptr_t from, size_t size);

#define PEEK_PAGE_SHIFT 12      /* the smallest page that Linux has */

/* What lies there belongs to others, who may be changing it or have freed it:
 * the sanitizers are right, and it does not matter. */
#define PEEK_UNCHECKED __attribute__((no_sanitize("address", "thread")))

/* peek_word() of a page that is not known yet, or of an unaligned word. */
bool peek_other_word(struct peek *peek, uintptr_t from, uintptr_t *word);

/* As peek_copy() of one word.
 * Inlined: most of what is read are words of pages that were read before. */
PEEK_UNCHECKED static inline bool peek_word(struct peek *peek, uintptr_t from,
					    uintptr_t *word)
{
	uintptr_t page = from >> PEEK_PAGE_SHIFT;

	if (from % sizeof(*word) || !page ||
	    peek->pages[page % PEEK_PAGES] != page)
		return peek_other_word(peek, from, word);
	*word = *(volatile uintptr_t *)from;
	return true;
}

#endif
