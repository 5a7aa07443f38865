/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_GLIBC_H
#define GPUTRACE_INJECT_GLIBC_H

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Included before everything that goes into libgputrace.so, so that one built
 * on a new machine loads in an old container: symbols that moved into libc.so
 * with glibc 2.34 (or changed later) are bound to the version they had
 * before.  test/symbols.sh checks the result.  Calls that the program finds in
 * the library (collector/osrt_calls.h) are not imported at all.
 */
#if defined(__x86_64__)
#define GLIBC_FIRST "GLIBC_2.2.5"
#define GLIBC_SETNAME "GLIBC_2.12"
#elif defined(__aarch64__)
#define GLIBC_FIRST "GLIBC_2.17"
#define GLIBC_SETNAME "GLIBC_2.17"
#endif

#define GLIBC_BIND(symbol, version) \
	__asm__(".symver " #symbol "," #symbol "@" version)
#define GLIBC_BIND_AS(symbol, old, version) \
	__asm__(".symver " #symbol "," #old "@" version)

GLIBC_BIND(dlopen, GLIBC_FIRST);
GLIBC_BIND(dlclose, GLIBC_FIRST);
GLIBC_BIND(dlsym, GLIBC_FIRST);
GLIBC_BIND(dlerror, GLIBC_FIRST);
GLIBC_BIND(dladdr, GLIBC_FIRST);
GLIBC_BIND(pthread_create, GLIBC_FIRST);
GLIBC_BIND(pthread_detach, GLIBC_FIRST);
GLIBC_BIND(pthread_once, GLIBC_FIRST);
GLIBC_BIND(pthread_testcancel, GLIBC_FIRST);
GLIBC_BIND(pthread_key_create, GLIBC_FIRST);
GLIBC_BIND(pthread_getspecific, GLIBC_FIRST);
GLIBC_BIND(pthread_setspecific, GLIBC_FIRST);
GLIBC_BIND(pthread_setname_np, GLIBC_SETNAME);
GLIBC_BIND(pthread_mutex_trylock, GLIBC_FIRST);
GLIBC_BIND(pthread_attr_setstacksize, GLIBC_FIRST);
GLIBC_BIND(sem_init, GLIBC_FIRST);
GLIBC_BIND(sem_post, GLIBC_FIRST);
GLIBC_BIND(sem_trywait, GLIBC_FIRST);
GLIBC_BIND(pthread_rwlock_tryrdlock, GLIBC_FIRST);
GLIBC_BIND(pthread_rwlock_trywrlock, GLIBC_FIRST);
GLIBC_BIND(pthread_sigmask, GLIBC_FIRST);

/* These have symbols of their own since glibc 2.33 only.  On 64-bit machines
 * the kernel's structure is the C library's. */
static inline int glibc_fstat(int fd, struct stat *st)
{
	return (int)syscall(SYS_fstat, fd, st);
}

static inline int glibc_fstatat(int folder, const char *path, struct stat *st,
				int flags)
{
	return (int)syscall(SYS_newfstatat, folder, path, st, flags);
}
#define fstat(fd, st) glibc_fstat(fd, st)
#define fstatat(folder, path, st, flags) \
	glibc_fstatat(folder, path, st, flags)
#define stat(path, st) glibc_fstatat(AT_FDCWD, path, st, 0)
#define lstat(path, st) \
	glibc_fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW)

/* C23's strtol family (glibc 2.38) also reads 0b... numbers; we need not. */
GLIBC_BIND_AS(__isoc23_strtol, strtol, GLIBC_FIRST);
GLIBC_BIND_AS(__isoc23_strtoul, strtoul, GLIBC_FIRST);
GLIBC_BIND_AS(__isoc23_strtoll, strtoll, GLIBC_FIRST);
GLIBC_BIND_AS(__isoc23_strtoull, strtoull, GLIBC_FIRST);

/*
 * musl's loader takes LD_PRELOAD too, passes for libc.so.6, and ends a program
 * whose library misses a symbol.  These two, behind at_quick_exit() and
 * pthread_atfork(), are glibc's alone: weak, so that the library loads there
 * and stays inert (libcuda needs glibc, so nothing attaches).
 */
extern int __cxa_at_quick_exit(void (*function)(void *), void *object)
	__attribute__((weak));
extern int __register_atfork(void (*prepare)(void), void (*parent)(void),
			     void (*child)(void), void *object)
	__attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static inline int glibc_at_quick_exit(void (*function)(void))
{
	return __cxa_at_quick_exit ?
		__cxa_at_quick_exit((void (*)(void *))function,
				    __dso_handle) : -1;
}

static inline int glibc_atfork(void (*prepare)(void), void (*parent)(void),
			       void (*child)(void))
{
	return __register_atfork ?
		__register_atfork(prepare, parent, child, __dso_handle) : -1;
}
#define at_quick_exit(function) glibc_at_quick_exit(function)
#define pthread_atfork(prepare, parent, child) \
	glibc_atfork(prepare, parent, child)

#endif
