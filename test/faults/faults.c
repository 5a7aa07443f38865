/* SPDX-License-Identifier: MIT */
/*
 * libfaults.so: makes calls of libgputrace.so fail, and only those.
 *
 *	LD_PRELOAD=libgputrace.so:libfaults.so FAULT=pwrite:3 decode
 *
 *   FAULT=NAME:N[=CODE]    the N-th call of NAME fails (errno, or result)
 *   FAULT=NAME:N+[=CODE]   and all that follow
 *   FAULT_REPORT=FILE      {"failed": count, "calls": {NAME: count},
 *                          "unknown": [NAME]}
 *
 * NAME is a function that libgputrace.so imports, or one of CUPTI's that it
 * asks dlsym for, or "memory" or "files": all that take memory, or write.  Its
 * table of imports (GOT) is patched before any constructor runs, and so is its
 * own of the calls that it stands before (collector/osrt.h), so that the
 * program's own calls and those of the C library are untouched.  An import that is in neither list below is "unknown":
 * whoever adds one says here whether it can fail.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "collector/osrt.h"

/*
 *   X(result, name, parameters, arguments, value of a failure, errno)
 *
 * errno 0: the value is the error (pthread's), or there is none.
 */
#define FAULTS(X) \
	X(void *, malloc, (size_t a), (a), NULL, ENOMEM) \
	X(void *, calloc, (size_t a, size_t b), (a, b), NULL, ENOMEM) \
	X(void *, realloc, (void *a, size_t b), (a, b), NULL, ENOMEM) \
	X(void *, strdup, (const char *a), (a), NULL, ENOMEM) \
	X(void *, strndup, (const char *a, size_t b), (a, b), NULL, ENOMEM) \
	X(void *, mmap, (void *a, size_t b, int c, int d, int e, off_t f), \
	  (a, b, c, d, e, f), MAP_FAILED, ENOMEM) \
	X(int, munmap, (void *a, size_t b), (a, b), -1, ENOMEM) \
	X(int, open, (const char *a, int b, mode_t c), (a, b, c), -1, EMFILE) \
	X(int, close, (int a), (a), -1, EIO) \
	X(ssize_t, read, (int a, void *b, size_t c), (a, b, c), -1, EIO) \
	X(ssize_t, write, (int a, const void *b, size_t c), (a, b, c), -1, \
	  EIO) \
	X(ssize_t, pread, (int a, void *b, size_t c, off_t d), (a, b, c, d), \
	  -1, EIO) \
	X(ssize_t, pwrite, (int a, const void *b, size_t c, off_t d), \
	  (a, b, c, d), -1, ENOSPC) \
	X(int, ftruncate, (int a, off_t b), (a, b), -1, EIO) \
	X(int, flock, (int a, int b), (a, b), -1, ENOLCK) \
	X(int, link, (const char *a, const char *b), (a, b), -1, EPERM) \
	X(int, unlink, (const char *a), (a), -1, EACCES) \
	X(int, rename, (const char *a, const char *b), (a, b), -1, EACCES) \
	X(int, access, (const char *a, int b), (a, b), -1, ENOENT) \
	X(ssize_t, readlink, (const char *a, char *b, size_t c), (a, b, c), \
	  -1, EACCES) \
	X(void *, getcwd, (char *a, size_t b), (a, b), NULL, ENOENT) \
	X(void *, realpath, (const char *a, char *b), (a, b), NULL, ENOENT) \
	X(void *, opendir, (const char *a), (a), NULL, EMFILE) \
	X(void *, readdir, (DIR *a), (a), NULL, EIO) \
	X(int, closedir, (DIR *a), (a), -1, EIO) \
	X(void *, fopen, (const char *a, const char *b), (a, b), NULL, \
	  EMFILE) \
	X(void *, fdopen, (int a, const char *b), (a, b), NULL, ENOMEM) \
	X(void *, fgets, (char *a, int b, FILE *c), (a, b, c), NULL, EIO) \
	X(int, fclose, (FILE *a), (a), EOF, EIO) \
	X(int, glob, (const char *a, int b, int (*c)(const char *, int), \
	  glob_t *d), (a, b, c, d), GLOB_NOSPACE, 0) \
	X(void *, dlopen, (const char *a, int b), (a, b), NULL, 0) \
	X(void *, dlsym, (void *a, const char *b), (a, b), NULL, 0) \
	X(void *, dlerror, (void), (), NULL, 0) \
	X(int, dladdr, (const void *a, Dl_info *b), (a, b), 0, 0) \
	X(int, dlclose, (void *a), (a), -1, 0) \
	X(int, gethostname, (char *a, size_t b), (a, b), -1, ENAMETOOLONG) \
	X(int, clock_gettime, (clockid_t a, struct timespec *b), (a, b), -1, \
	  EINVAL) \
	X(void *, gmtime_r, (const time_t *a, struct tm *b), (a, b), NULL, \
	  EOVERFLOW) \
	X(ssize_t, getrandom, (void *a, size_t b, unsigned c), (a, b, c), -1, \
	  ENOSYS) \
	X(int, unshare, (int a), (a), -1, EPERM) \
	X(int, socket, (int a, int b, int c), (a, b, c), -1, EMFILE) \
	X(int, bind, (int a, const void *b, socklen_t c), (a, b, c), -1, \
	  EADDRINUSE) \
	X(int, listen, (int a, int b), (a, b), -1, EADDRINUSE) \
	X(int, connect, (int a, const void *b, socklen_t c), (a, b, c), -1, \
	  EACCES) \
	X(int, accept4, (int a, void *b, socklen_t *c, int d), (a, b, c, d), \
	  -1, EMFILE) \
	X(ssize_t, recvmsg, (int a, struct msghdr *b, int c), (a, b, c), -1, \
	  ECONNRESET) \
	X(ssize_t, send, (int a, const void *b, size_t c, int d), \
	  (a, b, c, d), -1, EPIPE) \
	X(int, getsockopt, (int a, int b, int c, void *d, socklen_t *e), \
	  (a, b, c, d, e), -1, EBADF) \
	X(int, fcntl, (int a, int b, long c), (a, b, c), -1, EBADF) \
	X(int, mkdir, (const char *a, mode_t b), (a, b), -1, EACCES) \
	X(int, chmod, (const char *a, mode_t b), (a, b), -1, EPERM) \
	X(int, fchmodat, (int a, const char *b, mode_t c, int d), \
	  (a, b, c, d), -1, EPERM) \
	X(int, unlinkat, (int a, const char *b, int c), (a, b, c), -1, \
	  EACCES) \
	X(long, sysconf, (int a), (a), -1, EINVAL) \
	X(int, getrlimit, (int a, struct rlimit *b), (a, b), -1, EINVAL) \
	X(int, poll, (struct pollfd *a, nfds_t b, int c), (a, b, c), -1, \
	  EINTR) \
	X(int, __cxa_at_quick_exit, (void (*a)(void *), void *b), (a, b), -1, \
	  0) \
	X(int, prctl, (long a, long b, long c, long d, long e), \
	  (a, b, c, d, e), -1, EINVAL) \
	X(long, syscall, (long a, long b, long c, long d, long e, long f, \
	  long g), (a, b, c, d, e, f, g), -1, ENOSYS) \
	X(int, sigaction, (int a, const struct sigaction *b, \
	  struct sigaction *c), (a, b, c), -1, EINVAL) \
	X(int, sigpending, (sigset_t *a), (a), -1, EFAULT) \
	X(int, sigtimedwait, (const sigset_t *a, siginfo_t *b, \
	  const struct timespec *c), (a, b, c), -1, EINTR) \
	X(int, pthread_create, (pthread_t *a, const pthread_attr_t *b, \
	  void *(*c)(void *), void *d), (a, b, c, d), EAGAIN, 0) \
	X(int, pthread_attr_init, (pthread_attr_t *a), (a), ENOMEM, 0) \
	X(int, pthread_attr_setstacksize, (pthread_attr_t *a, size_t b), \
	  (a, b), EINVAL, 0) \
	X(int, pthread_setname_np, (pthread_t a, const char *b), (a, b), \
	  ENOENT, 0) \
	X(int, pthread_key_create, (pthread_key_t *a, void (*b)(void *)), \
	  (a, b), EAGAIN, 0) \
	X(int, pthread_setspecific, (pthread_key_t a, const void *b), (a, b), \
	  ENOMEM, 0) \
	X(int, pthread_detach, (pthread_t a), (a), ESRCH, 0) \
	X(int, __cxa_atexit, (void (*a)(void *), void *b, void *c), \
	  (a, b, c), -1, 0) \
	X(int, __register_atfork, (void (*a)(void), void (*b)(void), \
	  void (*c)(void), void *d), (a, b, c, d), ENOMEM, 0)

