/* SPDX-License-Identifier: MIT */
/*
 * A library whose constructor, under the loader's lock, calls a function of the
 * program's: IN_CONSTRUCTOR is its address.
 */
#include <stdint.h>
#include <stdlib.h>

__attribute__((constructor))
static void call(void)
{
	const char *at = getenv("IN_CONSTRUCTOR");
	uintptr_t address = at ? (uintptr_t)strtoull(at, NULL, 16) : 0;

	if (address)
		((void (*)(void))address)();
}
