/* SPDX-License-Identifier: MIT */
/*
 * loader: loads plugins as Python loads its modules, each out of the global
 * scope, and runs them one after another.
 *
 *	loader [--close] [--global LIBRARY]... PLUGIN[,PLUGIN]... [ARGUMENTS]
 *
 * --global brings a library into the global scope first, as PyTorch does with
 * what it depends on.  --close closes each plugin after its run, so that what
 * only it needs goes too.  Ends with the first status that is not 0.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *load(const char *path, int scope)
{
	void *library = dlopen(path, RTLD_NOW | scope);

	if (library)
		return library;
	fprintf(stderr, "loader: %s\n", dlerror());
	exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
	int (*run)(int, char **), status = 0, closes = 0;
	void *plugin;
	char *path;

	if (argc > 1 && !strcmp(argv[1], "--close")) {
		closes = 1;
		argc--;
		argv++;
	}

	while (argc > 2 && !strcmp(argv[1], "--global")) {
		load(argv[2], RTLD_GLOBAL);
		argc -= 2;
		argv += 2;
	}
	if (argc < 2)
		return 2;
	path = strtok(argv[1], ",");
	for (; path && !status; path = strtok(NULL, ",")) {
		plugin = load(path, RTLD_LOCAL);
		run = (__typeof__(run))dlsym(plugin, "run_calls");
		status = run ? run(argc - 1, argv + 1) : 2;
		if (closes)
			dlclose(plugin);
	}
	return status;
}
