/* SPDX-License-Identifier: MIT */
#include "test/host/narrow.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * What `strace -f` shows of a CUDA program that starts threads, reads /proc
 * and writes files; where a call is refused and no more, nothing else.
 */
static const unsigned int allowed[] = {
	SYS_read, SYS_write, SYS_openat, SYS_close, SYS_fstat, SYS_lseek,
	SYS_mmap, SYS_mprotect, SYS_munmap, SYS_brk, SYS_rt_sigaction,
	SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_ioctl, SYS_pread64,
	SYS_pwrite64, SYS_madvise, SYS_mremap, SYS_getpid, SYS_gettid,
	SYS_clone, SYS_exit, SYS_exit_group, SYS_futex, SYS_sched_yield,
	SYS_sched_getaffinity, SYS_sched_setaffinity, SYS_getdents64,
	SYS_set_robust_list, SYS_clock_gettime, SYS_clock_nanosleep,
	SYS_nanosleep, SYS_prctl, SYS_uname, SYS_getcwd, SYS_getuid,
	SYS_geteuid, SYS_getgid, SYS_getegid, SYS_prlimit64, SYS_getrandom,
	SYS_fcntl, SYS_ftruncate, SYS_unlinkat, SYS_linkat, SYS_renameat,
	SYS_faccessat, SYS_readlinkat, SYS_mkdirat, SYS_sysinfo, SYS_tgkill,
#ifdef SYS_newfstatat
	SYS_newfstatat,
#endif
#ifdef SYS_open
	SYS_open, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_unlink,
	SYS_link, SYS_rename, SYS_poll, SYS_arch_prctl, SYS_time,
#endif
#ifdef SYS_clone3
	SYS_clone3,
#endif
#ifdef SYS_rseq
	SYS_rseq,
#endif
#ifdef SYS_statx
	SYS_statx,
#endif
};

/*
 * What files and threads need besides.  A filter that kills has these: Docker's
 * default profile and systemd's @system-service do.
 */
static const unsigned int also_allowed[] = {
	SYS_flock, SYS_renameat2, SYS_copy_file_range, SYS_rt_sigpending,
	SYS_rt_sigtimedwait,
};

enum {
	NR_ALLOWED = sizeof(allowed) / sizeof(allowed[0]),
	NR_ALSO = sizeof(also_allowed) / sizeof(also_allowed[0]),
};

static unsigned int call_at(unsigned int i)
{
	return i < NR_ALLOWED ? allowed[i] : also_allowed[i - NR_ALLOWED];
}

int narrow_seccomp(bool kills)
{
	unsigned int nr = kills ? NR_ALLOWED + NR_ALSO : NR_ALLOWED, i;
	struct sock_filter filter[NR_ALLOWED + NR_ALSO + 3];
	struct sock_fprog program = { .len = (unsigned short)(nr + 3),
				      .filter = filter };

	filter[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		offsetof(struct seccomp_data, nr));
	for (i = 0; i < nr; i++)
		filter[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP |
			BPF_JEQ | BPF_K, call_at(i),
			(unsigned char)(nr - i), 0);
	filter[1 + nr] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, kills ?
		0x80000000u /* SECCOMP_RET_KILL_PROCESS, Linux 4.14 */ :
		SECCOMP_RET_ERRNO | EPERM);
	filter[2 + nr] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
						      SECCOMP_RET_ALLOW);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int narrow_profilers(void)
{
	static struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_timer_create, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_timer_settime, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_timer_delete, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, 0x80000000u),
	};
	struct sock_fprog program = { .len = sizeof(filter) / sizeof(*filter),
				      .filter = filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			    SECCOMP_FILTER_FLAG_TSYNC, &program);
}