/* What cannot fail, has no result that tells, or fails by a fault of ours. */
static const char *const sure[] = {
	"__ctype_b_loc", "__environ", "environ", "__errno_location",
	"__stack_chk_fail", "_setjmp", "longjmp", "getauxval", "geteuid", "getpid", "getppid",
	"free", "gettimeofday", "globfree", "fnmatch", "qsort", "qsort_r", "strtoul", "strtol",
	"strtoull", "dirfd", "dl_iterate_phdr",
	"bcmp", "memchr", "memcmp", "memcpy", "memmem", "memmove", "memset", "strchr", "strcmp",
	"strcpy", "strcspn", "strerror", "strlen", "strncasecmp", "strncmp", "strnlen",
	"strrchr", "strspn", "strstr", "snprintf", "sprintf",
	"sigaddset", "sigdelset", "sigemptyset", "sigfillset", "sigismember",
	"__libc_current_sigrtmin", "__libc_current_sigrtmax",
	"pthread_self", "strerror", "vsnprintf",
	"pthread_attr_destroy", "pthread_mutex_lock", "pthread_mutex_unlock",
	"pthread_once", "pthread_setcancelstate", "pthread_sigmask",
	"pthread_testcancel", "sem_trywait", "pthread_rwlock_tryrdlock",
	"pthread_rwlock_trywrlock", "pthread_mutex_trylock",
};

