/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/doctor.h"

/* ld.so(8): behind LD_LIBRARY_PATH and the cache. */
static const char *const folders[] = {
	"/lib/*-linux-gnu/", "/usr/lib/*-linux-gnu/", "/lib64/",
	"/usr/lib64/", "/lib/", "/usr/lib/",
};

/* /etc/ld.so.cache, glibc's sysdeps/generic/dl-cache.h: a header, entries,
 * strings; offsets count from the header. */
static const char cache_magic[] = "glibc-ld.so.cache1.1";

enum {
	CACHE_MAX = 16 << 20,
	CACHE_HEADER = 48,
	CACHE_ENTRY = 24,
#if defined(__aarch64__)
	CACHE_FLAGS = 0x0a03,   /* ELF, libc6, AArch64 */
#else
	CACHE_FLAGS = 0x0303,   /* ELF, libc6, x86-64 */
#endif
};

bool doctor_open_elf(const struct doctor *d, const char *path, char *real,
		     struct elf *e)
{
	int fd = look_open(&d->seen, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return false;
	if (look_real(&d->seen, fd, real, PATH_MAX))
		snprintf(real, PATH_MAX, "%s", path);
	if (!elf_open(e, fd))
		return true;
	elf_close(e);
	return false;
}

bool doctor_cwd(const struct doctor *d, char *folder, size_t size)
{
	char link[64];

	/* Our own folder is not one of another machine's. */
	if (!d->process)
		return d->machine.fd < 0 && getcwd(folder, size);
	snprintf(link, sizeof(link), "%s/cwd", d->process->folder);
	return look_link(&d->machine, link, folder, size) > 0;
}

static bool in_library_path(const struct doctor *d, const char *soname,
			    char *path, size_t size, struct elf *e)
{
	const char *list = doctor_env(d, "LD_LIBRARY_PATH");
	char real[PATH_MAX], cwd[PATH_MAX];

	while (list && *list) {
		size_t len = strcspn(list, ":;");

		if (*list == '/' || !doctor_cwd(d, cwd, sizeof(cwd)))
			cwd[0] = '\0';
		if ((size_t)snprintf(path, size, "%s%s%.*s/%s", cwd,
				     cwd[0] ? "/" : "", (int)len, list,
				     soname) < size &&
		    path[0] == '/' && doctor_open_elf(d, path, real, e))
			return true;
		list += len + (list[len] != '\0');
	}
	return false;
}

static uint32_t number_at(const char *p)
{
	uint32_t n;

	memcpy(&n, p, sizeof(n));
	return n;
}

/* The cache's path for a soname, or NULL; `len` bytes end with a NUL. */
static const char *find_cached(const char *cache, size_t len,
			       const char *soname)
{
	uint32_t nr = len >= CACHE_HEADER ? number_at(cache + 20) : 0;

	for (uint32_t i = 0; i < nr && CACHE_HEADER + (i + 1ull) *
			CACHE_ENTRY <= len; i++) {
		const char *entry = cache + CACHE_HEADER + i * CACHE_ENTRY;
		uint32_t key = number_at(entry + 4);
		uint32_t value = number_at(entry + 8);

		if (number_at(entry) == CACHE_FLAGS && key < len &&
		    value < len && !strcmp(cache + key, soname))
			return cache + value;
	}
	return NULL;
}

static bool in_cache(const struct doctor *d, const char *soname, char *path,
		     size_t size, struct elf *e)
{
	size_t len;
	char *text = look_slurp(&d->seen, "/etc/ld.so.cache", CACHE_MAX, &len);
	const char *cache = text ? memmem(text, len, cache_magic,
					  sizeof(cache_magic) - 1) : NULL;
	const char *found = NULL;
	char real[PATH_MAX];

	if (cache)
		found = find_cached(cache, len - (size_t)(cache - text),
				    soname);
	if (found && (size_t)snprintf(path, size, "%s", found) >= size)
		found = NULL;
	free(text);
	return found && path[0] == '/' && doctor_open_elf(d, path, real, e);
}

static bool in_folders(const struct doctor *d, const char *soname, char *path,
		       size_t size, struct elf *e)
{
	char pattern[PATH_MAX], real[PATH_MAX];

	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		snprintf(pattern, sizeof(pattern), "%s%s", folders[i], soname);
		if (look_last(&d->seen, pattern, path, size) &&
		    doctor_open_elf(d, path, real, e))
			return true;
	}
	return false;
}

bool loader_find(const struct doctor *d, const char *soname, char *path,
		 size_t size, const char **how, struct elf *e)
{
	static const struct {
		bool (*find)(const struct doctor *, const char *, char *,
			     size_t, struct elf *);
		const char *how;
	} ways[] = {
		{ in_library_path, "LD_LIBRARY_PATH" },
		{ in_cache, "the loader's cache" },
		{ in_folders, "the loader's folders" },
	};

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		if (!ways[i].find(d, soname, path, size, e))
			continue;
		*how = ways[i].how;
		return true;
	}
	return false;
}
