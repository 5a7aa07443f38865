/* SPDX-License-Identifier: MIT */
/*
 * What /proc tells of a container: cgroup and mountinfo of a process, which
 * may give its groups and mounts any name.  The input is the one, a NUL, the
 * other.  What comes out is letters, digits and dashes, whatever goes in.
 */
#include "test/fuzz/fuzz.h"
#include "tools/container.h"

static char *text(const uint8_t *bytes, size_t size)
{
	char *copy = malloc(size + 1);  /* ends where the text does */

	MUST(copy);
	memcpy(copy, bytes, size);
	copy[size] = '\0';
	return copy;
}

static void check(const struct container *c)
{
	static const char hex[] = "0123456789abcdef";
	size_t pod = strlen(c->pod);

	MUST(!c->id[0] || strspn(c->id, hex) == 64);
	MUST(strlen(c->id) <= 64);
	MUST(!pod || (pod >= 32 && pod <= 36));
	MUST(c->pod[strspn(c->pod, "0123456789abcdef-")] == '\0');
	MUST(c->runtime || (!c->id[0] && !c->pod[0]));
	MUST(!c->runtime == !*container_runtime(c));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const uint8_t *nul = memchr(bytes, 0, size);
	size_t len = nul ? (size_t)(nul - bytes) : size;
	char *cgroup = text(bytes, len);
	char *mounts = nul ? text(nul + 1, size - len - 1) : NULL;
	struct container found;

	MUST(container_find(cgroup, mounts, &found) ==
	     (found.runtime != RUNTIME_NONE));
	check(&found);
	free(cgroup);
	free(mounts);
	return 0;
}