#if defined(__x86_64__)
#define IS_IMPORT(type) ((type) == R_X86_64_JUMP_SLOT || \
	(type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_64)
#else
#define IS_IMPORT(type) ((type) == R_AARCH64_JUMP_SLOT || \
	(type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_ABS64)
#endif

struct call {
	const char *name;
	void *wrapper, *real;
	atomic_ulong count;
};

/* ---- The one fault of this process ---- */

static char fault_name[64];
static unsigned long fault_at;
static bool fault_stays;
static int fault_code = -1;             /* -1: the table's */
static atomic_ulong nr_failed;

/* getenv() knows nothing yet where this is called. */
static void read_fault(char **environment)
{
	const char *text = NULL, *colon;
	char *end;

	for (; *environment; environment++)
		if (!strncmp(*environment, "FAULT=", 6))
			text = *environment + 6;
	colon = text ? strchr(text, ':') : NULL;
	if (!colon)
		return;
	if ((size_t)(colon - text) >= sizeof(fault_name))
		abort();
	memcpy(fault_name, text, (size_t)(colon - text));
	fault_at = strtoul(colon + 1, &end, 10);
	fault_stays = *end == '+';
	end += fault_stays;
	if (*end == '=')
		fault_code = atoi(end + 1);
}

static const char *const memory_calls[] = {
	"malloc", "calloc", "realloc", "strdup", "strndup", "mmap", NULL,
};
static const char *const file_calls[] = {
	"open", "pwrite", "ftruncate", "link", "unlink", "rename",
	"opendir", "flock", NULL,
};
static struct group {
	struct call all;
	const char *const *calls;
} groups[] = {
	{ { "memory", NULL, NULL, 0 }, memory_calls },
	{ { "files", NULL, NULL, 0 }, file_calls },
};
enum { NR_GROUPS = 2 };

static bool is_in(const char *const *list, const char *name)
{
	for (; *list; list++)
		if (!strcmp(*list, name))
			return true;
	return false;
}

/* Counts; true if that is the call that fails. */
static bool is_named(struct call *call)
{
	unsigned long n = atomic_fetch_add(&call->count, 1) + 1;

	return fault_at && !strcmp(call->name, fault_name) &&
	       (n == fault_at || (fault_stays && n > fault_at));
}

static bool is_due(struct call *call)
{
	bool due = is_named(call);
	int i;

	for (i = 0; i < NR_GROUPS; i++)
		if (is_in(groups[i].calls, call->name))
			due |= is_named(&groups[i].all);
	nr_failed += due;
	return due;
}

/* ---- What the C library gives ---- */

enum {
#define X(result, name, parameters, arguments, value, error) CALL_##name,
	FAULTS(X)
#undef X
	NR_CALLS
};

static struct call calls[NR_CALLS];

static void fail(int error)
{
	if (fault_code >= 0 || error)
		errno = fault_code >= 0 ? fault_code : error;
}

static void *wrap_dlsym(void *handle, const char *name);

