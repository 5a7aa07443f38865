/* SPDX-License-Identifier: MIT */
/*
 * results: what C library calls give, those that fail above all, one line
 * each: the call, its result, and errno, which is 77 before.
 *
 *	results
 *
 * The lines must be the same whatever stands between the program and its C
 * library.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/host/gpu.h"

/* Those that _FORTIFY_SOURCE makes calls of. */
extern ssize_t __read_chk(int fd, void *buffer, size_t n, size_t size);
extern ssize_t __pread_chk(int fd, void *buffer, size_t n, off_t at,
			   size_t size);
extern ssize_t __pread64_chk(int fd, void *buffer, size_t n, off_t at,
			     size_t size);
extern ssize_t __recv_chk(int fd, void *buffer, size_t n, size_t size,
			  int flags);
extern ssize_t __recvfrom_chk(int fd, void *buffer, size_t n, size_t size,
			      int flags, struct sockaddr *from,
			      socklen_t *len);
extern int __poll_chk(struct pollfd *fds, nfds_t nr, int ms, size_t size);
extern int __ppoll_chk(struct pollfd *fds, nfds_t nr,
		       const struct timespec *limit, const sigset_t *mask,
		       size_t size);
extern int __open_2(const char *path, int flags);
extern int __open64_2(const char *path, int flags);
extern int __openat_2(int folder, const char *path, int flags);
extern int __openat64_2(int folder, const char *path, int flags);

#define SAY(call) do { \
	long result_; \
	errno = 77; \
	result_ = (long)(call); \
	printf("%s = %ld, %d\n", #call, result_, errno); \
} while (0)

/* A descriptor: which one is nobody's business. */
#define SAY_FD(call) do { \
	int fd_; \
	errno = 77; \
	fd_ = (call); \
	printf("%s = %d, %d\n", #call, fd_ < 0 ? fd_ : 0, errno); \
	if (fd_ >= 0) \
		say_file(fd_); \
} while (0)

/* What the compiler would rather not pass. */
static void *volatile nowhere;
static volatile int minus_one = -1;

static char block[4096];
static struct timespec never = { 0, 2000000000 }, past = { 1, 0 };

static void say_file(int fd)
{
	struct stat st;

	fstat(fd, &st);
	printf("  mode %o\n", st.st_mode);
	close(fd);
}

static void try_open(void)
{
	umask(0);
	SAY_FD(open("file", O_RDWR | O_CREAT | O_EXCL, 0641));
	SAY_FD(open("file", O_RDWR | O_CREAT | O_EXCL, 0641));
	SAY_FD(open64("file64", O_RDWR | O_CREAT, 0604));
	SAY_FD(openat(AT_FDCWD, "file3", O_WRONLY | O_CREAT, 0640));
	SAY_FD(openat64(AT_FDCWD, "file4", O_WRONLY | O_CREAT, 0600));
	SAY_FD(open(".", O_RDWR | O_TMPFILE, 0602));
	SAY_FD(open("nowhere/file", O_RDONLY));
	SAY_FD(openat(-1, "file", O_RDONLY));
	SAY_FD(openat64(99, "file", O_RDONLY));
	SAY_FD(open64(nowhere, O_RDONLY));
	SAY_FD(__open_2("file", O_RDONLY));
	SAY_FD(__open64_2("file", O_RDONLY));
	SAY_FD(__openat_2(AT_FDCWD, "file", O_RDONLY));
	SAY_FD(__openat64_2(AT_FDCWD, "nofile", O_RDONLY));
}

static void try_read_and_write(void)
{
	int file = open("file", O_RDWR), folder = open(".", O_RDONLY);
	struct iovec two[2] = { { block, 3 }, { block + 8, 5 } };
	off_t far = (off_t)5 << 30;

	SAY(write(file, "0123456789", 10));
	SAY(pwrite(file, "far", 3, far));
	SAY(pwrite64(file, "FAR", 3, far + 3));
	SAY(pread(file, block, 8, far));
	SAY(memcmp(block, "farFAR", 6));
	SAY(pread64(file, block, 4, far + 4));
	SAY(memcmp(block, "AR", 2));
	SAY(__pread_chk(file, block, 2, far + 1, sizeof(block)));
	SAY(memcmp(block, "ar", 2));
	SAY(__pread64_chk(file, block, 2, far + 3, sizeof(block)));
	SAY(preadv(file, two, 2, far - 2));
	SAY(memcmp(block + 8, "arFAR", 5));
	SAY(preadv64(file, two, 2, 2));
	SAY(pwritev(file, two, 2, 20));
	SAY(pwritev64(file, two, 2, far));
	SAY(lseek(file, 0, SEEK_SET));
	SAY(__read_chk(file, block, 4, sizeof(block)));
	SAY(readv(file, two, 2));
	SAY(readv(file, two, minus_one));
	SAY(writev(file, two, 2));
	SAY(read(file, nowhere, 5));
	SAY(read(-1, block, 1));
	SAY(read(folder, block, 1));
	SAY(write(folder, block, 1));
	SAY(write(-1, block, 1));
	SAY(pread(file, block, 1, -1));
	SAY(fsync(file));
	SAY(fdatasync(file));
	SAY(fsync(-1));
	SAY(fdatasync(-1));
	close(file);
	close(folder);
}

