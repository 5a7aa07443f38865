/* SPDX-License-Identifier: MIT */
#include "tools/attach.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inject/protocol.h"
#include "tools/attach_stub.h"
#include "tools/attach_thread.h"

#define MS 1000000ull
#define TAKE_NS (5000 * MS)     /* to find a thread */
#define CALL_NS (1000 * MS)     /* for one call: some 100 us */
#define LOAD_NS (5000 * MS)     /* for dlopen(): some ms */
enum { LOOK_US = 2000 };

/* __libc_dlopen_mode() takes it from those that may call it. */
#define INTERNAL_OPEN 0x80000000u

/* Functions of the process. */
struct functions {
	uint64_t map, protect, unmap, create;   /* called by its thread */
	uint64_t open, symbol, why, self, detach, pause, control;
	uint64_t memory, close;
	bool is_internal;
};

/* Before glibc 2.34 some are in libraries of their own. */
static uint64_t find(const struct attach *a, const char *name)
{
	static const char *const libraries[] = { "libc", "libpthread",
		"libdl" };
	uint64_t found = 0;

	for (int i = 0; i < 3 && !found; i++) {
		const struct region *r = memory_library(&a->memory,
							libraries[i]);

		if (r)
			found = memory_symbol(&a->memory, r->base, name);
	}
	return found;
}

static int find_functions(struct attach *a, struct functions *f)
{
	const struct { const char *name; uint64_t *at; } wanted[] = {
		{ "mmap", &f->map }, { "mprotect", &f->protect },
		{ "munmap", &f->unmap }, { "pthread_create", &f->create },
		{ "pthread_self", &f->self }, { "pthread_detach", &f->detach },
		{ "usleep", &f->pause }, { "prctl", &f->control },
		{ "memfd_create", &f->memory }, { "close", &f->close },
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		*wanted[i].at = find(a, wanted[i].name);
		if (!*wanted[i].at)
			return attach_refuse(a, "pid %ld: its C library has no "
				"%s() (a program without threads, before "
				"glibc 2.34)", a->process->pid,
				wanted[i].name);
	}
	f->open = find(a, "dlopen");
	f->symbol = find(a, "dlsym");
	f->why = find(a, "dlerror");
	f->is_internal = !f->open || !f->symbol;
	if (f->is_internal) {
		f->open = find(a, "__libc_dlopen_mode");
		f->symbol = find(a, "__libc_dlsym");
		f->why = 0;
	}
	return f->open && f->symbol ? 0 : attach_refuse(a, "pid %ld: its C "
		"library has no dlopen()", a->process->pid);
}

static uint64_t find_sigreturn(const struct attach *a)
{
	uint64_t base = a->libc;

	for (size_t i = 0; arch_sigreturn.in_vdso && i < a->memory.nr; i++)
		if (!strcmp(a->memory.regions[i].path, "[vdso]"))
			base = a->memory.regions[i].base;
	return memory_find(&a->memory, base, arch_sigreturn.bytes,
			   arch_sigreturn.size);
}

/* ---- With the borrowed thread ---- */

static int failed(struct attach *a, const char *what, int err)
{
	if (err == -ETIMEDOUT)
		return attach_refuse(a, "pid %ld: %s() did not return within "
			"%llu ms; the thread was put back to where it was",
			a->process->pid, what, CALL_NS / MS);
	if (err == -ESRCH)
		return attach_refuse(a, "pid %ld has ended meanwhile",
				     a->process->pid);
	return attach_refuse(a, "pid %ld: %s(): %s; it goes on as before",
			     a->process->pid, what, strerror(-err));
}

static int call(struct attach *a, struct thread *t, const char *what,
		uint64_t function, const uint64_t args[6], long nr,
		long *result)
{
	int err = thread_call(t, function, args, nr, result,
			      thread_now_ns() + CALL_NS);

	if (!err && *result < 0 && *result > -4096)
		err = (int)*result;
	return err ? failed(a, what, err) : 0;
}