#define X(result, name, parameters, arguments, value, error) \
	static result fault_##name parameters \
	{ \
		struct call *call = &calls[CALL_##name]; \
		result (*real) parameters = \
			(result (*) parameters)call->real; \
		if (is_due(call)) { \
			fail(error); \
			return value; \
		} \
		return real arguments; \
	}
FAULTS(X)
#undef X

/* gettid, getpid and an exit cannot fail; a stderr that cannot be looked at
 * (fstat: inject/glibc.h) is not spoken to. */
static long wrap_syscall(long nr, long a, long b, long c, long d, long e,
			 long f)
{
	long (*real)(long, ...) = (long (*)(long, ...))
		calls[CALL_syscall].real;

	bool is_sure = nr == SYS_gettid || nr == SYS_getpid ||
		nr == SYS_exit_group || nr == SYS_fstat;

	return is_sure ? real(nr, a, b, c, d) :
		fault_syscall(nr, a, b, c, d, e, f);
}

/* A close that fails has closed. */
static int wrap_close(int fd)
{
	int (*real)(int) = (int (*)(int))calls[CALL_close].real;
	bool due = is_due(&calls[CALL_close]);
	int result = real(fd);

	if (!due)
		return result;
	fail(EIO);
	return -1;
}

static struct call calls[NR_CALLS] = {
#define X(result, name, parameters, arguments, value, error) \
	[CALL_##name] = { #name, (void *)fault_##name, NULL, 0 },
	FAULTS(X)
#undef X
};

/* ---- CUPTI, which comes by dlsym: at most six words, one result ---- */

#define THUNKS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) \
	X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) \
	X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31) X(32) \
	X(33) X(34) X(35) X(36) X(37) X(38) X(39)
enum { NR_THUNKS = 40, CUPTI_ERROR_UNKNOWN = 999 };

static struct call cupti[NR_THUNKS];
static char cupti_names[NR_THUNKS][64];

typedef int cupti_call(long, long, long, long, long, long);

static int call_cupti(struct call *call, long a, long b, long c, long d,
		      long e, long f)
{
	if (is_due(call))
		return fault_code >= 0 ? fault_code : CUPTI_ERROR_UNKNOWN;
	return ((cupti_call *)call->real)(a, b, c, d, e, f);
}

#define X(i) \
	static int thunk_##i(long a, long b, long c, long d, long e, long f) \
	{ \
		return call_cupti(&cupti[i], a, b, c, d, e, f); \
	}
THUNKS(X)
#undef X

static cupti_call *const thunks[NR_THUNKS] = {
#define X(i) thunk_##i,
	THUNKS(X)
#undef X
};

static void *wrap_dlsym(void *handle, const char *name)
{
	void *real = fault_dlsym(handle, name);
	int i;

	/* What the program asked for goes through us, too: its own call. */
	if (!real || handle == RTLD_NEXT || strncmp(name, "cupti", 5))
		return real;
	for (i = 0; i < NR_THUNKS && cupti[i].name; i++)
		if (!strcmp(cupti[i].name, name))
			return (void *)thunks[i];
	if (i == NR_THUNKS)
		abort();
	snprintf(cupti_names[i], sizeof(cupti_names[i]), "%s", name);
	cupti[i].name = cupti_names[i];
	cupti[i].real = real;
	return (void *)thunks[i];
}

/* ---- The table of imports ---- */

static char unknown[4096];

static void note_unknown(const char *name)
{
	size_t i, len = strlen(unknown);

	for (i = 0; i < sizeof(sure) / sizeof(*sure); i++)
		if (!strcmp(sure[i], name))
			return;
	snprintf(unknown + len, sizeof(unknown) - len, "%s\"%s\"",
		 len ? ", " : "", name);
}

static void patch(void **slot, const char *name)
{
	int i;

	for (i = 0; i < NR_CALLS; i++)
		if (!strcmp(calls[i].name, name))
			break;
	if (i == NR_CALLS) {
		note_unknown(name);
		return;
	}
	calls[i].real = *slot;
	*slot = i == CALL_dlsym ? (void *)wrap_dlsym :
		i == CALL_syscall ? (void *)wrap_syscall :
		i == CALL_close ? (void *)wrap_close : calls[i].wrapper;
}

static void patch_all(ElfW(Addr) base, const ElfW(Rela) *list, size_t size,
		      const ElfW(Sym) *symbols, const char *strings)
{
	const ElfW(Sym) *symbol;
	size_t i;

	for (i = 0; list && i < size / sizeof(*list); i++) {
		symbol = &symbols[ELF64_R_SYM(list[i].r_info)];
		if (IS_IMPORT(ELF64_R_TYPE(list[i].r_info)) &&
		    symbol->st_shndx == SHN_UNDEF &&
		    ELF64_ST_BIND(symbol->st_info) != STB_WEAK)
			patch((void **)(base + list[i].r_offset),
			      strings + symbol->st_name);
	}
}

/* ---- The calls that the library stands before ---- */

static const char *const stood_before[] = {
#define X(name, ...) #name,
	OSRT_CALLS(X)
#undef X
};

