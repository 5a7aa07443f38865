/* SPDX-License-Identifier: MIT */
/*
 * children: a program that makes children in every way there is.
 *
 *	children MODE [ARGUMENT]
 *
 *	prefork      three workers that use CUDA, of a parent that does not
 *	fork-before  the same, and the parent uses CUDA afterwards
 *	fork-after   children of a parent that uses CUDA; they do not
 *	vfork        the same by vfork: one execs, one ends
 *	spawn [FILE] posix_spawn: one uses CUDA, one does not; when FILE is there
 *	clone        bare clones, with memory of their own and shared
 *	shells       system() and popen()
 *	daemon FILE  forks twice, closes all descriptors, opens FILE in their
 *	             place, and only then uses CUDA; its word is in FILE
 *	many N       N forks beside threads that launch; the children exec, exit
 *	             or _exit
 *	worker       uses CUDA;  nothing  does not
 *
 * Each process says what it did in a line:
 *	gpu PID KERNELS              used CUDA
 *	inert PID THREADS FILES      did not; what it has open and running
 */
#include <dirent.h>
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/host/gpu.h"

enum { STATUS = 7, NR_WORKERS = 3 };

static struct gpu gpu;
static char *self;

static void work(long nr)
{
	long i;

	for (i = 0; i < nr; i++)
		gpu_launch(&gpu, KERNEL_SILU, NULL, 2000);
	CU(cuCtxSynchronize);
}

static void say_gpu(long nr)
{
	dprintf(STDOUT_FILENO, "gpu %d %ld\n", getpid(), nr);
}

static int count(const char *folder)
{
	DIR *dir = opendir(folder);
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n - 2;
}

static void say_inert(void)
{
	dprintf(STDOUT_FILENO, "inert %d %d %d\n", (int)syscall(SYS_getpid),
		count("/proc/self/task"), count("/proc/self/fd"));
}

static int use_gpu(long nr)
{
	gpu_open(&gpu, 0);
	work(nr);
	say_gpu(nr);
	return STATUS;
}

static bool ended_well(pid_t pid)
{
	int status;

	return pid > 0 && waitpid(pid, &status, 0) == pid &&
		WIFEXITED(status) && WEXITSTATUS(status) == STATUS;
}

static int check(bool is_well)
{
	if (!is_well)
		dprintf(STDOUT_FILENO, "harmed: a child's status\n");
	return is_well ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- fork ---- */

static bool make_workers(void)
{
	pid_t pids[NR_WORKERS];
	bool is_well = true;
	int i;

	for (i = 0; i < NR_WORKERS; i++) {
		pids[i] = fork();
		if (!pids[i])
			exit(use_gpu(100 + i));
	}
	for (i = 0; i < NR_WORKERS; i++)
		is_well &= ended_well(pids[i]);
	return is_well;
}

static int prefork(const char *unused)
{
	(void)unused;
	nvtxMarkA("before");
	return check(make_workers());
}

static int fork_before(const char *unused)
{
	bool is_well;

	(void)unused;
	is_well = make_workers();
	use_gpu(50);
	return check(is_well);
}

static void be_inert(void)
{
	nvtxRangePushA("in a child");
	nvtxRangePop();
	say_inert();
}

static int fork_after(const char *unused)
{
	bool is_well = true;
	pid_t pid;
	int i;

	(void)unused;
	use_gpu(50);
	for (i = 0; i < 3; i++) {
		pid = fork();
		if (!pid) {
			be_inert();
			if (i == 0)
				exit(STATUS);
			if (i == 1)
				_exit(STATUS);
			execl(self, self, "nothing", NULL);
		}
		is_well &= ended_well(pid);
	}
	work(50);
	say_gpu(50);
	return check(is_well);
}

/* ---- vfork, posix_spawn, clone ---- */

static int by_vfork(const char *unused)
{
	volatile bool is_well;
	pid_t pid;

	(void)unused;
	use_gpu(50);
	pid = vfork();
	if (!pid)
		_exit(STATUS);
	is_well = ended_well(pid);
	pid = vfork();
	if (!pid) {
		execl(self, self, "nothing", NULL);
		_exit(1);
	}
	is_well = ended_well(pid) && is_well;
	work(50);
	say_gpu(50);
	return check(is_well);
}

static pid_t spawn(char *mode)
{
	char *arguments[] = { self, mode, NULL };
	pid_t pid;

	return posix_spawn(&pid, self, NULL, NULL, arguments, environ) ? -1 :
		pid;
}

/* With a path: the child comes when that file is there. */
static int by_spawn(const char *path)
{
	bool is_well;
	int i;

	use_gpu(50);
	for (i = 0; path && access(path, F_OK) && i < 2000; i++)
		usleep(10000);
	is_well = ended_well(spawn("worker")) & ended_well(spawn("nothing"));
	work(50);
	say_gpu(50);
	return check(is_well);
}

static int end_at_once(void *unused)
{
	(void)unused;
	_exit(STATUS);
}

static int by_clone(const char *unused)
{
	static char stack[65536] __attribute__((aligned(16)));
	bool is_well;
	pid_t pid;

	(void)unused;
	use_gpu(50);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!pid) {
		be_inert();
		exit(STATUS);
	}
	is_well = ended_well(pid);
	pid = clone(end_at_once, stack + sizeof(stack),
		    CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	is_well &= ended_well(pid);
	pid = clone(end_at_once, stack + sizeof(stack), CLONE_VM | SIGCHLD,
		    NULL);
	is_well &= ended_well(pid);
	work(50);
	say_gpu(50);
	return check(is_well);
}

static int by_shells(const char *unused)
{
	char line[64] = "";
	FILE *pipe;

	(void)unused;
	use_gpu(50);
	if (WEXITSTATUS(system("exit 7")) != STATUS)
		return check(false);
	pipe = popen("echo hello | cat", "r");
	if (!pipe || !fgets(line, sizeof(line), pipe) || pclose(pipe))
		return check(false);
	work(50);
	say_gpu(50);
	return check(!strcmp(line, "hello\n"));
}

/* ---- daemon ---- */

static void be_daemon(const char *path)
{
	int fd;

	setsid();
	if (fork())
		_exit(0);
	for (fd = 0; fd < 64; fd++)
		close(fd);
	for (fd = 0; fd < 8; fd++)
		if (open(fd < 3 ? "/dev/null" : path, O_RDWR | O_CREAT, 0600)
		    != fd)
			_exit(1);
	gpu_open(&gpu, 0);
	work(100);
	dprintf(3, "gpu %d 100\n", getpid());
	exit(STATUS);
}

static int make_daemon(const char *path)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		be_daemon(path);
	return waitpid(pid, &status, 0) == pid && !status ? EXIT_SUCCESS :
		check(false);
}

