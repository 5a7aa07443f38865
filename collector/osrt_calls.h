/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_OSRT_CALLS_H
#define GPUTRACE_COLLECTOR_OSRT_CALLS_H

/*
 * The C library calls that `osrt` sees: the one list of them, which the link
 * reads, too (Makefile: --wrap).
 *
 *   X(name, arguments, way, about, version, other version)
 *
 * All arguments are integers or pointers, so that a call is known by their
 * number; those of open() and ioctl() come in the same registers whether the
 * callee takes them by name or by `...`.
 *
 *   way    TIMED         the clock is read before and after
 *          LOCK          tried first, by the try of its object; the clock is
 *          LOCK_UNTIL    read only where it blocks.  LOCK_UNTIL: the second
 *          LOCK_CLOCK    argument is the deadline; LOCK_CLOCK: clock, deadline
 *   about  FD            the first argument is a descriptor
 *          OPENED        the result is one
 *          DRIVER        the first is one; recorded only if it is a driver's
 *          FDS           the second says how many there are
 *          WHAT          the first is an object: a mutex, a thread
 *          NOTHING
 *          mutex rdlock wrlock sem: of a LOCK; the object
 *
 * Versions are those by which the C library has the call, where both are the
 * same function: x86-64's, of which aarch64 has what is later than 2.17 (and
 * 2.17 for the rest).  pthread_cond_wait@GLIBC_2.2.5 has another layout of the
 * condition variable: programs that ask for that go past us.
 */
#define OSRT_CALLS(X) \
	X(pthread_mutex_lock, 1, LOCK, mutex, V2_2_5, NONE) \
	X(pthread_mutex_timedlock, 2, LOCK_UNTIL, mutex, V2_2_5, V2_34) \
	X(pthread_mutex_clocklock, 3, LOCK_CLOCK, mutex, V2_30, V2_34) \
	X(pthread_rwlock_rdlock, 1, LOCK, rdlock, V2_2_5, V2_34) \
	X(pthread_rwlock_timedrdlock, 2, LOCK_UNTIL, rdlock, V2_2_5, V2_34) \
	X(pthread_rwlock_clockrdlock, 3, LOCK_CLOCK, rdlock, V2_30, V2_34) \
	X(pthread_rwlock_wrlock, 1, LOCK, wrlock, V2_2_5, V2_34) \
	X(pthread_rwlock_timedwrlock, 2, LOCK_UNTIL, wrlock, V2_2_5, V2_34) \
	X(pthread_rwlock_clockwrlock, 3, LOCK_CLOCK, wrlock, V2_30, V2_34) \
	X(sem_wait, 1, LOCK, sem, V2_2_5, V2_34) \
	X(sem_timedwait, 2, LOCK_UNTIL, sem, V2_2_5, V2_34) \
	X(sem_clockwait, 3, LOCK_CLOCK, sem, V2_30, V2_34) \
	X(pthread_cond_wait, 2, TIMED, WHAT, V2_3_2, NONE) \
	X(pthread_cond_timedwait, 3, TIMED, WHAT, V2_3_2, NONE) \
	X(pthread_cond_clockwait, 4, TIMED, WHAT, V2_30, V2_34) \
	X(pthread_join, 2, TIMED, WHAT, V2_2_5, V2_34) \
	X(pthread_timedjoin_np, 3, TIMED, WHAT, V2_3_3, V2_34) \
	X(pthread_clockjoin_np, 4, TIMED, WHAT, V2_31, V2_34) \
	X(pthread_barrier_wait, 1, TIMED, WHAT, V2_2_5, V2_34) \
	X(poll, 3, TIMED, FDS, V2_2_5, NONE) \
	X(__poll_chk, 4, TIMED, FDS, V2_16, NONE) \
	X(ppoll, 4, TIMED, FDS, V2_4, NONE) \
	X(__ppoll_chk, 5, TIMED, FDS, V2_16, NONE) \
	X(select, 5, TIMED, NOTHING, V2_2_5, NONE) \
	X(pselect, 6, TIMED, NOTHING, V2_2_5, NONE) \
	X(epoll_wait, 4, TIMED, FD, V2_3_2, NONE) \
	X(epoll_pwait, 5, TIMED, FD, V2_6, NONE) \
	X(epoll_pwait2, 5, TIMED, FD, V2_35, NONE) \
	X(read, 3, TIMED, FD, V2_2_5, NONE) \
	X(__read_chk, 4, TIMED, FD, V2_4, NONE) \
	X(readv, 3, TIMED, FD, V2_2_5, NONE) \
	X(pread, 4, TIMED, FD, V2_2_5, NONE) \
	X(pread64, 4, TIMED, FD, V2_2_5, NONE) \
	X(__pread_chk, 5, TIMED, FD, V2_4, NONE) \
	X(__pread64_chk, 5, TIMED, FD, V2_4, NONE) \
	X(preadv, 4, TIMED, FD, V2_10, NONE) \
	X(preadv64, 4, TIMED, FD, V2_10, NONE) \
	X(write, 3, TIMED, FD, V2_2_5, NONE) \
	X(writev, 3, TIMED, FD, V2_2_5, NONE) \
	X(pwrite, 4, TIMED, FD, V2_2_5, NONE) \
	X(pwrite64, 4, TIMED, FD, V2_2_5, NONE) \
	X(pwritev, 4, TIMED, FD, V2_10, NONE) \
	X(pwritev64, 4, TIMED, FD, V2_10, NONE) \
	X(recv, 4, TIMED, FD, V2_2_5, NONE) \
	X(__recv_chk, 5, TIMED, FD, V2_4, NONE) \
	X(recvfrom, 6, TIMED, FD, V2_2_5, NONE) \
	X(__recvfrom_chk, 7, TIMED, FD, V2_4, NONE) \
	X(recvmsg, 3, TIMED, FD, V2_2_5, NONE) \
	X(recvmmsg, 5, TIMED, FD, V2_12, NONE) \
	X(send, 4, TIMED, FD, V2_2_5, NONE) \
	X(sendto, 6, TIMED, FD, V2_2_5, NONE) \
	X(sendmsg, 3, TIMED, FD, V2_2_5, NONE) \
	X(sendmmsg, 4, TIMED, FD, V2_14, NONE) \
	X(accept, 3, TIMED, FD, V2_2_5, NONE) \
	X(accept4, 4, TIMED, FD, V2_10, NONE) \
	X(connect, 3, TIMED, FD, V2_2_5, NONE) \
	X(fsync, 1, TIMED, FD, V2_2_5, NONE) \
	X(fdatasync, 1, TIMED, FD, V2_2_5, NONE) \
	X(open, 3, TIMED, OPENED, V2_2_5, NONE) \
	X(open64, 3, TIMED, OPENED, V2_2_5, NONE) \
	X(__open_2, 2, TIMED, OPENED, V2_7, NONE) \
	X(__open64_2, 2, TIMED, OPENED, V2_7, NONE) \
	X(openat, 4, TIMED, OPENED, V2_4, NONE) \
	X(openat64, 4, TIMED, OPENED, V2_4, NONE) \
	X(__openat_2, 3, TIMED, OPENED, V2_7, NONE) \
	X(__openat64_2, 3, TIMED, OPENED, V2_7, NONE) \
	X(ioctl, 3, TIMED, DRIVER, V2_2_5, NONE) \
	X(sleep, 1, TIMED, NOTHING, V2_2_5, NONE) \
	X(usleep, 1, TIMED, NOTHING, V2_2_5, NONE) \
	X(nanosleep, 2, TIMED, NOTHING, V2_2_5, NONE) \
	X(clock_nanosleep, 4, TIMED, NOTHING, V2_17, X86_2_2_5) \
	X(sched_yield, 0, TIMED, NOTHING, V2_2_5, NONE) \
	X(wait, 1, TIMED, NOTHING, V2_2_5, NONE) \
	X(wait3, 3, TIMED, NOTHING, V2_2_5, NONE) \
	X(wait4, 4, TIMED, NOTHING, V2_2_5, NONE) \
	X(waitpid, 3, TIMED, NOTHING, V2_2_5, NONE) \
	X(waitid, 4, TIMED, NOTHING, V2_2_5, NONE)

