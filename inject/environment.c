/* SPDX-License-Identifier: MIT */
#include "inject/environment.h"

#include <string.h>
#include <unistd.h>

/* 16 KiB hold three paths of PATH_MAX and all settings. */
#define KEPT_BYTES 16384
#define KEPT_NAMES 64

static char kept[KEPT_BYTES];
static struct {
	const char *name;
	const char *value;
} entries[KEPT_NAMES];
static size_t nr_entries, nr_bytes;
static int is_cut;

static const char *const prefixes[] = {
	"GPUTRACE_", "LD_PRELOAD=", "CUDA_INJECTION64_PATH=",
	"NVTX_INJECTION64_PATH=", "TMPDIR=",
	"RANK=", "LOCAL_RANK=", "WORLD_SIZE=",
	"OMPI_COMM_WORLD_RANK=", "OMPI_COMM_WORLD_LOCAL_RANK=",
	"OMPI_COMM_WORLD_SIZE=", "PMI_RANK=", "PMI_SIZE=",
	"MPI_LOCALRANKID=", "SLURM_PROCID=", "SLURM_LOCALID=",
	"SLURM_NTASKS=",
};

static int is_ours(const char *entry)
{
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
		if (!strncmp(entry, prefixes[i], strlen(prefixes[i])))
			return 1;
	return 0;
}

static void keep(const char *entry)
{
	const char *equals = strchr(entry, '=');
	size_t size = strlen(entry) + 1;
	char *copy = kept + nr_bytes;

	if (!equals)
		return;
	if (nr_entries == KEPT_NAMES || size > KEPT_BYTES - nr_bytes) {
		is_cut = 1;
		return;
	}
	memcpy(copy, entry, size);
	copy[equals - entry] = 0;
	entries[nr_entries].name = copy;
	entries[nr_entries++].value = copy + (equals - entry) + 1;
	nr_bytes += size;
}

void environment_keep(void)
{
	if (nr_entries)
		return;
	for (char **entry = environ; entry && *entry; entry++)
		if (is_ours(*entry))
			keep(*entry);
}

const char *environment_get(const char *name)
{
	for (size_t i = 0; i < nr_entries; i++)
		if (!strcmp(entries[i].name, name))
			return entries[i].value;
	return NULL;
}

const char *environment_own(size_t n)
{
	for (size_t i = 0; i < nr_entries; i++)
		if (!strncmp(entries[i].name, "GPUTRACE_", 9) && n-- == 0)
			return entries[i].name;
	return NULL;
}

int environment_is_cut(void)
{
	return is_cut;
}