/* ---- many ---- */

static atomic_bool is_over;

static void *be_busy(void *unused)
{
	gpu_use(&gpu);
	while (!atomic_load(&is_over)) {
		nvtxRangePushA("beside");
		gpu_try_launch(&gpu, KERNEL_COPY, NULL, 1000);
		nvtxRangePop();
		free(malloc(1000));
	}
	return unused;
}

static _Noreturn void end_somehow(int i)
{
	alarm(30);              /* one that hangs does not end with STATUS */
	free(malloc(100000));
	nvtxMarkA("in a child");
	if (i % 4 == 0)
		exit(STATUS);
	if (i % 4 == 1)
		_exit(STATUS);
	if (i % 4 == 2)
		quick_exit(STATUS);
	execl(self, self, "end", NULL);
	_exit(1);
}

static int make_many(const char *number)
{
	int i, nr = number ? atoi(number) : 200;
	uint64_t start_ns, slowest_ns = 0, took_ns;
	pthread_t threads[2];
	bool is_well = true;
	pid_t pid;

	gpu_open(&gpu, 0);
	for (i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, be_busy, NULL);
	for (i = 0; i < nr; i++) {
		start_ns = now_ns();
		pid = fork();
		if (!pid)
			end_somehow(i);
		is_well &= ended_well(pid);
		took_ns = now_ns() - start_ns;
		slowest_ns = took_ns > slowest_ns ? took_ns : slowest_ns;
	}
	atomic_store(&is_over, true);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	dprintf(STDOUT_FILENO, "slowest %ld ms\n",
		(long)(slowest_ns / 1000000));
	return check(is_well);
}

/* ---- what they become ---- */

static int be_worker(const char *unused)
{
	(void)unused;
	return use_gpu(30);
}

static int be_nothing(const char *unused)
{
	(void)unused;
	say_inert();
	return STATUS;
}

static int just_end(const char *unused)
{
	(void)unused;
	return STATUS;
}

static const struct {
	const char *name;
	int (*run)(const char *argument);
} modes[] = {
	{ "prefork", prefork }, { "fork-before", fork_before },
	{ "fork-after", fork_after }, { "vfork", by_vfork },
	{ "spawn", by_spawn }, { "clone", by_clone }, { "shells", by_shells },
	{ "daemon", make_daemon }, { "many", make_many },
	{ "worker", be_worker }, { "nothing", be_nothing },
	{ "end", just_end },
};

int main(int argc, char **argv)
{
	size_t i;

	self = argv[0];
	for (i = 0; argc > 1 && i < sizeof(modes) / sizeof(*modes); i++)
		if (!strcmp(argv[1], modes[i].name))
			return modes[i].run(argc > 2 ? argv[2] : NULL);
	return 2;
}