static void try_pipes(void)
{
	int pipes[2], n = 0;

	SAY(pipe2(pipes, O_NONBLOCK));
	SAY(read(pipes[0], block, 1));
	SAY(pread(pipes[0], block, 1, 0));
	SAY(write(pipes[1], "abc", 3));
	SAY(ioctl(pipes[0], FIONREAD, &n));
	SAY(n);
	SAY(ioctl(pipes[0], TIOCGWINSZ, block));
	SAY(ioctl(-1, FIONREAD, &n));
	SAY(ioctl(pipes[0], FIONREAD, NULL));
	SAY(read(pipes[0], block, 10));
	SAY(fsync(pipes[0]));
	close(pipes[0]);
	SAY(write(pipes[1], "abc", 3));
	close(pipes[1]);
}

static void try_sockets(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX, .sun_path = "sock" };
	struct sockaddr_storage from;
	struct iovec io = { block, 10 };
	struct msghdr message = { .msg_iov = &io, .msg_iovlen = 1 };
	struct mmsghdr messages[2] = { { .msg_hdr = message },
				       { .msg_hdr = message } };
	struct timespec limit = { 0, 1000000 };
	socklen_t len = sizeof(from);
	int pair[2], listener, other;

	SAY(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair));
	SAY(recv(pair[0], block, 1, 0));
	SAY(send(pair[1], "one", 3, 0));
	SAY(sendto(pair[1], "two", 3, 0, NULL, 0));
	SAY(sendmsg(pair[1], &message, 0));
	SAY(sendmmsg(pair[1], messages, 2, 0));
	SAY(recv(pair[0], block, 10, 0));
	SAY(__recv_chk(pair[0], block, 10, sizeof(block), 0));
	SAY(__recvfrom_chk(pair[0], block, 10, sizeof(block), 0,
			   (struct sockaddr *)&from, &len));
	SAY(recvmsg(pair[0], &message, 0));
	SAY(recvmmsg(pair[0], messages, 2, 0, &limit));
	SAY(recvfrom(pair[0], block, 10, MSG_DONTWAIT,
		     (struct sockaddr *)&from, &len));
	close(pair[0]);
	SAY(send(pair[1], "one", 3, MSG_NOSIGNAL));
	close(pair[1]);
	SAY(recv(STDIN_FILENO, block, 1, 0));
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	SAY(accept(listener, NULL, NULL));
	SAY(connect(listener, (void *)&name, sizeof(name)));
	SAY(bind(listener, (void *)&name, sizeof(name)));
	SAY(listen(listener, 5));
	SAY(accept(listener, NULL, NULL));
	other = socket(AF_UNIX, SOCK_STREAM, 0);
	SAY(connect(other, (void *)&name, sizeof(name)));
	SAY(connect(other, (void *)&name, sizeof(name)));
	SAY_FD(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
	SAY(accept4(listener, NULL, NULL, 0x7fff));
	SAY(connect(other, NULL, 0));
	close(other);
	close(listener);
}

static void try_poll(void)
{
	struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };
	struct timespec zero = { 0, 0 };
	struct timeval none = { 0, 0 };
	struct epoll_event e = { .events = EPOLLOUT };
	int poller = epoll_create1(0), pipes[2];
	sigset_t mask;
	fd_set set;

	sigemptyset(&mask);
	FD_ZERO(&set);
	if (pipe(pipes))
		abort();
	p.fd = pipes[1];
	SAY(poll(&p, 1, 0));
	SAY(poll(nowhere, 1, 0));
	SAY(poll(&p, (nfds_t)minus_one, 0));
	SAY(__poll_chk(&p, 1, 0, sizeof(p)));
	SAY(ppoll(&p, 1, &zero, &mask));
	SAY(ppoll(&p, 1, &never, &mask));
	SAY(__ppoll_chk(&p, 1, &zero, NULL, sizeof(p)));
	SAY(select(0, NULL, NULL, NULL, &none));
	FD_SET(pipes[1], &set);
	SAY(select(pipes[1] + 1, NULL, &set, NULL, &none));
	close(pipes[0]);
	FD_ZERO(&set);
	FD_SET(pipes[0], &set);
	SAY(select(pipes[0] + 1, &set, NULL, NULL, &none));
	SAY(pselect(0, NULL, NULL, NULL, &zero, &mask));
	SAY(pselect(-1, NULL, NULL, NULL, &zero, &mask));
	SAY(epoll_ctl(poller, EPOLL_CTL_ADD, pipes[1], &e));
	SAY(epoll_wait(poller, &e, 1, 0));
	SAY(epoll_wait(poller, &e, 0, 0));
	SAY(epoll_wait(-1, &e, 1, 0));
	SAY(epoll_pwait(poller, &e, 1, 0, &mask));
	SAY(epoll_pwait(pipes[1], &e, 1, 0, &mask));
	close(pipes[1]);
	close(poller);
}

