/* SPDX-License-Identifier: MIT */
#include "inject/environment.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "collector/wait.h"

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

enum { OPEN, PUTTING, SEALED };
static _Atomic uint32_t state;

enum { SEAL_LOOKS = 100 };
#define SEAL_WAIT_NS 1000000u

static const char *const prefixes[] = {
	"GPUTRACE_", "LD_PRELOAD=", "CUDA_INJECTION64_PATH=",
	"NVTX_INJECTION64_PATH=", "TMPDIR=",
	"NCCL_PROFILER_PLUGIN=", "NCCL_CONF_FILE=", "HOME=",
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

static size_t find(const char *name, size_t len)
{
	size_t i = 0;

	while (i < nr_entries && (strncmp(entries[i].name, name, len) ||
				  entries[i].name[len]))
		i++;
	return i;
}

/* "NAME=VALUE" of that length.  Of two in the environment the first counts,
 * as for getenv(). */
static void keep(const char *entry, size_t len, bool replace)
{
	const char *equals = memchr(entry, '=', len);
	char *copy = kept + nr_bytes;
	size_t at;

	if (!equals)
		return;
	at = find(entry, (size_t)(equals - entry));
	if (at < nr_entries && !replace)
		return;
	if (at == KEPT_NAMES || len + 1 > KEPT_BYTES - nr_bytes) {
		is_cut = 1;
		return;
	}
	memcpy(copy, entry, len);
	copy[len] = 0;
	copy[equals - entry] = 0;
	entries[at].name = copy;
	entries[at].value = copy + (equals - entry) + 1;
	nr_entries += at == nr_entries;
	nr_bytes += len + 1;
}

void environment_keep(void)
{
	if (nr_entries)
		return;
	for (char **entry = environ; entry && *entry; entry++)
		if (is_ours(*entry))
			keep(*entry, strlen(*entry), false);
}

bool environment_put(const char *lines)
{
	uint32_t open = OPEN;
	size_t len;

	if (!atomic_compare_exchange_strong(&state, &open, PUTTING))
		return false;
	for (; *lines; lines += len + (lines[len] == '\n')) {
		len = strcspn(lines, "\n");
		if (!strncmp(lines, "GPUTRACE_", 9))
			keep(lines, len, true);
	}
	atomic_store(&state, OPEN);
	return true;
}

void environment_seal(void)
{
	uint32_t open = OPEN;

	/* A debugger may hold who is putting. */
	for (int i = 0; i < SEAL_LOOKS && !atomic_compare_exchange_strong(
			&state, &open, SEALED) && open == PUTTING; i++) {
		open = OPEN;
		wait_change(&state, PUTTING, SEAL_WAIT_NS);
	}
}

const char *environment_get(const char *name)
{
	size_t at = find(name, strlen(name));

	return at < nr_entries ? entries[at].value : NULL;
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
