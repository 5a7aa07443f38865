/* SPDX-License-Identifier: MIT */
#include "tools/big.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/vec.h"

/* Smaller ones are malloc()'s, and not counted. */
#define LEAST_BYTES ((size_t)1 << 20)

/* No setting of the library, which would complain of it. */
#define LIMIT_VARIABLE "GPUREPORT_MEMORY"
#define DEFAULT_LIMIT ((size_t)512 << 20)

struct mapping {
	void *at;
	size_t size;
	int fd;                 /* -1: in memory */
};

static struct mapping *mappings;
static size_t nr_mappings, cap_mappings, in_memory;
static bool is_told;

static size_t limit(void)
{
	static const char units[] = "KMG";
	const char *text = getenv(LIMIT_VARIABLE), *unit;
	unsigned long long n;
	char *end;

	if (!text || *text < '0' || *text > '9')
		return DEFAULT_LIMIT;
	n = strtoull(text, &end, 10);
	unit = *end ? strchr(units, *end) : NULL;
	return unit ? n << 10 * (unit - units + 1) : n;
}

static struct mapping *find(const void *array)
{
	for (size_t i = 0; array && i < nr_mappings; i++)
		if (mappings[i].at == array)
			return &mappings[i];
	return NULL;
}

static struct mapping *add(void)
{
	return VEC_ROOM(mappings, nr_mappings, cap_mappings) ?
		&mappings[nr_mappings++] : NULL;
}

/* ---- Files without a name ---- */

static int open_file(const char *folder)
{
	char path[4096];
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
		return fd;
	if (snprintf(path, sizeof(path), "%s/gputrace-XXXXXX", folder) >=
	    (int)sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}

/* Room on the disk, all of it now: a write to a mapping where the disk is full
 * would end the process. */
static bool reserve(int fd, size_t from, size_t to)
{
	int error = posix_fallocate(fd, (off_t)from, (off_t)(to - from));

	errno = error;
	return !error;
}

static void tell(const char *folder)
{
	if (!is_told)
		fprintf(stderr, "gputrace: %s: %s: no file for what is beyond "
			"%zu MiB (" LIMIT_VARIABLE "); it stays in memory\n",
			folder, strerror(errno), limit() >> 20);
	is_told = true;
}

/* A descriptor with room, or -1 after one line. */
static int make_file(size_t bytes)
{
	const char *folder = getenv("TMPDIR");
	int fd;

	if (!folder || !*folder)
		folder = "/tmp";
	fd = open_file(folder);
	if (fd >= 0 && reserve(fd, 0, bytes))
		return fd;
	tell(folder);
	if (fd >= 0)
		close(fd);
	return -1;
}

/* ---- Mappings ---- */

static bool map(struct mapping *m, size_t bytes)
{
	*m = (struct mapping){ .size = bytes, .fd = -1 };
	if (in_memory + bytes > limit() && !is_told)
		m->fd = make_file(bytes);
	m->at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, m->fd < 0 ?
		     MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, m->fd, 0);
	if (m->at == MAP_FAILED) {
		if (m->fd >= 0)
			close(m->fd);
		return false;
	}
	if (m->fd < 0)
		in_memory += bytes;
	return true;
}

static void unmap(const struct mapping *m)
{
	munmap(m->at, m->size);
	if (m->fd >= 0)
		close(m->fd);
	else
		in_memory -= m->size;
}

/* In its place, or where there is room; false: it has to move elsewhere. */
static bool widen(struct mapping *m, size_t bytes)
{
	void *at;

	if (m->fd < 0 && in_memory - m->size + bytes > limit() && !is_told)
		return false;
	if (m->fd >= 0 && !reserve(m->fd, m->size, bytes))
		return false;
	at = mremap(m->at, m->size, bytes, MREMAP_MAYMOVE);
	if (at == MAP_FAILED)
		return false;
	if (m->fd < 0)
		in_memory += bytes - m->size;
	m->at = at;
	m->size = bytes;
	return true;
}

static void *move(struct mapping *m, size_t bytes)
{
	struct mapping wider;

	if (!map(&wider, bytes))
		return NULL;
	memcpy(wider.at, m->at, m->size);
	unmap(m);
	*m = wider;
	return m->at;
}

static void *map_new(void *array, size_t old_bytes, size_t bytes)
{
	struct mapping *m = add();

	if (!m)
		return NULL;
	if (!map(m, bytes)) {
		nr_mappings--;
		return NULL;
	}
	if (old_bytes)
		memcpy(m->at, array, old_bytes);
	free(array);
	return m->at;
}

static void *resize(void *array, size_t old_bytes, size_t bytes)
{
	struct mapping *m = find(array);

	if (m)
		return widen(m, bytes) ? m->at : move(m, bytes);
	if (bytes < LEAST_BYTES)
		return realloc(array, bytes);
	return map_new(array, old_bytes, bytes);
}

/* ---- What others call ---- */

void *big_alloc(size_t bytes)
{
	return bytes < LEAST_BYTES ? calloc(1, bytes ? bytes : 1) :
		map_new(NULL, 0, bytes);
}

void big_free(void *array)
{
	struct mapping *m = find(array);

	if (!m) {
		free(array);
		return;
	}
	unmap(m);
	*m = mappings[--nr_mappings];
	if (nr_mappings)
		return;
	free(mappings);
	mappings = NULL;
	cap_mappings = 0;
}

bool big_room(void **array, size_t *cap, size_t nr, size_t element_size)
{
	return vec_room_by(resize, array, cap, nr, element_size);
}
