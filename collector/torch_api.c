/* SPDX-License-Identifier: MIT */
#include "collector/torch_api.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/log.h"
#include "collector/text_file.h"

#define LIBRARY "libtorch_cpu.so"

_Static_assert(sizeof(struct torch_callback) == 40, "as in torch's headers");
_Static_assert(offsetof(struct torch_callback, needs_inputs) == 34, "");

/*
 * By the headers of each minor version, compiled: offsets that changed.  A
 * version that is not here is left alone.
 */
static const struct torch_layout layouts[] = {
	{ TORCH_VERSION(1, 13), TORCH_VERSION(2, 2), 248, 72, 176 },
	{ TORCH_VERSION(2, 3), TORCH_VERSION(2, 3), 248, 64, 168 },
	{ TORCH_VERSION(2, 4), TORCH_VERSION(2, 12), 304, 64, 168 },
	{ TORCH_VERSION(2, 13), TORCH_VERSION(2, 15), 304, 56, 160 },
};

/* Built before a release ("2.13.0a0+git1234"), on either side of a change. */
static const struct torch_layout either = { 0 };

/* In the order of struct torch_api. */
static const struct {
	const char *name;
	size_t at;
} functions[] = {
	{ "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE",
	  offsetof(struct torch_api, add) },
	{ "_ZN2at14removeCallbackEm", offsetof(struct torch_api, remove) },
	{ "_ZNK2at14RecordFunction4nameEv", offsetof(struct torch_api, name) },
	{ "_ZNK2at14RecordFunction7isAsyncEv",
	  offsetof(struct torch_api, is_async) },
};

static uint32_t version_of(const char *text, bool *is_early)
{
	char *end;
	unsigned long major = strtoul(text, &end, 10), minor;

	if (end == text || *end != '.' || major > 99)
		return 0;
	text = end + 1;
	minor = strtoul(text, &end, 10);
	if (end == text || minor > 999)
		return 0;
	text = *end == '.' ? end + 1 : end;
	text += strspn(text, "0123456789");
	*is_early = *text == 'a' || *text == '.' || *text == 'b';
	return TORCH_VERSION(major, minor);
}

const struct torch_layout *torch_api_layout(const char *text)
{
	bool is_early = false;
	uint32_t version = version_of(text, &is_early);

	for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
		if (version >= layouts[i].first && version <= layouts[i].last)
			return is_early && version == layouts[i].first ?
				&either : &layouts[i];
	return NULL;
}

/* ---- Which version is it? ---- */

/* Beside the library's folder: of the Python package, of the C++ one. */
static const struct {
	const char *file, *before;
} version_files[] = {
	{ "version.py", "__version__ = '" }, { "build-version", "" },
};

static void read_version(const char *library, char *version, size_t size)
{
	char path[PATH_MAX], text[1024];
	const char *folder = strrchr(library, '/'), *at;

	version[0] = 0;
	if (!folder)
		return;
	for (size_t i = 0; i < sizeof version_files / sizeof *version_files;
	     i++) {
		if (snprintf(path, sizeof path, "%.*s/../%s",
			     (int)(folder - library), library,
			     version_files[i].file) >= (int)sizeof path)
			return;
		text_file_read(path, text, sizeof text);
		at = strstr(text, version_files[i].before);
		if (!*text || !at)
			continue;
		at += strlen(version_files[i].before);
		snprintf(version, size, "%.*s", (int)strcspn(at, "'\n"), at);
		return;
	}
}

/* ---- The library ---- */

static int find_module(struct dl_phdr_info *module, size_t size, void *path)
{
	const char *name = module->dlpi_name;
	const char *base = name ? strrchr(name, '/') : NULL;

	(void)size;
	if (!base || strcmp(base + 1, LIBRARY))
		return 0;
	snprintf(path, PATH_MAX, "%s", name);
	return 1;
}

static bool resolve(struct torch_api *api, void *library)
{
	void *function;

	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		function = dlsym(library, functions[i].name);
		if (!function)
			return false;
		memcpy((char *)api + functions[i].at, &function,
		       sizeof function);
	}
	/* A function that returns a std::string has its kind in the name. */
	api->shift = dlsym(library, "_ZN2at11show_configB5cxx11Ev") ? 0 :
		TORCH_STRING_SHIFT;
	return true;
}

int torch_api_find(struct torch_api *api)
{
	char path[PATH_MAX], version[64];
	void *library;

	if (!dl_iterate_phdr(find_module, path))
		return -EAGAIN;
	/* Waits where the library is just being loaded; and it stays. */
	library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	if (!library)
		return -EAGAIN;
	read_version(path, version, sizeof version);
	api->layout = torch_api_layout(version);
	if (api->layout && resolve(api, library))
		return 0;
	dlclose(library);
	log_line(LOG_WARN, "no operators of PyTorch: version %s is not one "
		 "that is known here (1.13 to 2.15), in %s",
		 *version ? version : "unknown", path);
	return -ENOTSUP;
}
