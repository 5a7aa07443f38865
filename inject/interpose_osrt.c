/* SPDX-License-Identifier: MIT */
#include <stdatomic.h>

#include "collector/osrt.h"

/*
 * The C library's calls under their own names and versions, so that a program
 * that asks for read@GLIBC_2.2.5 finds it here first (collector/osrt.h says
 * where it goes on).  None is the default version of its name: who asks for no
 * version (dlsym(), a program with a sanitizer in it, anything of musl's) does
 * not come here, nor do libraries that ask for an older one.
 *
 * Our own calls, which would come here, too, go to __wrap_read() instead: the
 * link is told so for each call of the list (ld --wrap).
 */
#define EXPORT __attribute__((visibility("default")))

/* .symver takes one version for each name: two names for two. */
#define VERSION_OF(alias, name, version) \
	__asm__(".symver " #alias ", " #name "@" version ", remove")
#define FIRST(name, nr, version) \
	EXPORT long osrt_enter_##name(OSRT_P##nr); \
	VERSION_OF(osrt_enter_##name, name, version);
#define OTHER(name, nr, version) \
	EXPORT long osrt_other_##name(OSRT_P##nr) \
		__attribute__((alias("osrt_enter_" #name))); \
	VERSION_OF(osrt_other_##name, name, version);

#define OTHER_NONE(name, nr)
#define OTHER_V2_34(name, nr) OTHER(name, nr, OSRT_V2_34)
#if defined(__x86_64__)
#define OTHER_X86_2_2_5(name, nr) OTHER(name, nr, OSRT_X86_2_2_5)
#else
#define OTHER_X86_2_2_5(name, nr)
#endif

#define X(name, nr, way, about, version, other) \
	FIRST(name, nr, OSRT_##version) \
	EXPORT long osrt_enter_##name(OSRT_P##nr) \
	{ \
		return OSRT_JUMP(name, nr, entry); \
	} \
	OTHER_##other(name, nr) \
	long __wrap_##name(OSRT_P##nr); \
	long __wrap_##name(OSRT_P##nr) \
	{ \
		return OSRT_JUMP(name, nr, direct); \
	}
OSRT_CALLS(X)
#undef X
