/* SPDX-License-Identifier: MIT */
/*
 * disturbed: a program with a GPU whose waiting threads are not left alone.
 *
 *	disturbed MODE
 *
 *   cancel   threads that are cancelled where they wait; how each ended
 *   crowd    200 threads that fight for one lock
 *   signals  handlers that make calls inside of calls, and jump out of them
 *   vfork    a child on the memory of its parent waits, then executes; others
 *   malloc   eight threads that want memory at once
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/host/gpu.h"
#include "test/host/wait.h"

extern char **environ;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static int pipes[2], sockets[2];
static atomic_int turn;

/* ---- cancel ---- */

static pthread_mutex_t checked;
static sem_t full;

static void unlock(void *mutex)
{
	TALLY("cleaned", "unlock", pthread_mutex_unlock(mutex) == 0);
}

static void clean(void *name)
{
	(void)name;
	TALLY("cleaned", "others", 1);
}

static void stand(char where)
{
	struct pollfd p = { .fd = pipes[0], .events = POLLIN };
	struct timespec t = { 100, 0 };
	char c;
	int i;

	switch (where) {
	case 'c':
		pthread_mutex_lock(&checked);
		pthread_cleanup_push(unlock, &checked);
		for (;;)
			pthread_cond_wait(&changed, &checked);
		pthread_cleanup_pop(1);
		break;
	case 'r':
		TALLY("went on", "read", read(pipes[0], &c, 1));
		break;
	case 's':
		TALLY("went on", "sem_wait", sem_wait(&semaphore) + 1);
		break;
	case 'p':
		TALLY("went on", "poll", poll(&p, 1, 100000) + 1);
		break;
	case 'n':
		TALLY("went on", "nanosleep", nanosleep(&t, NULL) + 1);
		break;
	case 'v':
		TALLY("went on", "recv", recv(sockets[0], &c, 1, 0) + 1);
		break;
	case 'f':       /* it need not wait, and is cancelled all the same */
		pthread_cancel(pthread_self());
		TALLY("went on", "sem_wait of a full one", sem_wait(&full) + 1);
		break;
	case 'a':       /* wherever it is */
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
		for (i = 0; ; i++)
			read(-1, &c, 1);
	}
}

static void *stand_and_fall(void *where)
{
	pthread_cleanup_push(clean, NULL);
	stand((char)(intptr_t)where);
	pthread_cleanup_pop(0);
	return NULL;
}

static void do_cancel(void)
{
	static const char places[] = "crspnvfa";
	pthread_mutexattr_t kind;
	pthread_t threads[sizeof(places)];
	void *result;
	int round, i;

	pthread_mutexattr_init(&kind);
	pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&checked, &kind);
	sem_init(&full, 0, 1000);
	for (round = 0; round < 20; round++) {
		for (i = 0; places[i]; i++)
			pthread_create(&threads[i], NULL, stand_and_fall,
				       (void *)(intptr_t)places[i]);
		sleep_ms(5);
		for (i = 0; places[i]; i++) {
			pthread_cancel(threads[i]);
			pthread_join(threads[i], &result);
			TALLY("cancelled", "threads",
			      result == PTHREAD_CANCELED);
		}
	}
	TALLY("full", "left", (sem_getvalue(&full, &i), i));
	TALLY("lock", "free", pthread_mutex_trylock(&checked) == 0);
}

/* ---- crowd ---- */

enum { CROWD = 200, ROUNDS = 20 };
static long counter;

static void *fight(void *argument)
{
	int i;

	(void)argument;
	for (i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&lock);
		counter++;
		spin_until_ns(now_ns() + 20000);
		pthread_mutex_unlock(&lock);
	}
	pthread_barrier_wait(&barrier);
	return NULL;
}

static void do_crowd(void)
{
	pthread_t threads[CROWD];
	int i;

	pthread_barrier_destroy(&barrier);
	pthread_barrier_init(&barrier, NULL, CROWD);
	for (i = 0; i < CROWD; i++)
		if (pthread_create(&threads[i], NULL, fight, NULL))
			abort();
	for (i = 0; i < CROWD; i++)
		pthread_join(threads[i], NULL);
	TALLY("crowd", "counted", counter);
}

/* ---- signals ---- */

static sigjmp_buf out;
static bool may_jump;
static atomic_int nr_handled;

static void handle(int number)
{
	struct pollfd p = { .fd = pipes[0], .events = POLLIN };
	struct timespec t = { 0, 50000 };
	int saved = errno;
	char c;

	(void)number;
	read(-1, &c, 1);
	poll(&p, 1, 0);
	nanosleep(&t, NULL);
	sem_post(&semaphore);
	errno = saved;
	nr_handled++;
	if (may_jump)
		siglongjmp(out, 1);
}

