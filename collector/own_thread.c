/* SPDX-License-Identifier: MIT */
#include "collector/own_thread.h"

#include <pthread.h>
#include <signal.h>

/* 2 MiB, of which pages are touched as needed: the demangler recurses. */
#define STACK_SIZE (2u << 20)

int own_thread_start(const char *name, void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;
	int error;

	sigfillset(&all);
	error = pthread_attr_init(&attributes);
	if (error)
		return -error;
	pthread_attr_setstacksize(&attributes, STACK_SIZE);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	error = pthread_create(&thread, &attributes, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (!error) {
		/* Detached only now: one that has ended has no name. */
		pthread_setname_np(thread, name);
		pthread_detach(thread);
	}
	return -error;
}
