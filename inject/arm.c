/* SPDX-License-Identifier: MIT */
#include "inject/arm.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collector/log.h"

/* Each time, another thread has put in a variable of its own. */
enum { TRIES = 8 };

static char own_path[PATH_MAX];

/* A library that `gputrace attach` handed over in memory has no other name,
 * and keeps its descriptor. */
static const char in_memory[] = "/proc/self/fd/";

const char *arm_path(void)
{
	Dl_info self;

	if (*own_path)
		return own_path;
	if (!dladdr((void *)arm_path, &self) || !self.dli_fname)
		return NULL;
	if (!realpath(self.dli_fname, own_path))
		snprintf(own_path, sizeof own_path, "%s",
			 strncmp(self.dli_fname, in_memory,
				 sizeof in_memory - 1) ? "" : self.dli_fname);
	return *own_path ? own_path : NULL;
}

/* The variable's place in that environment, or that of the NULL at its end. */
static size_t find(char **entries, const char *variable, size_t len)
{
	size_t i = 0;

	while (entries && entries[i] && (strncmp(entries[i], variable, len) ||
					 entries[i][len] != '='))
		i++;
	return i;
}

/* One more entry in a copy; false where somebody was faster or there is no
 * memory. */
static bool publish(char **old, size_t nr, char *entry)
{
	char **new = malloc((nr + 2) * sizeof *new);

	if (!new)
		return false;
	if (nr)
		memcpy(new, old, nr * sizeof *new);
	new[nr] = entry;
	new[nr + 1] = NULL;
	if (__atomic_compare_exchange_n(&environ, &old, new, false,
					__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return true;
	free(new);
	return false;
}

static bool set(const char *variable, char *entry)
{
	size_t len = strlen(variable), nr;
	char **old;

	for (int i = 0; i < TRIES; i++) {
		old = __atomic_load_n(&environ, __ATOMIC_SEQ_CST);
		nr = find(old, variable, len);
		if (old && old[nr]) {
			free(entry);
			return true;
		}
		if (publish(old, nr, entry))
			return true;
	}
	free(entry);
	return false;
}

void arm(const char *variable)
{
	size_t size = strlen(variable) + strlen(own_path) + 2;
	char *entry;

	if (!*own_path)
		return;
	entry = malloc(size);
	if (entry)
		snprintf(entry, size, "%s=%s", variable, own_path);
	/* "CUDA", "NVTX", "NCCL". */
	if (!entry || !set(variable, entry))
		log_line(LOG_WARN, "no memory for %s, by which %.4s finds us",
			 variable, variable);
}