static void try_sleep(void)
{
	struct timespec short_one = { 0, 2000000 };

	SAY(nanosleep(&short_one, NULL));
	SAY(nanosleep(&never, NULL));
	SAY(clock_nanosleep(CLOCK_MONOTONIC, 0, &short_one, NULL));
	SAY(clock_nanosleep(CLOCK_MONOTONIC, 0, &never, NULL));
	SAY(clock_nanosleep(12345, 0, &short_one, NULL));
	SAY(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &past, NULL));
	SAY(usleep(100));
	SAY(sleep(0));
	SAY(sched_yield());
}

/* ---- Locks ---- */

static pthread_mutex_t mutex;

static void make(int type, int robust, int protocol)
{
	pthread_mutexattr_t kind;

	pthread_mutexattr_init(&kind);
	pthread_mutexattr_settype(&kind, type);
	pthread_mutexattr_setrobust(&kind, robust);
	pthread_mutexattr_setprotocol(&kind, protocol);
	if (protocol == PTHREAD_PRIO_PROTECT)
		pthread_mutexattr_setprioceiling(&kind, 10);
	printf("mutex %d %d %d\n", type, robust, protocol);
	SAY(pthread_mutex_init(&mutex, &kind));
}

static void *lock_and_end(void *lock)
{
	SAY(pthread_mutex_lock(lock));
	return (void *)42;
}

static void *lock_in_vain(void *lock)
{
	struct timespec soon;

	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec = soon.tv_nsec < 997000000 ? soon.tv_nsec + 2000000 :
		999999999;
	SAY(pthread_mutex_trylock(lock));
	SAY(pthread_mutex_timedlock(lock, &soon));
	SAY(pthread_mutex_timedlock(lock, &past));
	SAY(pthread_mutex_timedlock(lock, &never));
	SAY(pthread_mutex_clocklock(lock, 12345, &past));
	SAY(pthread_mutex_clocklock(lock, CLOCK_MONOTONIC, &past));
	return NULL;
}

static long in_thread(void *(*run)(void *), void *argument)
{
	pthread_t thread;
	void *result;

	fflush(stdout);
	pthread_create(&thread, NULL, run, argument);
	SAY(pthread_join(thread, &result));
	return (long)result;
}

static void try_mutex(int type, int robust, int protocol)
{
	make(type, robust, protocol);
	SAY(pthread_mutex_lock(&mutex));
	in_thread(lock_in_vain, &mutex);
	if (type != PTHREAD_MUTEX_NORMAL && type != PTHREAD_MUTEX_ADAPTIVE_NP)
		SAY(pthread_mutex_lock(&mutex));
	SAY(pthread_mutex_unlock(&mutex));
	SAY(pthread_mutex_unlock(&mutex));
	SAY(pthread_mutex_timedlock(&mutex, &never));
	SAY(pthread_mutex_unlock(&mutex));
	SAY(pthread_mutex_clocklock(&mutex, 12345, &past));
	SAY(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &past));
	SAY(pthread_mutex_unlock(&mutex));
	if (robust != PTHREAD_MUTEX_ROBUST)
		return;
	SAY(in_thread(lock_and_end, &mutex));
	SAY(pthread_mutex_lock(&mutex));
	SAY(pthread_mutex_consistent(&mutex));
	SAY(pthread_mutex_unlock(&mutex));
	SAY(in_thread(lock_and_end, &mutex));
	SAY(pthread_mutex_timedlock(&mutex, &past));
	SAY(pthread_mutex_unlock(&mutex));
	SAY(pthread_mutex_lock(&mutex));
}

