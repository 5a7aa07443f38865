// SPDX-License-Identifier: MIT
/* Several launching threads: whose buffer is whose, and who gives it back. */
#include "test/sim/conf.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#define KERNEL CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL

static const int kernels_only[] = { KERNEL, 0 };
static const int driver_only[] = { CUPTI_ACTIVITY_KIND_DRIVER, 0 };
static sem_t ready, leave;
static bool stay;
static bool launches = true;

static void *launcher(void *unused)
{
	conf_name_thread("launcher");
	MUST(cuCtxSetCurrent(gpu.context));
	for (int i = 0; launches && i < 10; i++)
		gpu_empty(gpu.plain);
	sem_post(&ready);
	if (stay)
		sem_wait(&leave);
	return unused;
}

static void prepare(const int *kinds, int per_thread)
{
	sem_init(&ready, 0, 0);
	sem_init(&leave, 0, 0);
	conf_set_per_thread(per_thread);
	conf_trace(kinds);
	gpu_open();
	conf_settle();
	conf_forget();
}

/* Threads that stay alive while somebody flushes. */
static void living(const char *per_thread)
{
	pthread_t t[8];

	prepare(kernels_only, *per_thread == '1');
	stay = true;
	for (int i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, launcher, NULL);
	for (int i = 0; i < 8; i++)
		sem_wait(&ready);
	MUST(cuCtxSynchronize());
	fact("buffers-of-launchers", "%u", conf_count_buffers("launcher"));
	conf_settle();
	fact("kernels", "%u", conf_count(KERNEL));
	fact("outstanding", "%u", conf_count_outstanding());
	for (int i = 0; i < 8; i++)
		sem_post(&leave);
	for (int i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
}

static void finished(const char *per_thread)
{
	pthread_t t[8];

	prepare(kernels_only, *per_thread == '1');
	for (int i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, launcher, NULL);
	for (int i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	MUST(cuCtxSynchronize());
	usleep(200000);
	fact("come-before-flush", "%s", yes(conf_count(KERNEL) > 0));
	conf_settle();
	fact("kernels", "%u", conf_count(KERNEL));
	fact("outstanding", "%u", conf_count_outstanding());
}

/* One after the other: is a dead thread's buffer reused? */
static void short_lived(const char *per_thread)
{
	pthread_t t;

	conf_buffer_size = 16 << 10;
	prepare(kernels_only, *per_thread == '1');
	for (int i = 0; i < 1000; i++) {
		pthread_create(&t, NULL, launcher, NULL);
		pthread_join(t, NULL);
	}
	MUST(cuCtxSynchronize());
	fact("one-buffer-each", "%s", yes(conf_buffer_count >= 1000));
	fact("come-before-flush", "%s", yes(conf_count(KERNEL) > 0));
	conf_settle();
	fact("kernels", "%u", conf_count(KERNEL));
	fact("outstanding", "%u", conf_count_outstanding());
}

/* A thread that makes calls but launches nothing. */
static void quiet(const char *kinds)
{
	pthread_t t;

	launches = false;
	prepare(*kinds == 'd' ? driver_only : kernels_only, 1);
	pthread_create(&t, NULL, launcher, NULL);
	pthread_join(t, NULL);
	fact("buffers-of-launchers", "%u", conf_count_buffers("launcher"));
}

#define THREADS(n, f, v) { "threads." n, f, v, "threads" }

const struct conf_experiment conf_threads[] = {
	THREADS("living-per-thread", living, "1"),
	THREADS("living-shared", living, "0"),
	THREADS("finished-per-thread", finished, "1"),
	THREADS("finished-shared", finished, "0"),
	THREADS("short-lived-per-thread", short_lived, "1"),
	THREADS("short-lived-shared", short_lived, "0"),
	THREADS("quiet-driver-kind", quiet, "d"),
	THREADS("quiet-kernel-kind", quiet, "k"),
	{ NULL, NULL, NULL, NULL },
};
