/* SPDX-License-Identifier: MIT */
#include "collector/cupti_api.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "collector/cupti_places.h"
#include "collector/log.h"
#include "collector/maps.h"

static struct cupti_api bound;
static uint32_t version, driver;
static char found_at[PATH_MAX];

static const struct entry {
	const char *name;
	size_t offset;
	bool required;
} entries[] = {
#define REQUIRED(name, arguments) \
	{ "cupti" #name, offsetof(struct cupti_api, name), true },
#define OPTIONAL(name, arguments) \
	{ "cupti" #name, offsetof(struct cupti_api, name), false },
	CUPTI_CALLS(REQUIRED, OPTIONAL)
#undef REQUIRED
#undef OPTIONAL
};

/* Sonames by CUDA's major version. */
static const struct {
	uint32_t cuda;
	const char *soname;
} sonames[] = {
#define X(major, soname) { major, soname },
	CUPTI_SONAMES(X)
#undef X
};

#define X(folder) folder "%s",
static const char *const places[] = { CUPTI_PLACES(X) };
static const char *const wheel_places[] = { CUPTI_WHEEL_PLACES(X) };
#undef X

const struct cupti_api *cupti_api(void)
{
	return &bound;
}

uint32_t cupti_api_version(void)
{
	return version;
}

uint32_t cupti_api_driver(void)
{
	return driver;
}

const char *cupti_api_path(void)
{
	return found_at;
}

const char *cupti_text(CUptiResult result)
{
	const char *text = NULL;

	if (bound.GetResultString)
		bound.GetResultString(result, &text);
	return text ? text : "unknown CUPTI error";
}

bool cupti_stream_id(void *stream, uint32_t *id)
{
	int saved = errno;
	bool found = bound.GetStreamIdEx &&
		bound.GetStreamIdEx(NULL, stream, 0, id) == CUPTI_SUCCESS;

	errno = saved;
	return found;
}

bool cupti_context_id(void *context, uint32_t *id)
{
	int saved = errno;
	bool found = bound.GetContextId &&
		bound.GetContextId(context, id) == CUPTI_SUCCESS;

	errno = saved;
	return found;
}

/* Calls `visit` with the path of each library that is mapped whose name holds
 * `part`, until it returns non-NULL. */
static void *each_mapped(const char *part,
			 void *(*visit)(const char *path, void *arg), void *arg)
{
	struct maps maps;
	struct maps_entry entry;
	void *result = NULL;

	if (maps_open(&maps))
		return NULL;
	while (!result && maps_next_code(&maps, &entry))
		if (strstr(entry.path, part))
			result = visit(entry.path, arg);
	maps_close(&maps);
	return result;
}

struct copy {
	char *path;
	size_t size;
};

static void *copy_path(const char *path, void *arg)
{
	struct copy *copy = arg;

	snprintf(copy->path, copy->size, "%s", path);
	return copy;
}

bool cupti_api_find_mapped(const char *part, char *path, size_t size)
{
	struct copy copy = { path, size };

	return each_mapped(part, copy_path, &copy);
}

static void *open_mapped(const char *path, void *arg)
{
	(void)arg;
	return dlopen(path, RTLD_NOW | RTLD_NOLOAD);
}

static void *open_loaded(void)
{
	for (size_t i = 0; i < sizeof sonames / sizeof *sonames; i++) {
		void *lib = dlopen(sonames[i].soname, RTLD_NOW | RTLD_NOLOAD);

		if (lib)
			return lib;
	}
	return each_mapped("/libcupti.so", open_mapped, NULL);
}

/* The last match, so that /usr/local/cuda-12.8 wins over cuda-12.4. */
static void *open_glob(const char *pattern)
{
	void *lib = NULL;
	glob_t found;

	if (glob(pattern, 0, NULL, &found))
		return NULL;
	for (size_t i = found.gl_pathc; !lib && i-- > 0; )
		lib = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
	globfree(&found);
	return lib;
}

__attribute__((format(printf, 2, 0)))
static void *open_at(const char *folder, const char *format,
		     const char *soname)
{
	char path[PATH_MAX];
	int len = snprintf(path, sizeof path, "%s", folder);

	if (len < 0 || (size_t)len >= sizeof path)
		return NULL;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(path + len, sizeof path - (size_t)len, format, soname);
#pragma GCC diagnostic pop
	return open_glob(path);
}

static void *open_beside(const char *path, void *soname)
{
	const char *wheels = strstr(path, "/nvidia/");
	char folder[PATH_MAX];
	void *lib = NULL;

	for (size_t i = 0; !lib && wheels && i < sizeof wheel_places /
			sizeof *wheel_places; i++) {
		snprintf(folder, sizeof folder, "%.*s",
			 (int)(wheels - path) + 8, path);
		lib = open_at(folder, wheel_places[i], soname);
	}
	if (lib)
		return lib;
	snprintf(folder, sizeof folder, "%.*s",
		 (int)(strrchr(path, '/') - path) + 1, path);
	return open_at(folder, "%s", soname);
}

static void *open_soname(const char *soname)
{
	void *lib = dlopen(soname, RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		lib = each_mapped("/libcudart.so", open_beside,
				  (void *)soname);
	if (!lib)
		lib = each_mapped("/nvidia/", open_beside, (void *)soname);
	for (size_t i = 0; !lib && i < sizeof places / sizeof *places; i++)
		lib = open_at("", places[i], soname);
	return lib;
}

/* Newer than the driver it would not work, so: the driver's own major, then
 * the older ones, newest first, then what is left. */
static void *open_installed(uint32_t driver_major)
{
	void *lib = NULL;
	size_t i, nr = sizeof sonames / sizeof *sonames;

	for (i = 0; !lib && i < nr; i++)
		if (!driver_major || sonames[i].cuda <= driver_major)
			lib = open_soname(sonames[i].soname);
	for (i = nr; !lib && i-- > 0; )
		if (driver_major && sonames[i].cuda > driver_major)
			lib = open_soname(sonames[i].soname);
	return lib;
}

/* Those of CUDA 11.0 to 11.7 (the copies of Nsight Systems 2025.3) end a
 * program on a driver of CUDA 13.0 in its next call (seen on an H200). */
static int check_version(void)
{
	enum { CUPTI_11_8 = 18 };

	if (version >= CUPTI_11_8)
		return 0;
	log_line(LOG_WARN, "not tracing: %s is older than CUDA 11.8 (CUPTI's "
		 "version %u); take a newer one in its place, or by "
		 "GPUTRACE_CUPTI where the program has not loaded it itself",
		 found_at, version);
	memset(&bound, 0, sizeof bound);
	return -ENOSYS;
}

static int bind(void *lib)
{
	Dl_info where;

	for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
		void *function = dlsym(lib, entries[i].name);

		if (!function && entries[i].required) {
			log_line(LOG_WARN, "not tracing: libcupti lacks %s "
				 "(set GPUTRACE_CUPTI to one of CUDA 11.8 or "
				 "later)", entries[i].name);
			memset(&bound, 0, sizeof bound);
			return -ENOSYS;
		}
		memcpy((char *)&bound + entries[i].offset, &function,
		       sizeof function);
	}
	if (dladdr((void *)bound.GetVersion, &where) && where.dli_fname)
		snprintf(found_at, sizeof found_at, "%s", where.dli_fname);
	bound.GetVersion(&version);
	return check_version();
}

static bool is_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev &&
		x.st_ino == y.st_ino;
}

static void *is_another(const char *path, void *arg)
{
	return is_same_file(path, found_at) ? NULL : copy_path(path, arg);
}

/* Two copies in one process exclude each other. */
static void complain_of_copies(const char *wanted)
{
	char other[PATH_MAX];
	struct copy copy = { other, sizeof other };

	if (wanted && !is_same_file(wanted, found_at))
		log_line(LOG_WARN, "GPUTRACE_CUPTI=%s is not used: the "
			 "program has loaded %s, and two copies of libcupti "
			 "exclude each other", wanted, found_at);
	if (each_mapped("/libcupti.so", is_another, &copy))
		log_line(LOG_WARN, "two copies of libcupti are loaded, %s and "
			 "%s, and one takes CUPTI away from the other: take "
			 "one of them out of LD_LIBRARY_PATH or LD_PRELOAD",
			 found_at, other);
}

int cupti_api_load(const char *path, uint32_t driver_version)
{
	void *lib = open_loaded();
	int error;

	driver = driver_version;
	if (!lib && path) {
		lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!lib) {
			log_line(LOG_WARN, "not tracing: GPUTRACE_CUPTI: %s",
				 dlerror());
			return -ENOENT;
		}
	}
	if (!lib)
		lib = open_installed(driver_version / 1000);
	if (!lib) {
		log_line(LOG_WARN, "not tracing: no libcupti found for driver "
			 "%u.%u; install CUPTI (pip: nvidia-cuda-cupti) or "
			 "set GPUTRACE_CUPTI to its path",
			 driver_version / 1000, driver_version % 1000 / 10);
		return -ENOENT;
	}
	error = bind(lib);
	if (!error)
		complain_of_copies(path);
	return error;
}
