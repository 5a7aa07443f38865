/* SPDX-License-Identifier: MIT */
/*
 * loader: loads plugins as Python loads its modules, each out of the global
 * scope, and runs them one after another.
 *
 *	loader [--global LIBRARY]... PLUGIN[,PLUGIN]... [ARGUMENTS]
 *
 * --global brings a library into the global scope first, as PyTorch does with
 * what it depends on.  Ends with the first status that is not 0.
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
	int (*run)(int, char **), status = 0;
	char *path;

	while (argc > 2 && !strcmp(argv[1], "--global")) {
		load(argv[2], RTLD_GLOBAL);
		argc -= 2;
		argv += 2;
	}
	if (argc < 2)
		return 2;
	path = strtok(argv[1], ",");
	for (; path && !status; path = strtok(NULL, ",")) {
		run = (__typeof__(run))dlsym(load(path, RTLD_LOCAL),
					     "run_calls");
		status = run ? run(argc - 1, argv + 1) : 2;
	}
	return status;
}
