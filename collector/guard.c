/* SPDX-License-Identifier: MIT */
#include "collector/guard.h"

#include <stddef.h>

void guard_take(pthread_mutex_t *lock, sigset_t *before)
{
	static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL,
				       SIGABRT, SIGTRAP, SIGSYS };
	sigset_t all;

	sigfillset(&all);
	for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
		sigdelset(&all, crashes[i]);
	pthread_sigmask(SIG_BLOCK, &all, before);
	pthread_mutex_lock(lock);
}

void guard_give(pthread_mutex_t *lock, const sigset_t *before)
{
	pthread_mutex_unlock(lock);
	pthread_sigmask(SIG_SETMASK, before, NULL);
}
