/* SPDX-License-Identifier: MIT */
#include "writer/perf_map.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES_MAX = 8 << 20, LINE_SIZE = 1024 };

/* One of another user tells nothing of ours. */
static FILE *open_map(uint32_t pid)
{
	char path[64];
	struct stat found;
	FILE *file;
	int fd;

	snprintf(path, sizeof(path), "/tmp/perf-%u.map", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0)
		return NULL;
	file = !fstat(fd, &found) && S_ISREG(found.st_mode) &&
		found.st_uid == geteuid() ? fdopen(fd, "r") : NULL;
	if (!file)
		close(fd);
	return file;
}

static bool take_line(const char *line, uint64_t address, char *name,
		      size_t size)
{
	char *end;
	uint64_t start = strtoull(line, &end, 16);
	uint64_t length = *end == ' ' ? strtoull(end, &end, 16) : 0;

	if (address - start >= length || *end != ' ')
		return false;
	snprintf(name, size, "%.*s", (int)strcspn(end + 1, "\n"), end + 1);
	return *name;
}

bool perf_map_find(uint32_t pid, uint64_t address, char *name, size_t size)
{
	char line[LINE_SIZE];
	size_t bytes = 0;
	bool is_found = false;
	FILE *file = open_map(pid);

	while (file && bytes < BYTES_MAX && fgets(line, sizeof(line), file)) {
		size_t len = strlen(line);

		/* What has zeros in it was longer. */
		bytes += len && line[len - 1] == '\n' ? len : sizeof(line);
		is_found |= take_line(line, address, name, size);
	}
	if (file)
		fclose(file);
	return is_found;
}