/* One at a time: a second of the same kind would be one with the first. */
static void *fire(void *target)
{
	int i;

	for (i = 0; i < 400; i++) {
		sleep_ms(1);
		nr_handled = 0;
		turn = i == 399 ? 2 : 0;
		pthread_kill(*(pthread_t *)target, SIGUSR1);
		while (!nr_handled)
			sleep_ms(1);
	}
	return NULL;
}

static void be_interrupted(void)
{
	struct pollfd p = { .fd = pipes[0], .events = POLLIN };
	bool is_last;

	do {
		is_last = turn == 2 && nr_handled;
		errno = 77;
		if (poll(&p, 1, 3) < 0)
			TALLY("errno", "EINTR", errno == EINTR);
		while (!sem_trywait(&semaphore))
			TALLY("posted", "times", 1);
	} while (!is_last);
}

static void do_signals(void)
{
	struct sigaction action = { .sa_handler = handle };
	pthread_t self = pthread_self();
	volatile int jumps = 0;
	char c;

	sigaction(SIGUSR1, &action, NULL);
	turn = 0;
	start(fire, &self);
	be_interrupted();
	turn = 0;
	may_jump = true;
	if (sigsetjmp(out, 1))
		jumps++;
	else
		start(fire, &self);
	while (turn != 2)
		if (read(pipes[0], &c, 1) >= 0)
			abort();
	may_jump = false;
	TALLY("jumps", "out of read", jumps > 100);
}

/* ---- vfork ---- */

static void *write_late(void *argument)
{
	(void)argument;
	sleep_ms(30);
	syscall(SYS_write, pipes[1], "x", 1);
	return NULL;
}

/* Its own frame: the child goes on in it before the parent does. */
__attribute__((noinline))
static int run_by_vfork(void)
{
	char *argv[] = { "sh", "-c", "exit 5", NULL };
	pid_t child = vfork();
	int status = 0;
	char c;

	if (!child) {
		if (read(pipes[0], &c, 1) != 1)
			_exit(1);
		execve("/bin/sh", argv, environ);
		_exit(2);
	}
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}

static int run_by_fork(void)
{
	struct timespec t = { 0, 3000000 };
	pid_t child = fork();
	int status = 0;

	if (!child) {
		pthread_mutex_lock(&lock);
		nanosleep(&t, NULL);
		_exit(6);
	}
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}

static void do_vfork(void)
{
	char *argv[] = { "sh", "-c", "exit 7", NULL };
	int status = 0, i;
	pid_t child;

	TALLY("thread", "main", (long)syscall(SYS_gettid));
	start(write_late, NULL);
	TALLY("status", "vfork", run_by_vfork());
	for (i = 0; i < 20; i++)
		TALLY("status", "fork", run_by_fork() == 6);
	if (!posix_spawn(&child, "/bin/sh", NULL, NULL, argv, environ))
		waitpid(child, &status, 0);
	TALLY("status", "spawn", WEXITSTATUS(status));
	status = system("exit 8");
	TALLY("status", "system", WEXITSTATUS(status));
}

/* ---- malloc ---- */

enum { EATERS = 8 };

static void *eat(void *argument)
{
	long i;

	/* Half of them have been recorded before. */
	if (argument)
		pthread_barrier_wait(&barrier);
	for (i = 0; i < 3000; i++) {
		char *volatile block = malloc(1 + i % 5000);

		block[i % 5000] = 1;
		free(block);
	}
	return argument;
}

static void do_malloc(void)
{
	pthread_t threads[EATERS];
	int i;

	for (i = 0; i < EATERS; i++)
		pthread_create(&threads[i], NULL, eat,
			       i % 2 ? threads : NULL);
	for (i = 0; i < EATERS; i++)
		pthread_join(threads[i], NULL);
	TALLY("malloc", "threads", EATERS);
}

static const struct {
	const char *name;
	void (*run)(void);
} modes[] = {
	{ "cancel", do_cancel }, { "crowd", do_crowd },
	{ "signals", do_signals }, { "vfork", do_vfork },
	{ "malloc", do_malloc },
};

int main(int argc, char **argv)
{
	struct gpu gpu;
	size_t i;

	gpu_open(&gpu, 0);
	pthread_barrier_init(&barrier, NULL, 2);
	sem_init(&semaphore, 0, 0);
	if (pipe(pipes) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		return EXIT_FAILURE;
	for (i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		if (argc > 1 && !strcmp(argv[1], modes[i].name))
			modes[i].run();
	gpu_launch(&gpu, KERNEL_SILU, NULL, 2000);
	TALLY("gpu", "kernels", 1);
	gpu_close(&gpu);
	tally_print();
	return EXIT_SUCCESS;
}
