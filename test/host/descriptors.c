/* SPDX-License-Identifier: MIT */
/*
 * descriptors: a program that does to descriptors what daemons do.
 *
 *	descriptors MODE [FILE]
 *
 *	close-beside FILE  closes all and takes their numbers for FILE, which must
 *	                   stay empty, again and again while it launches
 *	eof                its own pipe, and stdout, end when it closes them
 *	lock FILE          a lock of fcntl() on FILE survives
 *	used-up FILE       there is no descriptor left when it begins to launch
 *	stderr FILE        closes stderr, and FILE gets its number
 *
 * Prints what it did as JSON; status 1 if it was harmed.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/host/gpu.h"

static struct gpu gpu;

static void work(long nr)
{
	long i;

	for (i = 0; i < nr; i++)
		gpu_launch(&gpu, KERNEL_SILU, NULL, 2000);
	CU(cuCtxSynchronize);
	TALLY("gpu", "kernels", nr);
}

static int harmed(const char *how)
{
	printf("harmed: %s\n", how);
	return EXIT_FAILURE;
}

/* ---- close-beside ---- */

static atomic_bool is_over;

static void close_all(void)
{
	int fd;

	for (fd = 3; fd < 20; fd++)
		close(fd);
}

/* Low numbers are free for a while, so that whoever opens a file now gets one
 * of them; then they are gone, and another file has them. */
static void *take_numbers(void *path)
{
	int fd;

	while (!atomic_load(&is_over)) {
		close_all();
		usleep(2000);
		close_all();
		for (fd = 3; fd < 20; fd++)
			(void)!open(path, O_RDWR | O_CREAT, 0600);
		usleep(2000);
		TALLY("closed", "rounds", 1);
	}
	return NULL;
}

static int close_beside(const char *path)
{
	uint64_t until_ns;
	pthread_t thread;

	gpu_open(&gpu, 0);
	work(1);
	usleep(300000);         /* the library has attached whole */
	pthread_create(&thread, NULL, take_numbers, (void *)path);
	for (until_ns = now_ns() + 1000000000u; now_ns() < until_ns; ) {
		work(10);
		usleep(1000);
	}
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
	return EXIT_SUCCESS;
}

/* ---- eof ---- */

static int see_eof(const char *unused)
{
	int ends[2];
	char byte;

	(void)unused;
	if (pipe(ends))
		return EXIT_FAILURE;
	gpu_open(&gpu, 0);
	work(10);
	close(ends[1]);
	alarm(20);
	if (read(ends[0], &byte, 1) != 0)
		return harmed("no end of the pipe");
	tally_print();
	fflush(stdout);
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	work(10);
	_exit(EXIT_SUCCESS);
}

/* ---- lock ---- */

static int hold_lock(const char *path)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = open(path, O_RDWR | O_CREAT, 0600), status;
	pid_t pid;

	if (fd < 0 || fcntl(fd, F_SETLK, &whole))
		return EXIT_FAILURE;
	gpu_open(&gpu, 0);
	work(10);
	usleep(300000);
	pid = fork();
	if (!pid)
		_exit(fcntl(fd, F_SETLK, &whole) ? 7 : 0);
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status) == 7 ? EXIT_SUCCESS :
		harmed("the lock is gone");
}

/* ---- used-up ---- */

static int use_up(const char *path)
{
	struct rlimit limit = { 64, 64 };

	gpu_open(&gpu, 0);
	setrlimit(RLIMIT_NOFILE, &limit);
	usleep(300000);
	while (open(path, O_RDWR | O_CREAT, 0600) >= 0)
		;
	work(100);
	return EXIT_SUCCESS;
}

/* ---- stderr ---- */

static int take_stderr(const char *path)
{
	close(STDERR_FILENO);
	if (open(path, O_RDWR | O_CREAT, 0600) != STDERR_FILENO)
		return EXIT_FAILURE;
	gpu_open(&gpu, 0);
	work(10);
	return EXIT_SUCCESS;
}

static const struct {
	const char *name;
	int (*run)(const char *path);
} modes[] = {
	{ "close-beside", close_beside }, { "eof", see_eof },
	{ "lock", hold_lock }, { "used-up", use_up }, { "stderr", take_stderr },
};

int main(int argc, char **argv)
{
	int status = 2;
	size_t i;

	for (i = 0; argc > 1 && i < sizeof(modes) / sizeof(*modes); i++) {
		if (strcmp(argv[1], modes[i].name))
			continue;
		status = modes[i].run(argc > 2 ? argv[2] : NULL);
		if (!status)
			tally_print();
	}
	return status;
}