#if defined(__x86_64__)
#define OSRT_V2_2_5 "GLIBC_2.2.5"
#define OSRT_V2_3_2 "GLIBC_2.3.2"
#define OSRT_V2_3_3 "GLIBC_2.3.3"
#define OSRT_V2_4 "GLIBC_2.4"
#define OSRT_V2_6 "GLIBC_2.6"
#define OSRT_V2_7 "GLIBC_2.7"
#define OSRT_V2_10 "GLIBC_2.10"
#define OSRT_V2_12 "GLIBC_2.12"
#define OSRT_V2_14 "GLIBC_2.14"
#define OSRT_V2_16 "GLIBC_2.16"
#define OSRT_V2_17 "GLIBC_2.17"
#define OSRT_X86_2_2_5 "GLIBC_2.2.5"
#else
#define OSRT_V2_2_5 "GLIBC_2.17"
#define OSRT_V2_3_2 "GLIBC_2.17"
#define OSRT_V2_3_3 "GLIBC_2.17"
#define OSRT_V2_4 "GLIBC_2.17"
#define OSRT_V2_6 "GLIBC_2.17"
#define OSRT_V2_7 "GLIBC_2.17"
#define OSRT_V2_10 "GLIBC_2.17"
#define OSRT_V2_12 "GLIBC_2.17"
#define OSRT_V2_14 "GLIBC_2.17"
#define OSRT_V2_16 "GLIBC_2.17"
#define OSRT_V2_17 "GLIBC_2.17"
#define OSRT_X86_2_2_5 ""
#endif
#define OSRT_V2_30 "GLIBC_2.30"
#define OSRT_V2_31 "GLIBC_2.31"
#define OSRT_V2_34 "GLIBC_2.34"
#define OSRT_V2_35 "GLIBC_2.35"
#define OSRT_NONE ""

/* A call's parameters, and as arguments, by their number. */
#define OSRT_P0 void
#define OSRT_P1 long a
#define OSRT_P2 OSRT_P1, long b
#define OSRT_P3 OSRT_P2, long c
#define OSRT_P4 OSRT_P3, long d
#define OSRT_P5 OSRT_P4, long e
#define OSRT_P6 OSRT_P5, long f
#define OSRT_P7 OSRT_P6, long g
#define OSRT_A0
#define OSRT_A1 a
#define OSRT_A2 OSRT_A1, b
#define OSRT_A3 OSRT_A2, c
#define OSRT_A4 OSRT_A3, d
#define OSRT_A5 OSRT_A4, e
#define OSRT_A6 OSRT_A5, f
#define OSRT_A7 OSRT_A6, g

enum osrt_id {
#define X(name, ...) OSRT_##name,
	OSRT_CALLS(X)
#undef X
	OSRT_NR
};

#endif
