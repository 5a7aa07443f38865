/* SPDX-License-Identifier: MIT */
/*
 * A thread with descriptors of its own: the process keeps what it had, the
 * thread holds none of it open, on new kernels, on old ones that know no
 * close_range(); shared stays what the system refuses to part, or may punish.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
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

/* Old kernels know no close_range(), some systems no unshare(). */
static bool knows_close_range = true, knows_unshare = true;

long syscall(long number, ...)
{
	static long (*real)(long, ...);
	va_list a;
	long x, y, z;

	va_start(a, number);
	x = va_arg(a, long);
	y = va_arg(a, long);
	z = va_arg(a, long);
	va_end(a);
	if (number == NR_CLOSE_RANGE && !knows_close_range) {
		errno = ENOSYS;
		return -1;
	}
	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	return real(number, x, y, z);
}

int unshare(int flags)
{
	if (knows_unshare)
		return (int)syscall(SYS_unshare, (long)flags, 0L, 0L);
	errno = EPERM;
	return -1;
}

/* A filter that lets everything pass: what it does with unusual calls cannot
 * be known. */
static void filter(void)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { .filter = &all, .len = 1 };

	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static bool is_filtered(void)
{
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0;
}

static bool has_ended(int fd)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	char byte;

	return poll(&wait, 1, 0) == 1 && read(fd, &byte, 1) == 0;
}

static int nr_open(void)
{
	int fd, nr = 0;

	for (fd = 0; fd < 256; fd++)
		nr += fcntl(fd, F_GETFD) >= 0;
	return nr;
}

/* While the thread lives: does the pipe end when the process closes it? */
static void try_thread(bool parts)
{
	pthread_t thread;
	struct stat st;
	int ends[2], nr;

	CHECK_EQ(pipe(ends), 0);
	nr = nr_open();
	CHECK_EQ(pthread_create(&thread, NULL, live_apart, ends), 0);
	while (!atomic_load(&stage))
		usleep(1000);
	CHECK_EQ(result == 0, parts);
	CHECK_EQ(inherited, parts ? 0 : 2);
	CHECK_EQ(own_thread_files_are_apart(), parts);
	CHECK(opened > STDERR_FILENO);
	CHECK_EQ(nr_open(), nr + !parts);       /* what the thread opened */
	CHECK_EQ(!fstat(opened, &st) && S_ISCHR(st.st_mode), !parts);
	CHECK(write(ends[1], "x", 1) == 1 && !has_ended(ends[0]));
	close(ends[1]);
	CHECK(has_ended(ends[0]));
	atomic_store(&stage, 2);
	pthread_join(thread, NULL);
}

/* In a process of its own: a filter stays, and the thread's state too. */
static void in_child(void (*prepare)(void), bool parts)
{
	pid_t child = fork();
	int status;

	if (!child) {
		if (prepare)
			prepare();
		try_thread(parts);
		_exit(check_result());
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
}

static void be_old(void)
{
	knows_close_range = false;
}

static void refuse_both(void)
{
	knows_close_range = knows_unshare = false;
}

/* ---- Which threads are ours ---- */

static atomic_uint known_tid;
static atomic_int is_self, may_end;

static void *tell_self(void *argument)
{
	atomic_store(&is_self, own_thread_is_self());
	atomic_store(&known_tid, (unsigned int)syscall(SYS_gettid));
	while (!atomic_load(&may_end))
		usleep(1000);
	return argument;
}

static void test_known(void)
{
	unsigned int main_tid = (unsigned int)syscall(SYS_gettid), tid;

	CHECK(!own_thread_start("gputrace-test", tell_self, NULL));
	while (!(tid = atomic_load(&known_tid)))
		usleep(1000);
	CHECK(atomic_load(&is_self) && own_thread_is(tid));
	CHECK(!own_thread_is_starting());
	CHECK(!own_thread_is_self() && !own_thread_is(main_tid));
	atomic_store(&may_end, 1);
	usleep(50000);
	CHECK(own_thread_is(tid));      /* it may be in /proc still */
	CHECK(!own_thread_is_caller(tid));
	own_thread_calls_driver(tid);
	CHECK(own_thread_is_caller(tid) && !own_thread_is_caller(main_tid));
	own_thread_forget_all();
	CHECK(!own_thread_is(tid) && !own_thread_is_caller(tid));
	CHECK(!own_thread_is(0) && !own_thread_is_caller(0));
	/* More than there is room to know at once, one after another. */
	for (int i = 0; i < 200; i++)
		while (own_thread_start("gputrace-test", tell_self, NULL))
			usleep(1000);
}

#ifdef OWN_THREAD_SHARES_FILES
enum { SHARES_FILES = 1 };
#else
enum { SHARES_FILES = 0 };
#endif

int main(void)
{
	/* The children first: while threads end, a sanitizer's allocator may
	 * be locked, and a child of that moment would wait for ever.  In a
	 * container that filters, all is shared in any case. */
	if (!SHARES_FILES && !is_filtered()) {
		in_child(NULL, true);
		in_child(be_old, true);
		in_child(refuse_both, false);
	}
	if (!SHARES_FILES)
		in_child(filter, false);
	test_known();
	return SHARES_FILES && !check_failures ? 77 : check_result();
}
