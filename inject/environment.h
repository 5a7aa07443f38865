/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_ENVIRONMENT_H
#define GPUTRACE_INJECT_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The environment as it was when the library was loaded.  Read once, before
 * the program's threads can change it (getenv races with setenv) and before
 * the program can overwrite it (servers that set their process title do).
 * Only variables that we know are kept; others, secrets among them, never.
 */
void environment_keep(void);

/* The kept value, or NULL.  Context: any thread, after environment_keep(). */
const char *environment_get(const char *name);

/* The n-th kept name that begins with GPUTRACE_, or NULL past the last. */
const char *environment_own(size_t n);

/* Settings that go before the environment's: "NAME=VALUE" lines.  Only names
 * that begin with GPUTRACE_ count.  False: they have been read already.
 * Context: any thread, after environment_keep(); no memory, no lock. */
bool environment_put(const char *lines);

/* From now on nothing is put any more.  Context: attach, before the settings
 * are read. */
void environment_seal(void);

/* True if more was set than is kept. */
int environment_is_cut(void);

#endif
