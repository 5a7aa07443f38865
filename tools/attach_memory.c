/* SPDX-License-Identifier: MIT */
#include "tools/attach_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/doctor_look.h"
#include "tools/vec.h"

enum {
	MAPS_MAX = 64 << 20,            /* some 600,000 mappings */
};

int memory_open(struct memory *m, pid_t pid)
{
	char path[64];

	memset(m, 0, sizeof(*m));
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	m->fd = open(path, O_RDWR | O_CLOEXEC);
	return m->fd < 0 ? -errno : memory_map(m, pid);
}

void memory_close(struct memory *m)
{
	if (m->fd >= 0)
		close(m->fd);
	free(m->maps);
	free(m->regions);
	m->fd = -1;
}

/* "start-end rwxp offset dev inode      path" */
static void read_region(struct memory *m, char *line)
{
	const struct region *before;
	unsigned long long start, end, offset;
	struct region r = { .path = "" };
	char flags[8];
	int at = 0;

	if (sscanf(line, "%llx-%llx %7s %llx %*s %*s %n", &start, &end, flags,
		   &offset, &at) < 4 || !VEC_ROOM(m->regions, m->nr, m->cap))
		return;
	if (at)
		r.path = line + at;
	r.start = start;
	r.end = end;
	r.is_write = flags[1] == 'w';
	r.is_exec = flags[2] == 'x';
	r.base = start;
	before = m->nr ? &m->regions[m->nr - 1] : NULL;
	if (offset && before && *r.path && !strcmp(before->path, r.path))
		r.base = before->base;
	m->regions[m->nr++] = r;
}

int memory_map(struct memory *m, pid_t pid)
{
	struct look machine = { .fd = -1 };
	char path[64], *line, *end;
	size_t len;

	free(m->maps);
	m->nr = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	m->maps = look_slurp(&machine, path, MAPS_MAX, &len);
	if (!m->maps)
		return -errno;
	for (line = m->maps; *line; line = end) {
		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = '\0';
		read_region(m, line);
	}
	return m->nr ? 0 : -ESRCH;
}

bool memory_read(const struct memory *m, uint64_t at, void *to, size_t size)
{
	return at < INT64_MAX &&
		pread(m->fd, to, size, (off_t)at) == (ssize_t)size;
}

bool memory_write(const struct memory *m, uint64_t at, const void *from,
		  size_t size)
{
	return at < INT64_MAX &&
		pwrite(m->fd, from, size, (off_t)at) == (ssize_t)size;
}

const struct region *memory_at(const struct memory *m, uint64_t address)
{
	size_t low = 0, high = m->nr;

	while (low < high) {
		size_t i = low + (high - low) / 2;

		if (address >= m->regions[i].end)
			low = i + 1;
		else if (address < m->regions[i].start)
			high = i;
		else
			return &m->regions[i];
	}
	return NULL;
}

/* "libc" is "/lib/libc.so.6" and "/lib/libc-2.31.so", not "libc10.so" */
static bool is_named(const char *path, const char *name)
{
	const char *file = strrchr(path, '/');
	size_t len = strlen(name);

	if (!file || strncmp(file + 1, name, len))
		return false;
	file += 1 + len;
	return !strncmp(file, ".so", 3) ||
		(*file == '-' && file[1] >= '0' && file[1] <= '9');
}

const struct region *memory_library(const struct memory *m, const char *name)
{
	for (size_t i = 0; i < m->nr; i++)
		if (is_named(m->regions[i].path, name))
			return &m->regions[i];
	return NULL;
}
