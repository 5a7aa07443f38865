/* SPDX-License-Identifier: MIT */
/*
 * A tool of somebody's that the driver loads in the middle of cuInit, and that
 * loads another library (MIDINIT_LIBRARY) and takes its time.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

int InitializeInjection(void);
int InitializeInjection(void)
{
	const char *library = getenv("MIDINIT_LIBRARY");

	if (library && !dlopen(library, RTLD_NOW))
		abort();
	usleep(100000);
	return 1;
}
