/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_REAL_SYMBOL_H
#define GPUTRACE_COLLECTOR_REAL_SYMBOL_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The function behind one of ours that stands before it in the loader's order:
 * what the caller would have called, were we not here.
 *
 * It depends on the caller: one process may hold two versions of a library
 * (each needed by another one), or a copy that is linked into the caller, and
 * a handle of one is nothing to the other.  So what was found is kept for each
 * place that calls; looking it up again costs some 2 ns.
 *
 * One thing is taken for granted: that a caller which is unloaded does not make
 * room for another one, bound to another version, that makes the same call at
 * the same address.  (Keeping callers loaded would be a change to the program
 * that is worse.)
 */
struct real_symbol {
	const char *name;
	uint32_t name_len;
	const void *ours;               /* our function, or NULL */
	/* Where to look last (NULL: the end): libraries that are in nobody's
	 * scope, but loaded. */
	const char *const *libraries;
};

/* Of one that is called and not wrapped. */
#define REAL_SYMBOL(function, where) { .name = function, \
		.name_len = sizeof(function) - 1, .libraries = where }

/* The function, or NULL where no loaded library has it.  `caller`: the return
 * address in who called us.  What it is found in stays loaded.  Keeps errno.
 * Context: any thread of the program; at the first call from a place it takes
 * the loader's lock, after that none. */
void *real_symbol_find(const struct real_symbol *symbol, const void *caller);

/* Whether a call of the program can come to us: the global scope has ours, or
 * another wrapper that may pass on, before the library's own.
 * Context: any; takes the loader's lock. */
bool real_symbol_is_behind(const struct real_symbol *symbol);

#endif
