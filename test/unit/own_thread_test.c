/* SPDX-License-Identifier: MIT */
/*
 * A thread with descriptors of its own: the process keeps what it had, the
 * thread holds none of it open, on new kernels, on old ones (a filter that
 * knows no close_range), and where the system refuses.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collector/own_thread.h"
#include "test/check.h"

#define NR_CLOSE_RANGE 436

static atomic_int stage;        /* 1: has parted; 2: may end */
static int result, opened, inherited;

static void *live_apart(void *argument)
{
	int *ends = argument;
	struct stat st;

	result = own_thread_part_files();
	inherited = !fstat(ends[0], &st) + !fstat(ends[1], &st);
	opened = open("/dev/null", O_RDONLY | O_CLOEXEC);
	atomic_store(&stage, 1);
	while (atomic_load(&stage) != 2)
		usleep(1000);
	return NULL;
}

/* The system calls of `refused` fail with ENOSYS from here on. */
static void refuse(const int *refused, int nr)
{
	struct sock_filter code[16] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog program = { .filter = code };
	int i, at = 1;

	for (i = 0; i < nr; i++) {
		code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ |
			BPF_K, (unsigned int)refused[i], 0, 1);
		code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
			SECCOMP_RET_ERRNO | ENOSYS);
	}
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
						  SECCOMP_RET_ALLOW);
	program.len = (unsigned short)at;
	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static bool has_ended(int fd)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	char byte;

	return poll(&wait, 1, 0) == 1 && read(fd, &byte, 1) == 0;
}

/* While the thread lives: does the pipe end when the process closes it? */
static void try_thread(bool parts)
{
	pthread_t thread;
	struct stat st;
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(pthread_create(&thread, NULL, live_apart, ends), 0);
	while (!atomic_load(&stage))
		usleep(1000);
	CHECK_EQ(result == 0, parts);
	CHECK_EQ(inherited, parts ? 0 : 2);
	CHECK_EQ(own_thread_files_are_apart(), parts);
	CHECK(opened > STDERR_FILENO);
	CHECK_EQ(!fstat(opened, &st) && S_ISCHR(st.st_mode), !parts);
	CHECK(write(ends[1], "x", 1) == 1 && !has_ended(ends[0]));
	close(ends[1]);
	CHECK(has_ended(ends[0]));
	atomic_store(&stage, 2);
	pthread_join(thread, NULL);
}

/* In a process of its own: a filter stays, and the thread's state too. */
static void in_child(const int *refused, int nr, bool parts)
{
	pid_t child = fork();
	int status;

	if (!child) {
		if (nr)
			refuse(refused, nr);
		try_thread(parts);
		_exit(check_result());
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
}

int main(void)
{
	static const int refused[] = { NR_CLOSE_RANGE, SYS_unshare };

#ifdef __SANITIZE_THREAD__
	return 77;              /* the table stays shared */
#endif
	in_child(refused, 0, true);
	in_child(refused, 1, true);
	in_child(refused, 2, false);
	return check_result();
}