static void try_mutexes(void)
{
	static const int types[] = {
		PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
		PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP,
	};
	size_t i;

	for (i = 0; i < sizeof(types) / sizeof(*types); i++) {
		try_mutex(types[i], PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
		try_mutex(types[i], PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE);
		try_mutex(types[i], PTHREAD_MUTEX_STALLED,
			  PTHREAD_PRIO_INHERIT);
		try_mutex(types[i], PTHREAD_MUTEX_ROBUST,
			  PTHREAD_PRIO_INHERIT);
		try_mutex(types[i], PTHREAD_MUTEX_STALLED,
			  PTHREAD_PRIO_PROTECT);
	}
}

static void try_rwlock(void)
{
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

	SAY(pthread_rwlock_rdlock(&lock));
	SAY(pthread_rwlock_rdlock(&lock));
	SAY(pthread_rwlock_timedwrlock(&lock, &past));
	SAY(pthread_rwlock_timedwrlock(&lock, &never));
	SAY(pthread_rwlock_unlock(&lock));
	SAY(pthread_rwlock_unlock(&lock));
	SAY(pthread_rwlock_timedrdlock(&lock, &never));
	SAY(pthread_rwlock_clockrdlock(&lock, 12345, &past));
	SAY(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &past));
	SAY(pthread_rwlock_wrlock(&lock));
	SAY(pthread_rwlock_rdlock(&lock));
	SAY(pthread_rwlock_timedrdlock(&lock, &past));
	SAY(pthread_rwlock_clockwrlock(&lock, CLOCK_REALTIME, &past));
	SAY(pthread_rwlock_clockrdlock(&lock, CLOCK_REALTIME, &past));
	SAY(pthread_rwlock_unlock(&lock));
}

static void try_semaphore(void)
{
	sem_t sem;
	int left;

	sem_init(&sem, 0, 3);
	SAY(sem_wait(&sem));
	SAY(sem_timedwait(&sem, &past));
	SAY(sem_timedwait(&sem, &never));
	SAY(sem_clockwait(&sem, 12345, &past));
	SAY(sem_clockwait(&sem, CLOCK_MONOTONIC, &past));
	SAY(sem_timedwait(&sem, &past));
	SAY(sem_clockwait(&sem, CLOCK_MONOTONIC, &past));
	SAY(sem_timedwait(&sem, &never));
	SAY((sem_getvalue(&sem, &left), left));
}

static void *sleep_a_little(void *argument)
{
	usleep(20000);
	return argument;
}

static void try_threads(void)
{
	pthread_mutex_t lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	pthread_barrier_t barrier;
	pthread_t thread;
	void *result = NULL;

	SAY(pthread_cond_timedwait(&cond, &lock, &past));
	SAY(pthread_mutex_lock(&lock));
	SAY(pthread_cond_timedwait(&cond, &lock, &past));
	SAY(pthread_cond_timedwait(&cond, &lock, &never));
	SAY(pthread_cond_clockwait(&cond, &lock, CLOCK_MONOTONIC, &past));
	SAY(pthread_cond_clockwait(&cond, &lock, 12345, &past));
	SAY(pthread_mutex_unlock(&lock));
	SAY(pthread_join(pthread_self(), NULL));
	pthread_create(&thread, NULL, sleep_a_little, (void *)43);
	SAY(pthread_timedjoin_np(thread, &result, &past));
	SAY(pthread_clockjoin_np(thread, &result, CLOCK_MONOTONIC, &past));
	SAY(pthread_join(thread, &result));
	SAY((long)result);
	pthread_barrier_init(&barrier, NULL, 1);
	SAY(pthread_barrier_wait(&barrier));
}

static void try_children(void)
{
	struct rusage used;
	siginfo_t word;
	int status = 0;
	pid_t child;

	SAY(waitpid(-1, &status, WNOHANG));
	SAY(wait(&status));
	SAY(wait3(&status, 0, &used));
	SAY(wait4(-1, &status, 0, &used));
	SAY(waitid(P_ALL, 0, &word, WEXITED));
	fflush(stdout);
	child = fork();
	if (!child)
		_exit(9);
	SAY(waitid(P_PID, (id_t)child, &word, WEXITED | WNOWAIT));
	SAY(word.si_status);
	SAY(waitpid(child, &status, 0) == child);
	SAY(WEXITSTATUS(status));
	SAY(waitpid(child, &status, 99999));
}

int main(void)
{
	struct gpu gpu;

	signal(SIGPIPE, SIG_IGN);
	gpu_open(&gpu, 0);
	try_open();
	try_read_and_write();
	try_pipes();
	try_sockets();
	try_poll();
	try_sleep();
	try_mutexes();
	try_rwlock();
	try_semaphore();
	try_threads();
	try_children();
	gpu_launch(&gpu, KERNEL_SILU, NULL, 2000);
	gpu_close(&gpu);
	return EXIT_SUCCESS;
}
