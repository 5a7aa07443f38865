/* SPDX-License-Identifier: MIT */
/*
 * An allocator with one lock for all, as slow as it can be, in a process that
 * has used up the thread-specific keys for which each thread has room: what
 * needs memory while the lock is held, or is about to be, never gets it.
 */
#include <pthread.h>
#include <stddef.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t nr, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor))
static void use_up_keys(void)
{
	pthread_key_t key;

	for (int i = 0; i < 40; i++)
		pthread_key_create(&key, NULL);
}

static void enter(void)
{
	pthread_mutex_lock(&lock);
	for (volatile int i = 0; i < 2000; i++)
		;
}

static void *leave(void *block)
{
	pthread_mutex_unlock(&lock);
	return block;
}

void *malloc(size_t size)
{
	enter();
	return leave(__libc_malloc(size));
}

void *calloc(size_t nr, size_t size)
{
	enter();
	return leave(__libc_calloc(nr, size));
}

void *realloc(void *block, size_t size)
{
	enter();
	return leave(__libc_realloc(block, size));
}

void free(void *block)
{
	enter();
	__libc_free(leave(block));
}
