/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/attach.h"
#include "tools/doctor_elf.h"
#include "tools/proc_status.h"

enum { CAP_PTRACE = 19 };               /* linux/capability.h */

#define GRANT "Docker: --cap-add=SYS_PTRACE and --pid=container:NAME (or " \
	"--pid=host); Kubernetes: securityContext.capabilities.add: " \
	"[SYS_PTRACE] and shareProcessNamespace: true, or kubectl debug " \
	"--target=CONTAINER --profile=general"

int attach_refuse(struct attach *a, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(a->why, sizeof(a->why), format, args);
	va_end(args);
	return -1;
}

static bool read_status(long pid, char status[PROC_STATUS_SIZE])
{
	struct look machine = { .fd = -1 };

	return !proc_status_read(&machine, pid, status);
}

static bool may_ptrace_all(void)
{
	char status[PROC_STATUS_SIZE];

	return read_status(0, status) &&
		proc_status_mask(status, "CapEff") >> CAP_PTRACE & 1;
}

bool attach_has_thread(pid_t pid, const char *name)
{
	struct look machine = { .fd = -1 };
	char path[64], text[32];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = look_folder(&machine, path);
	while (dir && !found && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%.10s/comm",
			 (int)pid, entry->d_name);
		if (look_read(&machine, path, text, sizeof(text)) <= 0)
			continue;
		text[strcspn(text, "\n")] = '\0';
		found = !strcmp(text, name);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* ---- Permission ---- */

static long ptrace_scope(void)
{
	struct look machine = { .fd = -1 };
	char text[32];

	/* Without Yama there is no such file: as with 0. */
	return look_read(&machine, "/proc/sys/kernel/yama/ptrace_scope", text,
			 sizeof(text)) > 0 ? strtol(text, NULL, 10) : 0;
}

static int refuse_tracer(struct attach *a, long pid, long tracer)
{
	return attach_refuse(a, "pid %ld is traced by pid %ld (gdb, strace, "
		"another attach): only one can; end that first", pid, tracer);
}

int attach_denied(struct attach *a, long pid)
{
	long scope = ptrace_scope(), uid = -1, tracer = 0;
	char status[PROC_STATUS_SIZE];

	if (read_status(pid, status)) {
		uid = proc_status_number(status, "Uid", 0);
		tracer = proc_status_number(status, "TracerPid", 0);
	}
	if (tracer > 0)
		return refuse_tracer(a, pid, tracer);
	if (scope >= 3)
		return attach_refuse(a, "pid %ld: kernel.yama.ptrace_scope is "
			"%ld, which forbids ptrace until the machine restarts "
			"with less; start the program with gputrace record",
			pid, scope);
	if (may_ptrace_all())
		return attach_refuse(a, "pid %ld: ptrace is forbidden, though "
			"CAP_SYS_PTRACE is there: its user namespace is not "
			"below this one, or seccomp, AppArmor or SELinux "
			"forbid it (as root on the host it works; Docker: "
			"--security-opt seccomp=unconfined, apparmor="
			"unconfined)", pid);
	if (uid != (long)geteuid())
		return attach_refuse(a, "pid %ld belongs to uid %ld, this is "
			"uid %ld without CAP_SYS_PTRACE: run this as that "
			"user or as root (" GRANT ")", pid, uid,
			(long)geteuid());
	if (scope > 0)
		return attach_refuse(a, "pid %ld: kernel.yama.ptrace_scope is "
			"%ld and CAP_SYS_PTRACE is missing: run this as root, "
			"or sysctl kernel.yama.ptrace_scope=0 (" GRANT ")",
			pid, scope);
	return attach_refuse(a, "pid %ld may not be traced by its own user "
		"(it is setuid, or has made itself undumpable), and "
		"CAP_SYS_PTRACE is missing: run this as root (" GRANT ")",
		pid);
}

static int check_permission(struct attach *a, long pid)
{
	struct look machine = { .fd = -1 };
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/maps", pid);
	fd = look_open(&machine, path, O_RDONLY);
	if (fd >= 0)
		close(fd);
	return fd == -EACCES || fd == -EPERM ? attach_denied(a, pid) : 0;
}

/* ---- What it is doing ---- */

static int check_state(struct attach *a)
{
	const struct process *p = a->process;

	if (p->tracer)
		return refuse_tracer(a, p->pid, p->tracer);
	if (p->state == 'T')
		return attach_refuse(a, "pid %ld is stopped: kill -CONT %ld "
			"first", p->pid, p->pid);
	if (p->pid == getpid())
		return attach_refuse(a, "pid %ld is this command", p->pid);
	return 0;
}

/* ---- What it is ---- */

static int check_program(struct attach *a)
{
	unsigned char ident[EI_NIDENT] = { 0 };
	const struct process *p = a->process;
	char path[64], interp[128];
	struct elf e;
	int fd, err;

	snprintf(path, sizeof(path), "/proc/%ld/exe", p->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return attach_refuse(a, "pid %ld: its program cannot be read: "
				     "%s", p->pid, strerror(errno));
	err = pread(fd, ident, sizeof(ident), 0) != sizeof(ident) ||
		elf_open(&e, fd) ? -1 : 0;
	if (err) {
		close(fd);
		return attach_refuse(a, "pid %ld is a %d-bit program%s: this "
			"command and its library are for another kind of "
			"machine", p->pid, ident[EI_CLASS] == ELFCLASS32 ? 32 :
			64, ident[EI_CLASS] == ELFCLASS32 ? "" :
			" of another architecture");
	}
	snprintf(interp, sizeof(interp), "%s", e.interp);
	elf_close(&e);
	/* A loader that was called by name is the program, and not static. */
	if (!*interp && !process_find(p, "/libc.so.6", NULL) &&
	    !process_find(p, "/libc-2.", NULL))
		return attach_refuse(a, "pid %ld is linked statically: it has "
			"no loader that could bring a library in", p->pid);
	if (strstr(interp, "ld-musl"))
		return attach_refuse(a, "pid %ld runs with musl, and "
			"libgputrace.so needs glibc: use an image with glibc "
			"(Debian, Ubuntu, RHEL)", p->pid);
	return 0;
}

static int check_libc(struct attach *a)
{
	const struct region *libc = memory_library(&a->memory, "libc");

	a->libc = libc ? libc->base : 0;
	if (!libc || !memory_has_string(&a->memory, libc->base, "GLIBC_2.17"))
		return attach_refuse(a, "pid %ld has no glibc loaded",
				     a->process->pid);
	if (!memory_has_string(&a->memory, libc->base, "GLIBC_2.28"))
		return attach_refuse(a, "pid %ld has a glibc older than 2.28, "
			"which libgputrace.so needs", a->process->pid);
	return 0;
}

/* ---- Filters of system calls ---- */

/* A filter that came with the container lets a server start threads and load
 * libraries; it is there in the container's first process too.  One that the
 * program made for itself may end it at the first call that it did not
 * foresee, and its text cannot be read. */
static long filters_of(const char *status)
{
	return proc_status_word(status, "Seccomp_filters", 0) ?
		proc_status_number(status, "Seccomp_filters", 0) :
		proc_status_number(status, "Seccomp", 0) == 2;
}

static int check_filters(struct attach *a)
{
	long pid = a->process->pid, up = pid, own;
	char status[PROC_STATUS_SIZE];

	if (!read_status(pid, status))
		return attach_refuse(a, "pid %ld has ended", pid);
	if (proc_status_number(status, "Seccomp", 0) == 1)
		return attach_refuse(a, "pid %ld is in seccomp's strict mode: "
			"it may do nothing but read and write", pid);
	own = filters_of(status);
	while (proc_status_last(status, "NSpid") != 1 && up > 1) {
		up = proc_status_number(status, "PPid", 0);
		if (!up || !read_status(up, status))
			break;
	}
	/* The first process: one filter is what its container gave it. */
	if (a->force || own <= (up == pid ? 1 : filters_of(status)))
		return 0;
	return attach_refuse(a, "pid %ld has a seccomp filter of its own "
		"(Seccomp_filters: %ld), which may end it at a system call "
		"that it does not expect; --force tries it all the same "
		"(needed: mmap, mprotect, clone, openat, socket; Docker: "
		"--security-opt seccomp=unconfined; Kubernetes: "
		"securityContext.seccompProfile.type: Unconfined)", pid, own);
}

static int check_shadow_stack(struct attach *a)
{
	char status[PROC_STATUS_SIZE];

	if (read_status(a->process->pid, status) &&
	    proc_status_has_word(status, "x86_Thread_features", "shstk"))
		return attach_refuse(a, "pid %ld has a shadow stack (CET), "
			"through which no call can be made from outside: "
			"start it with gputrace record", a->process->pid);
	return 0;
}

/* ---- All ---- */

static int check_need(struct attach *a)
{
	const struct mapped *there = process_find(a->process,
						  "/libgputrace.so", NULL);

	if (there) {
		snprintf(a->path, sizeof(a->path), "%s", there->path);
		return 1;
	}
	if (!a->force && !process_find(a->process, "/libcuda.so", NULL))
		return attach_refuse(a, "pid %ld (%s) does not use CUDA "
			"(libcuda.so is not loaded): there is nothing to "
			"record; --force attaches all the same", a->process->pid,
			a->process->name);
	return 0;
}

static int check_memory(struct attach *a)
{
	int err = memory_open(&a->memory, (pid_t)a->process->pid);

	if (err == -EACCES || err == -EPERM)
		return attach_denied(a, a->process->pid);
	return err ? attach_refuse(a, "pid %ld: its memory cannot be read: %s",
				   a->process->pid, strerror(-err)) : 0;
}

int attach_check(struct attach *a, long pid)
{
	static int (*const checks[])(struct attach *) = {
		check_state, check_program, check_need, check_shadow_stack,
		check_filters, check_memory, check_libc,
	};
	struct look machine = { .fd = -1 };
	int err = check_permission(a, pid);

	a->memory.fd = -1;
	if (err)
		return err;
	a->process = process_read(&machine, pid, a->why, sizeof(a->why));
	if (!a->process)
		return -1;
	for (size_t i = 0; !err && i < sizeof(checks) / sizeof(*checks); i++)
		err = checks[i](a);
	return err;
}
