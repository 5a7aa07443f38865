/* SPDX-License-Identifier: MIT */
#include "collector/real_symbol.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "collector/pin.h"

/*
 * Places that call, by address.  A slot is taken once and never changes: its
 * caller is written last, and read first.  1024: PyTorch has some dozen places
 * for each of the functions that it uses; beyond that every call searches.
 */
#define NR_PLACES 1024
#define NR_PROBES 8

static struct place {
	const void *_Atomic caller;
	const struct real_symbol *symbol;
	void *function;
} places[NR_PLACES];

/* In a slot that a thread is writing. */
static const char busy;

static uint32_t first_place(const struct real_symbol *symbol,
			    const void *caller)
{
	uintptr_t key = (uintptr_t)caller ^ ((uintptr_t)symbol >> 3);

	return (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 40);
}

static void keep(const struct real_symbol *symbol, const void *caller,
		 void *function)
{
	uint32_t i, at = first_place(symbol, caller);

	for (i = 0; i < NR_PROBES; i++) {
		struct place *place = &places[(at + i) % NR_PLACES];
		const void *empty = NULL;

		if (!atomic_compare_exchange_strong(&place->caller, &empty,
						    &busy))
			continue;
		place->symbol = symbol;
		place->function = function;
		/* Pairs with the acquire in real_symbol_find(). */
		atomic_store_explicit(&place->caller, caller,
				      memory_order_release);
		return;
	}
}

/* In the caller's library and in what that needs. */
static void *find_beside(const char *name, const void *caller,
			 bool *is_its_own)
{
	void *library, *function = NULL;
	Dl_info where, found;

	*is_its_own = false;
	if (!dladdr(caller, &where) || !where.dli_fname)
		return NULL;
	library = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (!library)
		return NULL;
	function = dlsym(library, name);
	dlclose(library);
	*is_its_own = function && dladdr(function, &found) &&
		found.dli_fbase == where.dli_fbase;
	return function;
}

static void *find_loaded(const struct real_symbol *symbol)
{
	const char *const *name = symbol->libraries;
	void *library, *function = NULL;

	for (; !function && *name; name++) {
		library = dlopen(*name, RTLD_NOW | RTLD_NOLOAD);
		if (!library)
			continue;
		function = dlsym(library, symbol->name);
		dlclose(library);
	}
	return function;
}

/* What the global scope has first.  (RTLD_DEFAULT would find ours: we are
 * linked with -Bsymbolic.) */
static void *find_first_in_scope(const char *name)
{
	void *program = dlopen(NULL, RTLD_LAZY), *function = NULL;

	if (program) {
		function = dlsym(program, name);
		dlclose(program);
	}
	return function;
}

/* By its file's name: "libcublas" of libcublas.so.13.  Anything else that has
 * the symbol is a wrapper like ours, or has the library linked in. */
static bool is_of_library(const struct real_symbol *symbol,
			  const void *function)
{
	size_t len = strcspn(symbol->libraries[0], ".");
	const char *path, *slash;
	Dl_info where;

	if (!dladdr(function, &where) || !where.dli_fname)
		return false;
	path = where.dli_fname;
	slash = strrchr(path, '/');
	return !strncmp(slash ? slash + 1 : path, symbol->libraries[0], len);
}

bool real_symbol_is_behind(const struct real_symbol *symbol)
{
	void *first = find_first_in_scope(symbol->name);

	return first && !is_of_library(symbol, first);
}

/*
 * As the loader: the global scope behind us, then the caller's own.  Only that
 * a symbol of the libraries has a version, by which each caller is bound to
 * the library that it was linked to, and dlsym() knows nothing of it.
 */
static void *search(const struct real_symbol *symbol, const void *caller)
{
	void *next = dlsym(RTLD_NEXT, symbol->name), *beside;
	bool is_its_own;

	if (next && !is_of_library(symbol, next))
		return next;
	beside = find_beside(symbol->name, caller, &is_its_own);
	/* The program itself searches the global scope, where we are. */
	if (beside == symbol->ours)
		beside = NULL;
	if (beside && !is_its_own)
		return beside;
	if (next)
		return next;
	/* A copy in the caller itself (NCCL in libtorch_cuda): unless another
	 * preload stands before us, whose wrapper would come back to us. */
	if (beside && find_first_in_scope(symbol->name) != beside)
		return beside;
	return find_loaded(symbol);
}

/* Apart, so that what every call does needs no stack. */
static __attribute__((noinline)) void *
find_first(const struct real_symbol *symbol, const void *caller)
{
	int saved = errno;
	void *function = search(symbol, caller);

	if (function) {
		(void)pin_library(function);
		keep(symbol, caller, function);
	}
	errno = saved;
	return function;
}

void *real_symbol_find(const struct real_symbol *symbol, const void *caller)
{
	uint32_t i, at = first_place(symbol, caller);

	for (i = 0; i < NR_PROBES; i++) {
		struct place *place = &places[(at + i) % NR_PLACES];
		const void *known = atomic_load_explicit(&place->caller,
							 memory_order_acquire);

		if (known == caller && place->symbol == symbol)
			return place->function;
		if (!known)
			break;
	}
	return find_first(symbol, caller);
}