static struct stub_data *make_data(const struct attach *a,
				   const struct functions *f, uint64_t at)
{
	struct stub_data *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->mapping = (void *)at;
	d->mapping_size = STUB_SIZE;
	d->unmap = (int (*)(void *, size_t))f->unmap;
	d->open = (void *(*)(const char *, int))f->open;
	d->symbol = (void *(*)(void *, const char *))f->symbol;
	d->why = (char *(*)(void))f->why;
	d->self = (unsigned long (*)(void))f->self;
	d->detach = (int (*)(unsigned long))f->detach;
	d->pause = (int (*)(unsigned int))f->pause;
	d->control = (int (*)(int, ...))f->control;
	d->memory = (int (*)(const char *, unsigned int))f->memory;
	d->close = (int (*)(int))f->close;
	d->in_memory = !a->path[0];
	snprintf(d->file, sizeof(d->file), "gputrace/libgputrace.so");
	d->open_flags = RTLD_NOW | RTLD_GLOBAL;
	if (f->is_internal)
		d->open_flags |= (int)INTERNAL_OPEN;
	snprintf(d->thread, sizeof(d->thread), "%s", PROTOCOL_LOADER);
	snprintf(d->entry, sizeof(d->entry), "gputrace_attach");
	snprintf(d->path, sizeof(d->path), "%s", a->path);
	snprintf(d->settings, sizeof(d->settings), "%s", a->settings);
	return d;
}

static bool write_stub(const struct attach *a, const struct functions *f,
		       uint64_t at)
{
	struct stub_data *d = make_data(a, f, at);
	bool done = d && memory_write(&a->memory, at, __start_stub_body,
				      (size_t)(__stop_stub_body -
					       __start_stub_body)) &&
		memory_write(&a->memory, at + STUB_CODE, d, sizeof(*d));

	free(d);
	return done;
}

/* The thread that loads the library; its pthread_t goes to the end of the
 * mapping. */
static int create(struct attach *a, struct thread *t,
		  const struct functions *f, uint64_t at)
{
	uint64_t protect[6] = { at + STUB_CODE, STUB_SIZE - STUB_CODE,
		PROT_READ | PROT_WRITE };
	uint64_t start = at + (uint64_t)(stub_begin - __start_stub_body);
	uint64_t args[6] = { at + STUB_SIZE - 16, 0, start, at + STUB_CODE };
	long result;

	if (call(a, t, "mprotect", f->protect, protect, SYS_mprotect, &result))
		return -1;
	if (!write_stub(a, f, at))
		return failed(a, "mmap", -EFAULT);
	return call(a, t, "pthread_create", f->create, args, SYS_clone,
		    &result);
}

static int borrow(struct attach *a, struct thread *t,
		  const struct functions *f, uint64_t *at)
{
	uint64_t map[6] = { 0, STUB_SIZE, PROT_READ | PROT_EXEC,
		MAP_PRIVATE | MAP_ANONYMOUS, ~0ull, 0 };
	uint64_t unmap[6] = { 0, STUB_SIZE };
	long result, ignored;

	if (call(a, t, "mmap", f->map, map, SYS_mmap, &result))
		return -1;
	*at = (uint64_t)result;
	if (!create(a, t, f, *at))
		return 0;
	unmap[0] = *at;
	if (t->in_syscall)
		thread_call(t, f->unmap, unmap, SYS_munmap, &ignored,
			    thread_now_ns() + CALL_NS);
	return -1;
}

static int take(struct attach *a, struct thread *t)
{
	char what[256];
	int err = thread_take(t, (pid_t)a->process->pid, &a->memory,
			      thread_now_ns() + TAKE_NS, what, sizeof(what));

	if (err == -EPERM)
		return attach_denied(a, a->process->pid);
	if (err == -EAGAIN)
		return attach_refuse(a, "pid %ld: no thread could be borrowed "
			"within %llu s: %s; try again", a->process->pid,
			TAKE_NS / 1000 / MS, what);
	if (err == -ETIMEDOUT)
		return attach_refuse(a, "pid %ld does not stop: one of its "
			"threads sleeps uninterruptibly (disk, NFS, driver); "
			"try again", a->process->pid);
	return err ? failed(a, "ptrace", err) : 0;
}

/* ---- With the new thread ---- */