/* A hidden symbol, by the file's own table. */
static void *hidden_symbol(const struct dl_phdr_info *object, const char *name)
{
	int fd = open(object->dlpi_name, O_RDONLY | O_CLOEXEC);
	off_t size = lseek(fd, 0, SEEK_END);
	const char *file = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd,
				0);
	const ElfW(Ehdr) *head = (const void *)file;
	const ElfW(Shdr) *section;
	const ElfW(Sym) *symbol = NULL;
	size_t i, nr = 0;

	if (fd < 0 || file == MAP_FAILED)
		abort();
	section = (const void *)(file + head->e_shoff);
	for (i = 0; i < head->e_shnum && !nr; i++) {
		if (section[i].sh_type != SHT_SYMTAB)
			continue;
		symbol = (const void *)(file + section[i].sh_offset);
		nr = section[i].sh_size / sizeof(*symbol);
		section = &section[section[i].sh_link];
	}
	for (; nr && strcmp(file + section->sh_offset + symbol->st_name, name);
	     nr--)
		symbol++;
	if (!nr)
		abort();
	close(fd);              /* the mapping stays: it is a test */
	return (void *)(object->dlpi_addr + symbol->st_value);
}

static void patch_slots(const struct dl_phdr_info *object)
{
	struct osrt_slot *slots = hidden_symbol(object, "osrt_slots");
	int i, n;

	((void (*)(void))hidden_symbol(object, "osrt_resolve"))();
	for (i = 0; i < OSRT_NR; i++)
		for (n = 0; n < NR_CALLS; n++)
			if (!strcmp(calls[n].name, stood_before[i]))
				patch((void **)&slots[i].direct,
				      stood_before[i]);
}

/* The table is read-only by now (-z relro). */
static void unprotect(const struct dl_phdr_info *object)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int i;

	for (i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		ElfW(Addr) at = (object->dlpi_addr + part->p_vaddr) &
			~(page - 1);

		if (part->p_type == PT_GNU_RELRO &&
		    mprotect((void *)at, object->dlpi_addr + part->p_vaddr +
			     part->p_memsz - at, PROT_READ | PROT_WRITE))
			abort();
	}
}

static int visit(struct dl_phdr_info *object, size_t size, void *found)
{
	const ElfW(Dyn) *dynamic = NULL;
	ElfW(Addr) value[64] = { 0 };
	int i;

	(void)size;
	if (!strstr(object->dlpi_name, "libgputrace.so"))
		return 0;
	for (i = 0; i < object->dlpi_phnum; i++)
		if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const void *)(object->dlpi_addr +
				object->dlpi_phdr[i].p_vaddr);
	for (; dynamic && dynamic->d_tag; dynamic++)
		if (dynamic->d_tag > 0 && dynamic->d_tag < 64)
			value[dynamic->d_tag] = dynamic->d_un.d_ptr;
	unprotect(object);
	patch_all(object->dlpi_addr, (const void *)value[DT_RELA],
		  value[DT_RELASZ], (const void *)value[DT_SYMTAB],
		  (const void *)value[DT_STRTAB]);
	patch_all(object->dlpi_addr, (const void *)value[DT_JMPREL],
		  value[DT_PLTRELSZ], (const void *)value[DT_SYMTAB],
		  (const void *)value[DT_STRTAB]);
	patch_slots(object);
	*(bool *)found = true;
	return 1;
}

/* Before all others (-z initfirst). */
__attribute__((constructor))
static void loaded(int argc, char **argv, char **environment)
{
	bool found = false;

	(void)argc;
	(void)argv;
	read_fault(environment);
	dl_iterate_phdr(visit, &found);
	if (!found)
		fault_at = 0;
}

static void print_count(FILE *file, const struct call *call)
{
	static const char *separator = "";

	fprintf(file, "%s\"%s\": %lu", separator, call->name,
		atomic_load(&call->count));
	separator = ", ";
}

__attribute__((destructor)) static void unloaded(void)
{
	const char *path = getenv("FAULT_REPORT");
	FILE *file = path ? fopen(path, "we") : NULL;
	int i;

	if (!file)
		return;
	fprintf(file, "{\"failed\": %lu, \"calls\": {",
		atomic_load(&nr_failed));
	for (i = 0; i < NR_CALLS; i++)
		print_count(file, &calls[i]);
	for (i = 0; i < NR_GROUPS; i++)
		print_count(file, &groups[i].all);
	for (i = 0; i < NR_THUNKS && cupti[i].name; i++)
		print_count(file, &cupti[i]);
	fprintf(file, "}, \"unknown\": [%s]}\n", unknown);
	fclose(file);
}
