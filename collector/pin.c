/* SPDX-License-Identifier: MIT */
#include "collector/pin.h"

#include <dlfcn.h>
#include <sys/auxv.h>

bool pin_library(const void *address)
{
	Dl_info where, program;

	if (!dladdr(address, &where) || !where.dli_fname)
		return false;
	/* It cannot be opened by its name. */
	if (dladdr((void *)getauxval(AT_PHDR), &program) &&
	    program.dli_fbase == where.dli_fbase)
		return true;
	if (dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE))
		return true;
	/* Whoever asks for it meant another call. */
	(void)dlerror();
	return false;
}
