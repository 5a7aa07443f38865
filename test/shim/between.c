/* SPDX-License-Identifier: MIT */
/*
 * Another preload that stands before the C library: it counts reads and locks,
 * and passes them on to the next one.  At the end it says on stderr how many
 * it saw.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static _Atomic long reads, locks;

ssize_t read(int fd, void *buffer, size_t size)
{
	static ssize_t (*_Atomic next)(int, void *, size_t);

	if (!next)
		next = (ssize_t (*)(int, void *, size_t))
			dlsym(RTLD_NEXT, "read");
	reads++;
	return next(fd, buffer, size);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	static int (*_Atomic next)(pthread_mutex_t *);

	if (!next)
		next = (int (*)(pthread_mutex_t *))
			dlsym(RTLD_NEXT, "pthread_mutex_lock");
	locks++;
	return next(mutex);
}

__attribute__((destructor))
static void say(void)
{
	fprintf(stderr, "between: %ld reads, %ld locks\n", reads, locks);
}
