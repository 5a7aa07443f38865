/* SPDX-License-Identifier: MIT */
#include "test/host/wait.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

void sleep_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&t, &t))
		;
}

void start(void *(*run)(void *), void *argument)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, argument))
		abort();
	pthread_detach(thread);
}