static int say_result(struct attach *a, const struct stub_data *d)
{
	if (d->result == STUB_NO_LIBRARY && d->in_memory)
		return attach_refuse(a, "pid %ld can see no libgputrace.so, "
			"may not write and execute in any of its folders "
			"(TMPDIR, /tmp, /var/tmp, /dev/shm), nor load it from "
			"memory: %.*s (Docker: --tmpfs /tmp:exec; Kubernetes: "
			"an emptyDir at /tmp)", a->process->pid,
			(int)sizeof(d->error), d->error[0] ? d->error :
			"memfd_create() failed");
	if (d->result == STUB_NO_LIBRARY)
		return attach_refuse(a, "pid %ld cannot load %s: %.*s",
			a->process->pid, a->path, (int)sizeof(d->error),
			d->error[0] ? d->error : "dlopen() failed");
	if (d->result == STUB_NO_ENTRY)
		return attach_refuse(a, "%s in pid %ld is of another version "
			"(it has no gputrace_attach())", a->path,
			a->process->pid);
	if (d->answer == -EALREADY)
		return attach_refuse(a, "pid %ld has the library since just "
			"now, by another attach", a->process->pid);
	if (d->answer)
		return attach_refuse(a, "pid %ld: the library refused: %s",
			a->process->pid, d->answer == -EPERM ? "the program "
			"is setuid or has file capabilities" :
			strerror(-d->answer));
	return 0;
}

/* Writes the library into the descriptor that the thread has made for it. */
static bool fill(struct attach *a, uint64_t data)
{
	struct look machine = { .fd = -1 };
	uint32_t yes = 1;
	char file[64];
	int32_t number = -1;
	bool done = false;
	size_t size;
	char *content = look_slurp(&machine, a->library, LIBRARY_MAX, &size);
	int fd = -1;

	if (content && memory_read(&a->memory, data + offsetof(
			struct stub_data, fd), &number, sizeof(number))) {
		snprintf(file, sizeof(file), "/proc/%ld/fd/%d",
			 a->process->pid, number);
		fd = open(file, O_WRONLY | O_CLOEXEC);
	}
	if (fd >= 0) {
		done = write(fd, content, size) == (ssize_t)size;
		close(fd);
	}
	free(content);
	snprintf(a->path, sizeof(a->path), "/proc/self/fd/%d", number);
	return done && memory_write(&a->memory, data + offsetof(
			struct stub_data, path), a->path, strlen(a->path) + 1)
		&& memory_write(&a->memory, data + offsetof(
			struct stub_data, is_filled), &yes, sizeof(yes));
}

static int wait_loaded(struct attach *a, uint64_t at)
{
	uint64_t data = at + STUB_CODE, deadline = thread_now_ns() + LOAD_NS;
	uint32_t step, yes = 1;
	struct stub_data *d = malloc(sizeof(*d));
	bool is_filled = false;
	int err;

	for (;;) {
		if (!memory_read(&a->memory, data +
				 offsetof(struct stub_data, step), &step,
				 sizeof(step))) {
			err = failed(a, "dlopen", -ESRCH);
			break;
		}
		if (step == STUB_WAITS && !is_filled) {
			is_filled = true;
			if (!fill(a, data))
				deadline = 0;
		}
		if (step == STUB_DONE) {
			err = d && memory_read(&a->memory, data, d, sizeof(*d))
				? say_result(a, d) : failed(a, "dlopen",
							    -EFAULT);
			memory_write(&a->memory, data +
				     offsetof(struct stub_data, is_read), &yes,
				     sizeof(yes));
			break;
		}
		if (thread_now_ns() > deadline) {
			a->is_copy = false;     /* it may still be opened */
			err = attach_refuse(a, "pid %ld has not loaded the "
				"library within %llu s: another thread holds "
				"the loader's lock; its thread " PROTOCOL_LOADER
				" goes on by itself when it gets it",
				a->process->pid, LOAD_NS / 1000 / MS);
			break;
		}
		usleep(LOOK_US);
	}
	free(d);
	return err;
}

int attach_load(struct attach *a)
{
	static struct thread t;
	struct functions f;
	uint64_t at = 0;
	int err;

	if (find_functions(a, &f))
		return -1;
	t.sigreturn = find_sigreturn(a);
	if (!t.sigreturn)
		return attach_refuse(a, "pid %ld: no return from signal "
			"handlers in its C library", a->process->pid);
	if (take(a, &t))
		return -1;
	err = borrow(a, &t, &f, &at);
	if (thread_release(&t) && !err)
		err = failed(a, "ptrace", -ESRCH);
	return err ? err : wait_loaded(a, at);
}
