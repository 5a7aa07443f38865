/* SPDX-License-Identifier: MIT */
#include "inject/room.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "collector/text_file.h"

static const struct {
	const char *controller; /* as /proc/self/cgroup names it */
	const char *root, *file;
} versions[] = {
	{ "::", "/sys/fs/cgroup", "memory.max" },
	{ ":memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes" },
};

enum { NR_VERSIONS = sizeof versions / sizeof *versions };

/* "max" is no number, and means none. */
static uint64_t read_limit(int version, const char *group)
{
	char path[PATH_MAX], text[32], *end;
	uint64_t limit;

	if ((size_t)snprintf(path, sizeof path, "%s%s/%s",
			     versions[version].root, group,
			     versions[version].file) >= sizeof path)
		return UINT64_MAX;
	text_file_read(path, text, sizeof text);
	limit = strtoull(text, &end, 10);
	return end == text || !limit ? UINT64_MAX : limit;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Of the group that /proc names and all above it.  In a container the name may
 * be the host's, and the group is the root of what is mounted. */
static uint64_t group_limit(int version, const char *groups)
{
	const char *at = strstr(groups, versions[version].controller);
	uint64_t limit = read_limit(version, "");
	char group[1024], *slash;

	if (!at)
		return limit;
	at += strlen(versions[version].controller);
	snprintf(group, sizeof group, "%.*s", (int)strcspn(at, "\n"), at);
	while ((slash = strrchr(group, '/'))) {
		limit = least(limit, read_limit(version, group));
		*slash = 0;
	}
	return limit;
}

uint64_t room_bytes(void)
{
	char groups[4096];
	uint64_t bytes = UINT64_MAX;
	struct rlimit limit;

	if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY)
		bytes = limit.rlim_cur;
	text_file_read("/proc/self/cgroup", groups, sizeof groups);
	for (int i = 0; i < NR_VERSIONS; i++)
		bytes = least(bytes, group_limit(i, groups));
	return bytes;
}
