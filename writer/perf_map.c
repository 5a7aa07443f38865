/* SPDX-License-Identifier: MIT */
#include "writer/perf_map.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES_MAX = 8 << 20, LINE_SIZE = 1024, ENTRIES_MAX = 256 << 10 };

/* A line: what is asked of each address, and where the rest is. */
struct entry {
	uint64_t start;
	uint32_t length, offset;
};

/* The file grows at its end: what was read once is not read again. */
static struct {
	uint32_t pid;
	ino_t inode;
	off_t seen;
	struct entry *list;
	uint32_t nr, room;
} map;

/* One of another user tells nothing of ours. */
static int open_map(uint32_t pid, struct stat *found)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/tmp/perf-%u.map", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd >= 0 && (fstat(fd, found) || !S_ISREG(found->st_mode) ||
			found->st_uid != geteuid())) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* The name, or NULL: it is no such line. */
static const char *split(const char *line, struct entry *entry)
{
	char *end;
	uint64_t length;

	entry->start = strtoull(line, &end, 16);
	length = *end == ' ' ? strtoull(end, &end, 16) : 0;
	entry->length = length < UINT32_MAX ? (uint32_t)length : UINT32_MAX;
	return length && *end == ' ' && end[1] ? end + 1 : NULL;
}

static void keep(const struct entry *entry)
{
	uint32_t room = map.room ? 2 * map.room : 1024;
	struct entry *list;

	if (map.nr == map.room) {
		list = room <= ENTRIES_MAX ?
			realloc(map.list, room * sizeof(*list)) : NULL;
		if (!list)
			return;
		map.list = list;
		map.room = room;
	}
	map.list[map.nr++] = *entry;
}

/* A line that has no end yet is read again. */
static void read_on(int fd)
{
	char line[LINE_SIZE];
	ssize_t len;

	while (map.seen < BYTES_MAX &&
	       (len = pread(fd, line, sizeof(line) - 1, map.seen)) > 0) {
		char *end = memchr(line, '\n', (size_t)len);
		struct entry entry = { .offset = (uint32_t)map.seen };

		if (!end && len < (ssize_t)sizeof(line) - 1)
			break;
		*(end ? end : line + len) = 0;
		if (split(line, &entry))
			keep(&entry);
		map.seen += end ? end + 1 - line : len;
	}
}

static bool read_name(int fd, uint32_t offset, char *name, size_t size)
{
	char line[LINE_SIZE];
	ssize_t len = pread(fd, line, sizeof(line) - 1, offset);
	struct entry entry;
	const char *text;

	line[len > 0 ? len : 0] = 0;
	line[strcspn(line, "\n")] = 0;
	text = split(line, &entry);
	if (text)
		snprintf(name, size, "%s", text);
	return text;
}

bool perf_map_find(uint32_t pid, uint64_t address, char *name, size_t size)
{
	struct stat found;
	int fd = open_map(pid, &found);
	bool is_found = false;
	uint32_t i;

	if (fd < 0)
		return false;
	/* In the child of a fork the table may be half of one: left alone. */
	if (map.pid != pid)
		memset(&map, 0, sizeof(map));
	map.pid = pid;
	if (map.inode != found.st_ino || map.seen > found.st_size) {
		map.inode = found.st_ino;
		map.seen = 0;
		map.nr = 0;
	}
	read_on(fd);
	for (i = map.nr; i-- > 0 && !is_found;)
		if (address - map.list[i].start < map.list[i].length)
			is_found = read_name(fd, map.list[i].offset, name,
					     size);
	close(fd);
	return is_found;
}
